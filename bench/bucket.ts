// Compares an app in the bucket with the same app with local data: wake, reads, writes, memory, requests to the bucket. The
// bucket is in this process, and answers at once, after 5 ms or after 30 ms.
import { setTimeout as sleep } from 'node:timers/promises';
import { MemoryStore } from '../test/support/bucket/memory-store.ts';
import { bucketSettings } from '../test/support/bucket/settings.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { cells } from '../test/support/processes.ts';
import { effort } from './support/bench-scale.ts';
import { median, privateKb } from './support/figures.ts';

const DELAYS_MS = [0, 5, 30];
const WAKES = effort(15, 1);
const CALLS = effort(200, 3);
const IDLE_MS = effort(60_000, 0);
const TARGETS = { wake: 2.5, read: 1.2, memoryMb: 3 };
const APP = {
  'wrangler.toml': `name = "app"
main = "index.js"
compatibility_date = "2026-10-01"
[[d1_databases]]
binding = "DB"
database_name = "rows"
database_id = "rows"
[[durable_objects.bindings]]
name = "COUNTER"
class_name = "Counter"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Counter"]
`,
  'migrations/0001_rows.sql': 'CREATE TABLE rows (n INTEGER); INSERT INTO rows VALUES (1);',
  'index.js': `import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  add() {
    const n = (this.ctx.storage.kv.get('n') ?? 0) + 1;
    this.ctx.storage.kv.put('n', n);
    return n;
  }
}
export default {
  async fetch(request, { DB, COUNTER }) {
    const { pathname } = new URL(request.url);
    if (pathname === '/row') return Response.json(await DB.prepare('SELECT n FROM rows').first());
    if (pathname === '/write') return new Response(String(await COUNTER.getByName('one').add()));
    return new Response('here');
  },
};`,
};
const KINDS = ['local', 'bucket'] as const;
type Figures = Record<(typeof KINDS)[number], number>;

/** Prints each figure of both apps, and the ratio. */
export async function run(): Promise<void> {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place('bench/'))).start();
  const ids = { local: '', bucket: '' };
  for (const storage of KINDS) {
    const { body } = await cellar.call('POST', '/v1/apps', { slug: `in-${storage}`, storage });
    ids[storage] = body.id;
    await cellar.deployAgain(`in-${storage}`, 'hello', APP);
  }
  /** Returns the median ms of a call, by app. The calls of the two apps alternate. */
  const times = async (count: number, path: string, before?: (id: string) => Promise<unknown>) => {
    const all: Record<string, number[]> = { local: [], bucket: [] };
    for (let n = 0; n < count; n++)
      for (const kind of KINDS) {
        await before?.(ids[kind]);
        const begun = performance.now();
        const { status, text } = await cellar.get(`in-${kind}`, path);
        if (status !== 200) throw new Error(`${kind} ${path}: ${status} ${text}`);
        all[kind]!.push(performance.now() - begun);
      }
    return { local: median(all.local!), bucket: median(all.bucket!) };
  };
  /** Returns the requests for the app in the bucket, and for everything else: the control plane, and checks of the bucket. */
  const asked = async (work: () => Promise<unknown>): Promise<Record<'app' | 'others', number>> => {
    const before = store.asked.length;
    await work();
    const all = store.asked.slice(before);
    const app = all.filter(({ key }) => key.includes(ids.bucket)).length;
    return { app, others: all.length - app };
  };
  const showAsked = async (name: string, work: () => Promise<unknown>) => {
    const { app, others } = await asked(work);
    console.log(`requests ${name}: ${app} of the app, ${others} others`);
  };
  const toSleep = (id: string) => cellar.call('POST', `/v1/apps/${id}/sleep`);
  for (const delayMs of DELAYS_MS) {
    store.faults = { delayMs };
    console.log(`the bucket answers after ${delayMs} ms`);
    const target = (value: number) => (delayMs === 0 ? value : null);
    show('first answer of a sleeping app', await times(WAKES, '/', toSleep), target(TARGETS.wake));
    show('the same with a row of D1', await times(WAKES, '/row', toSleep), null);
    show('read of a row of D1', await times(CALLS, '/row'), target(TARGETS.read));
    show('write to an object', await times(CALLS, '/write'), null);
  }
  store.faults = {};
  const memory = KINDS.map((kind) => privateKb(cells(ids[kind])[0]!.pid) / 1024) as [number, number];
  const more = (memory[1] - memory[0]).toFixed(1);
  console.log(
    `private memory: local ${memory[0].toFixed(1)} MB, bucket +${more} MB (target: +${TARGETS.memoryMb})`,
  );
  const writes = await asked(() => times(CALLS, '/write'));
  console.log(`requests to the bucket for a write: ${(writes.app / CALLS).toFixed(1)}`);
  await showAsked('in an idle minute', () => sleep(IDLE_MS));
  await showAsked('for a sleep and a wake', () => times(1, '/row', toSleep));
  await toSleep(ids.bucket);
  await sleep(effort(2_000, 0));
  await showAsked('in a minute asleep', () => sleep(IDLE_MS));
}

function show(what: string, { local, bucket }: Figures, target: number | null): void {
  const ratio = `${(bucket / local).toFixed(2)} ×${target === null ? '' : ` (target: ${target})`}`;
  console.log(`  ${what.padEnd(32)}local ${local.toFixed(1)} ms, bucket ${bucket.toFixed(1)} ms: ${ratio}`);
}
