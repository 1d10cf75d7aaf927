// An app's data moves from the disk into the bucket. Real workerd runs the app before and after.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readEveryAlarm } from '../../runtime/fleets/due/alarms.ts';
import { fillBucket } from '../../runtime/move/fill-bucket.ts';
import { clusterIn } from '../support/bucket/clusters.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { harness } from '../support/fleets/harness.ts';
import { workerd } from '../support/fleets/release.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const KEEPING = `
import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  fill() {
    const { sql, kv } = this.ctx.storage;
    sql.exec('CREATE TABLE words (id INTEGER PRIMARY KEY AUTOINCREMENT, word TEXT)');
    sql.exec("INSERT INTO words (word) VALUES ('one'), ('two')");
    sql.exec('CREATE VIRTUAL TABLE found USING fts5 (word)');
    sql.exec("INSERT INTO found VALUES ('a needle in hay')");
    kv.put('value', { map: new Map([[1, new Date(0)]]), bytes: new Uint8Array([1, 2, 3]) });
  }
  at(time) { return this.ctx.storage.setAlarm(time); }
  alarm() { this.ctx.storage.kv.put('fired', this.ctx.id.name ?? 'nobody'); }
  show() {
    const { sql, kv } = this.ctx.storage;
    return JSON.stringify({
      words: [...sql.exec('SELECT * FROM words').raw()],
      found: [...sql.exec("SELECT word FROM found WHERE found MATCH 'needle'").raw()],
      time: kv.get('value').map.get(1).getTime(),
      bytes: [...kv.get('value').bytes],
    });
  }
  fired() { return this.ctx.storage.kv.get('fired') ?? ''; }
}
export default {
  async fetch(request, env) {
    const [, call, argument] = new URL(request.url).pathname.split('/');
    const one = env.COUNTER.getByName('one');
    if (call === 'fill') {
      await one.fill();
      await env.DB.prepare('INSERT INTO hits VALUES (7)').run();
      return new Response('filled');
    }
    if (call === 'at') return new Response(String((await one.at(Number(argument))) ?? 'set'));
    if (call === 'fired') return new Response(await one.fired());
    const { results } = await env.DB.prepare('SELECT * FROM hits').all();
    return new Response((await one.show()) + JSON.stringify(results));
  },
};`;

test('databases, objects and alarms move into the bucket', async (t) => {
  await using store = await new MemoryStore().start();
  const local = harness(t);
  await local.fleet.start(await local.release(1, { code: KEEPING }));
  assert.equal((await local.ask('/fill')).text, 'filled');
  const before = (await local.ask('/show')).text;
  assert.match(before, /needle/);
  const at = Date.now() + 15_000;
  assert.equal((await local.ask(`/at/${at}`)).text, 'set');
  await local.fleet.stop();
  const data = `${local.root}/data`;
  const keys = readdirSync(join(data, 'do'));
  const signal = AbortSignal.timeout(60_000);
  const scratch = temporaryDirectory(t);
  const found = await readEveryAlarm(
    keys.map((key) => join(data, 'do', key, 'metadata.sqlite')),
    { owner: 'account', user: null, scratch: join(scratch, 'alarms'), signal },
  );
  const alarms = Object.fromEntries(keys.map((key, index) => [key, found[index]!]));
  assert.deepEqual(
    alarms.counter?.map(({ name, time }) => ({ name, time })),
    [{ name: 'one', time: at }],
  );
  const place = { workerd, user: null, memoryMb: 512, runDirectory: `${local.root}/run` };
  const cluster = clusterIn(store);
  await fillBucket({ cluster, place, copy: data, work: join(scratch, 'work'), alarms, signal });
  assert.equal(existsSync(`${local.root}/run/moving`), false);
  const next = harness(t, { cluster: clusterIn(store), idleMs: 0 });
  next.fleet.restore('idle', await next.release(1, { code: KEEPING }), null);
  await next.until(() => next.rests.length > 0);
  assert.deepEqual(next.rests, [{ dueAt: at }]);
  assert.equal((await next.ask('/show')).text, before);
  const isFired = async () => (await next.ask('/fired')).text;
  let fired = '';
  while (fired === '' && !signal.aborted) fired = await isFired();
  assert.equal(fired, 'one');
});
