// A lost machine: how long an empty one takes until its API answers, until the first app answers, and until all have answered.
// Beside the same Cellar, restarted with its disk. The bucket is in this process.
import { MemoryStore } from '../test/support/bucket/memory-store.ts';
import { bucketSettings } from '../test/support/bucket/settings.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { eventually } from '../test/support/processes.ts';
import { effort } from './support/bench-scale.ts';
import { copiesInBucket } from './support/copies-in-bucket.ts';

const APPS = effort(100, 2);
/** Data of each app in a Durable Object, in MiB. */
const ROWS_MB = effort(2, 1);
/** Number of each app's R2 objects, of 1 MiB each. */
const OBJECTS = effort(8, 1);
const AT_ONCE = 4;
const STORED_MS = 120_000;
const MB = 2 ** 20;
const APP = {
  'wrangler.toml': `name = "app"
main = "index.js"
compatibility_date = "2026-10-01"
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
[[durable_objects.bindings]]
name = "ROWS"
class_name = "Rows"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Rows"]
`,
  'index.js': `import { DurableObject } from 'cloudflare:workers';
export class Rows extends DurableObject {
  add(mb) {
    this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS rows (data BLOB)');
    for (let n = 0; n < mb; n++) this.ctx.storage.sql.exec('INSERT INTO rows VALUES (randomblob(${MB}))');
  }
  count() { return this.ctx.storage.sql.exec('SELECT count(*) AS n FROM rows').one().n; }
}
export default {
  async fetch(request, { FILES, ROWS }) {
    const { searchParams } = new URL(request.url);
    const rows = ROWS.getByName('one');
    if (request.method === 'POST') {
      await rows.add(Number(searchParams.get('rows')));
      for (let n = 0; n < Number(searchParams.get('objects')); n++) await FILES.put('file-' + n, new Uint8Array(${MB}));
    }
    const object = await FILES.get('file-0');
    return Response.json([await rows.count(), (await object.arrayBuffer()).byteLength]);
  },
};
`,
};

/** Prints the times of both starts. */
export async function run(): Promise<void> {
  await using store = await new MemoryStore().start();
  const settings = { ...bucketSettings(store.place('bench/')), RUNNER_CLUSTER_KEY: 'c'.repeat(64) };
  await using kept = new Cellar(settings);
  await copiesInBucket(kept, store.place('bench/'), { count: APPS, files: APP, hasFiles: true });
  await kept.start();
  await askAll(kept, `/?rows=${ROWS_MB}&objects=${OBJECTS}`, 'POST');
  const archives = () => [...store.objects.keys()].filter((name) => name.endsWith('.tar.gz')).length;
  await eventually(() => archives() >= APPS, 'each release is in the bucket', STORED_MS);
  await kept.stop();
  const bytes = [...store.objects.values()].reduce((sum, { body }) => sum + body.length, 0);
  console.log(`${APPS} apps with ${(bytes / MB).toFixed(0)} MiB in the bucket`);
  await report('a restart with its disk', kept);
  await kept.stop('SIGKILL');
  await using next = new Cellar(settings);
  await report('an empty machine', next);
}

async function report(name: string, cellar: Cellar): Promise<void> {
  const begun = performance.now();
  const seconds = () => ((performance.now() - begun) / 1_000).toFixed(1);
  await cellar.start();
  const answers = async () => (await cellar.call('GET', '/v1/apps')).status === 200;
  await eventually(() => answers().catch(() => false), 'the API answers');
  const api = seconds();
  await ask(cellar, 0, '/', 'GET');
  const first = seconds();
  await askAll(cellar, '/', 'GET');
  console.log(`  ${name.padEnd(26)}API ${api} s, first app ${first} s, all apps ${seconds()} s`);
}

async function askAll(cellar: Cellar, path: string, method: 'GET' | 'POST'): Promise<void> {
  const left = Array.from({ length: APPS }, (_, n) => n).values();
  const next = async () => {
    for (const n of left) await ask(cellar, n, path, method);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
}

async function ask(cellar: Cellar, n: number, path: string, method: 'GET' | 'POST'): Promise<void> {
  const { status, text } = await cellar.get(`copy-${n}`, path, { method });
  if (status !== 200 || text !== JSON.stringify([ROWS_MB, MB])) throw new Error(`${status} ${text}`);
}
