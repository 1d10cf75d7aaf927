// Calls that an event waits for are timed in workerd and reported at its end. The app sees no difference.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { started } from '../../support/fleets/captured.ts';
import { eventually } from '../../support/processes.ts';

const APP = `
import { DurableObject } from 'cloudflare:workers';
const early = fetch;
export class Room extends DurableObject {
  async add() { await this.ctx.storage.put('n', 1); return 1; }
  async deep() { await this.env.KV.get('in the object'); return { inner: 2 }; }
  async fail() { throw new Error('rpc failed'); }
  async fetch() { return new Response('x'); }
}
const ways = {
  async '/all'(env) {
    await env.DB.prepare('CREATE TABLE IF NOT EXISTS t (a)').run();
    await env.DB.batch([env.DB.prepare('INSERT INTO t VALUES (?)').bind('private'), env.DB.prepare('SELECT * FROM t')]);
    await env.DB.prepare('SELECT * FROM nope').all().catch(() => {});
    await env.KV.put('key', 'b');
    await env.ROOM.getByName('a').add();
    await env.ROOM.getByName('a').fetch('http://room/x?y=secret');
    await env.SELF.fetch('http://self/none?token=secret');
    await early('http://user:secret@127.0.0.1:1/path?token=secret').catch(() => {});
    return 'all';
  },
  async '/deep'(env) { return String(await env.ROOM.getByName('a').deep().inner); },
  async '/unhandled'(env) { env.ROOM.getByName('a').fail(); await scheduler.wait(30); return 'x'; },
  async '/lost'() { fetch('http://127.0.0.1:1/'); await scheduler.wait(30); return 'x'; },
  async '/many'(env) { for (let i = 0; i < 60; i++) await env.KV.get('a'); return 'many'; },
  async '/long'(env) {
    const long = \`SELECT '\${'x'.repeat(600)}'\`;
    await env.DB.batch(Array.from({ length: 100 }, () => env.DB.prepare(long)));
    const address = 'http://127.0.0.1:1/' + 'x'.repeat(480);
    await Promise.all(Array.from({ length: 45 }, () => fetch(address).catch(() => {})));
    return 'long';
  },
  async '/at-once'(env) { await Promise.all(Array.from({ length: 4 }, () => env.KV.get('a'))); return 'x'; },
  async '/shape'(env) {
    const { get } = Object.getPrototypeOf(env.KV);
    return [fetch.name, fetch.length, get.name, fetch('http://127.0.0.1:1/').catch(() => {}) instanceof Promise].join();
  },
};
export default {
  async fetch(request, env) {
    const way = ways[new URL(request.url).pathname];
    return new Response(way === undefined ? 'none' : await way(env));
  },
};
`;
const FIELDS = {
  exports: ['Room', 'default'],
  classes: [{ className: 'Room', storageId: 'room', sql: true }],
  durableObjects: [{ binding: 'ROOM', className: 'Room' }],
  databases: [{ binding: 'DB', name: 'db', migrations: [], storageId: 'db' }],
  namespaces: [{ binding: 'KV', storageId: 'kv' }],
  services: [{ binding: 'SELF', service: null }],
};

type Reported = [
  kind: string,
  name: string,
  detail: string | null,
  startedAt: number,
  ms: number,
  failed: 0 | 1,
];

test('each kind of call is reported with its time, without values, keys and queries', async (t) => {
  const before = Date.now();
  const { get, calls } = await started(t, APP, FIELDS);
  assert.equal((await get('/all')).text, 'all');
  await eventually(
    () => calls.some(([handler, ...all]) => handler === 'fetch' && all.length === 8),
    'the report',
  );
  const [, ...found] = calls.find((each) => each.length === 9)! as [string, ...Reported[]];
  assert.deepEqual(
    found.map(([kind, name, detail, , , failed]) => [kind, name, detail, failed]),
    [
      ['d1', 'run', 'CREATE TABLE IF NOT EXISTS t (a)', 0],
      ['d1', 'DB.batch', 'INSERT INTO t VALUES (?); SELECT * FROM t', 0],
      ['d1', 'all', 'SELECT * FROM nope', 1],
      ['kv', 'KV.put', null, 0],
      ['object', 'add', null, 0],
      ['object', 'fetch', 'http://room/x', 0],
      ['service', 'SELF.fetch', 'http://self/none', 0],
      ['fetch', 'fetch', 'http://127.0.0.1:1/path', 1],
    ],
  );
  for (const [, , , startedAt, ms] of found) assert.ok(startedAt >= before && ms >= 0 && ms < 10_000);
  assert.doesNotMatch(JSON.stringify(calls), /secret|private/);
});

test('a property of a method’s result can be awaited, and the object reports its own calls', async (t) => {
  const { get, calls } = await started(t, APP, FIELDS);
  assert.equal((await get('/deep')).text, '2');
  await eventually(() => calls.some(([handler]) => handler === 'Room.deep'), 'the report of the object');
  const [, call] = calls.find(([handler]) => handler === 'Room.deep')! as [string, Reported];
  assert.deepEqual(call.slice(0, 2), ['kv', 'KV.get']);
});

test('rejections that the app does not handle stay unhandled', async (t) => {
  const { get, lines, reported } = await started(t, APP, FIELDS);
  await get('/unhandled');
  await reported('rpc failed');
  const unhandled = () => lines.filter(({ error }) => error?.mechanism === 'unhandledrejection');
  await eventually(() => unhandled().length === 1, 'that of the object is reported');
  await get('/lost');
  await eventually(() => unhandled().length === 2, 'that of the request is reported');
});

test('calls of one event, and reports of many, are limited', async (t) => {
  const { get, calls } = await started(t, APP, FIELDS);
  assert.equal((await get('/many')).text, 'many');
  await eventually(() => calls.length === 1, 'the report');
  assert.equal(calls[0]!.length, 51);
  for (let i = 0; i < 20; i++) await Promise.all(Array.from({ length: 20 }, () => get('/at-once')));
  assert.ok(calls.length > 50, `${calls.length} reports`);
  assert.ok(calls.length < 401, `${calls.length} reports`);
});

test('long reports are fewer, so that they leave room for what the app prints', async (t) => {
  const { get, calls } = await started(t, APP, FIELDS);
  assert.equal((await get('/long')).text, 'long');
  await eventually(() => calls.length === 1, 'the report');
  assert.equal((calls[0]![1] as Reported)[2]!.length, 500);
  const began = performance.now();
  for (let i = 0; i < 30; i++) await get('/long');
  const most = 200_000 + (performance.now() - began) * 50;
  assert.ok(JSON.stringify(calls).length < most, `${calls.length} reports`);
});

test('replaced functions look as they did', async (t) => {
  const { get } = await started(t, APP, FIELDS);
  assert.equal((await get('/shape')).text, 'fetch,0,get,true');
});
