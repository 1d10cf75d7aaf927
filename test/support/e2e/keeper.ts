// A sample app that keeps something in each kind of storage, for tests of what happens to storage.
import assert from 'node:assert/strict';
import type { Cellar } from './cellar.ts';

/** Large enough to be a file beside KV's index. */
const LARGE_BYTES = 300_000;

/** The files of the app. `GET /` tells all that it keeps; `POST /?n=1` adds a row, a key, a large value, an object and a count. */
export const KEEPER = {
  'wrangler.toml': `name = "keeper"
main = "index.js"
compatibility_date = "2026-10-01"
[[d1_databases]]
binding = "DB"
database_name = "notes"
database_id = "notes"
[[kv_namespaces]]
binding = "KV"
id = "words"
[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
[[durable_objects.bindings]]
name = "COUNTER"
class_name = "Counter"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Counter"]
`,
  'migrations/0001_notes.sql': 'CREATE TABLE notes (text TEXT);',
  'index.js': `import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  async add() {
    this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS counts (n INTEGER)');
    this.ctx.storage.sql.exec('INSERT INTO counts SELECT count(*) FROM counts');
  }
  async count() {
    this.ctx.storage.sql.exec('CREATE TABLE IF NOT EXISTS counts (n INTEGER)');
    return this.ctx.storage.sql.exec('SELECT count(*) AS n FROM counts').one().n;
  }
}
export default {
  async fetch(request, { DB, KV, COUNTER, FILES }) {
    const n = new URL(request.url).searchParams.get('n');
    const counter = COUNTER.getByName('one');
    if (request.method === 'POST') {
      await DB.prepare('INSERT INTO notes VALUES (?)').bind('note ' + n).run();
      await KV.put('word-' + n, 'value ' + n);
      await KV.put('large-' + n, n.repeat(${LARGE_BYTES}));
      await FILES.put('file-' + n, n.repeat(${LARGE_BYTES}));
      await counter.add();
    }
    const { results } = await DB.prepare('SELECT text FROM notes').all();
    const { keys } = await KV.list();
    const values = await Promise.all(keys.map(async ({ name }) => {
      const value = await KV.get(name);
      return name + '=' + (value.length > 100 ? value[0] + '*' + value.length : value);
    }));
    const { objects } = await FILES.list();
    const files = await Promise.all(objects.map(async ({ key }) => key + '*' + (await (await FILES.get(key)).text()).length));
    return Response.json({ notes: results.map(({ text }) => text), values, files, count: await counter.count() });
  },
};
`,
};

/** Has the app keep something. */
export async function keep(cellar: Cellar, slug: string, n: number): Promise<void> {
  const { status, text } = await cellar.get(slug, `/?n=${n}`, { method: 'POST' });
  assert.equal(status, 200, text);
}

/** What the app keeps. */
export async function kept(cellar: Cellar, slug: string): Promise<unknown> {
  const { status, text } = await cellar.get(slug);
  assert.equal(status, 200, text);
  return JSON.parse(text);
}

/** What it keeps after `keep` with each of these. */
export function keeps(...ns: number[]): unknown {
  const values = [
    ...ns.map((n) => `large-${n}=${String(n)[0]}*${LARGE_BYTES * String(n).length}`),
    ...ns.map((n) => `word-${n}=value ${n}`),
  ];
  const files = ns.map((n) => `file-${n}*${LARGE_BYTES * String(n).length}`);
  return { notes: ns.map((n) => `note ${n}`), values, files, count: ns.length };
}
