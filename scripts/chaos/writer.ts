// An app that writes numbers to each kind of storage. Each kind has a path: `POST /d1?n=1` writes a number, `GET /d1` lists
// all numbers.

export type Kind = 'd1' | 'kv' | 'r2' | 'queue' | 'do' | 'workflow' | 'cache';

/** The app's files. */
export const WRITER = {
  'wrangler.toml': `name = "writer"
main = "index.js"
compatibility_date = "2026-10-01"
[[d1_databases]]
binding = "DB"
database_name = "rows"
database_id = "rows"
[[kv_namespaces]]
binding = "KV"
id = "words"
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
[[queues.producers]]
binding = "JOBS"
queue = "jobs"
[[queues.consumers]]
queue = "jobs"
max_batch_timeout = 0
max_retries = 100
[[durable_objects.bindings]]
name = "NUMBERS"
class_name = "Numbers"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Numbers"]
[[workflows]]
binding = "FLOW"
name = "flow"
class_name = "Flow"
`,
  'migrations/0001_rows.sql':
    'CREATE TABLE written (n INTEGER PRIMARY KEY); CREATE TABLE delivered (n INTEGER PRIMARY KEY); CREATE TABLE ended (n INTEGER PRIMARY KEY, first TEXT);',
  'index.js': `import { DurableObject, WorkflowEntrypoint } from 'cloudflare:workers';
const retries = { limit: 1000, delay: 100, backoff: 'constant' };
export class Flow extends WorkflowEntrypoint {
  async run({ payload: { n } }, step) {
    const first = await step.do('first', { retries }, async () => crypto.randomUUID());
    await step.sleep('nap', n % 2 ? 300 : 3_000);
    // Its key is n: a step that has ended and ran again with another value fails.
    await step.do('end', { retries }, () => this.env.DB.prepare('INSERT INTO ended VALUES (?, ?) ON CONFLICT DO UPDATE SET n = iif(first = excluded.first, n, NULL)').bind(n, first).run().then(() => null));
  }
}
export class Numbers extends DurableObject {
  add(n) { return this.ctx.storage.put('n' + n, n); }
  async all() { return [...(await this.ctx.storage.list()).values()]; }
}
const rows = async (DB, table) => (await DB.prepare('SELECT n FROM ' + table).all()).results.map(({ n }) => n);
async function listed(store, found) {
  const names = [];
  for (let cursor, more = true; more;) {
    const page = await store.list({ cursor });
    names.push(...found(page));
    cursor = page.cursor;
    more = page.truncated ?? !page.list_complete;
  }
  return names.map(Number);
}
const body = (n) => String(n).repeat(1 + n % 500);
const cached = (n) => 'https://writer/cached/' + n;
/** The numbers up to n that the cache has, whole. */
async function inCache(n) {
  const found = [];
  const look = async (i) => {
    const response = await caches.default.match(cached(i));
    if (response === undefined) return;
    if (await response.text() !== body(i)) throw new Error('the cache has something else for ' + i);
    found.push(i);
  };
  for (let i = 1; i <= n; i += 100)
    await Promise.all(Array.from({ length: Math.min(100, n - i + 1) }, (_, more) => look(i + more)));
  return found;
}
export default {
  async fetch(request, { DB, KV, FILES, JOBS, NUMBERS, FLOW }) {
    const { pathname, searchParams } = new URL(request.url);
    const n = Number(searchParams.get('n'));
    const numbers = NUMBERS.getByName('all');
    const kinds = {
      d1: [() => DB.prepare('INSERT OR IGNORE INTO written VALUES (?)').bind(n).run(), () => rows(DB, 'written')],
      kv: [() => KV.put(String(n), 'x'.repeat(n % 3 ? 10 : 100_000)), () => listed(KV, ({ keys }) => keys.map(({ name }) => name))],
      r2: [() => FILES.put(String(n), 'x'.repeat(1 + n * 7919 % 200_000)), () => listed(FILES, ({ objects }) => objects.map(({ key }) => key))],
      queue: [() => JOBS.send(n), () => rows(DB, 'delivered')],
      workflow: [() => FLOW.create({ id: 'n' + n, params: { n } }), () => rows(DB, 'ended')],
      do: [() => numbers.add(n), () => numbers.all()],
      cache: [() => caches.default.put(cached(n), new Response(body(n), { headers: { 'cache-control': 'max-age=86400' } })), () => inCache(n)],
    };
    const [write, read] = kinds[pathname.slice(1)];
    if (request.method !== 'POST') return Response.json(await read());
    await write();
    return new Response('kept');
  },
  async queue({ messages }, { DB }) {
    for (const { body } of messages) await DB.prepare('INSERT OR IGNORE INTO delivered VALUES (?)').bind(body).run();
  },
};
`,
};
