// A sample app that stores data in each kind of storage, for tests of snapshots.
import assert from 'node:assert/strict';
import type { Cellar } from './cellar.ts';

/** Large enough to be stored as a file outside KV's index. */
const LARGE_BYTES = 300_000;

/** The app's files. `GET /` returns all stored data; `POST /?n=1` adds a row, a key, a large value, an object and a count. */
export const STORAGE_APP = {
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

/** Makes the app store the data of number `n`. */
export async function storeData(cellar: Cellar, slug: string, n: number): Promise<void> {
  const { status, text } = await cellar.get(slug, `/?n=${n}`, { method: 'POST' });
  assert.equal(status, 200, text);
}

/** Returns all data that the app has stored. */
export async function readData(cellar: Cellar, slug: string): Promise<unknown> {
  const { status, text } = await cellar.get(slug);
  assert.equal(status, 200, text);
  return JSON.parse(text);
}

/** Returns what `readData` must return after `storeData` with each of these numbers. */
export function expectedData(...ns: number[]): unknown {
  const values = [
    ...ns.map((n) => `large-${n}=${String(n)[0]}*${LARGE_BYTES * String(n).length}`),
    ...ns.map((n) => `word-${n}=value ${n}`),
  ];
  const files = ns.map((n) => `file-${n}*${LARGE_BYTES * String(n).length}`);
  return { notes: ns.map((n) => `note ${n}`), values, files, count: ns.length };
}
