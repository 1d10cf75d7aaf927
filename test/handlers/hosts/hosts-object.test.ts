// The Durable Object that knows all hosts. It runs in this process, with a mocked clock.
import assert from 'node:assert/strict';
import { afterEach, before, beforeEach, mock, test } from 'node:test';
import type { HostReport } from '../../../handlers/contract/host/hosts.ts';
import {
  type ControlCode,
  type ControlHosts,
  loadControl,
  MemoryD1,
} from '../../support/handlers/control-in-process.ts';
import { LOAD, reportOf } from '../../support/handlers/hosts.ts';

interface Move {
  from: string | null;
  to: string;
  isLost: boolean;
}

let code: ControlCode;
before(async () => {
  code = await loadControl();
});

let database: MemoryD1;
let hosts: ControlHosts;
let moves: [string, Move][];
/** Ids of apps whose moves fail. */
let stuck: Set<string>;
let work: Promise<unknown>[];
let onMove: () => unknown;

beforeEach(async () => {
  mock.timers.enable({ apis: ['Date'], now: Date.parse('2026-01-01T00:00:00.000Z') });
  database = new MemoryD1();
  moves = [];
  stuck = new Set();
  work = [];
  onMove = () => {};
  const db = database.through(async (run) => run());
  await code.migrate(db);
  const key = { id: 'key', name: '', hash: '' };
  await code.ensureFirstAccount(db, { id: 'owner', name: 'owner', at: '' }, key);
  hosts = start();
});
afterEach(() => {
  mock.timers.reset();
  database.close();
});

/** Makes another instance, as after the loss of its process. */
function start(): ControlHosts {
  const rehome = async (id: string, move: Move) => {
    moves.push([id, move]);
    await onMove();
    if (stuck.has(id)) return { ok: false, code: 'host_unavailable', detail: 'no answer' };
    database.all({ sql: 'UPDATE apps SET home = ?1 WHERE id = ?2', values: [move.to, id] });
    return { ok: true, value: null };
  };
  const state = { waitUntil: (promise: Promise<unknown>) => work.push(promise) };
  return new code.HostsObject(state, {
    DB: database.through(async (run) => run()),
    APP: { getByName: () => ({ rehome }) },
  });
}

function addApp(id: string, home: string | null, storage = 'bucket', deleted: string | null = null): void {
  database.all({
    sql: `INSERT INTO apps (id, slug, owner_id, desired_state, storage, home, generation, created_at, seq, deleted_at)
      VALUES (?1, ?1, (SELECT id FROM accounts), 'running', ?3, ?2, 1, '', (SELECT count(*) + 1 FROM apps), ?4)`,
    values: [id, home, storage, deleted],
  });
}

const homes = () =>
  Object.fromEntries(
    (
      database.all({ sql: 'SELECT id, home FROM apps ORDER BY id', values: [] }) as {
        id: string;
        home: string;
      }[]
    ).map(({ id, home }) => [id, home]),
  );

/** Reports, and waits for the work that the report has started. @returns the states of all hosts */
async function report(id: string, changed: Partial<HostReport> = {}): Promise<Record<string, string>> {
  const outcome = await hosts.report(reportOf(id, changed));
  if (!outcome.ok) throw new Error(outcome.code);
  await Promise.all(work);
  return Object.fromEntries(outcome.value.map((host) => [host.id, host.state]));
}

/** Lets time pass, with reports of these hosts every two seconds. */
async function pass(seconds: number, ...ids: string[]): Promise<Record<string, string>> {
  let states = {};
  for (let n = 0; n < seconds / 2; n++) {
    mock.timers.tick(2_000);
    for (const id of ids) states = await report(id);
  }
  return states;
}

test('the host that was the only one gets all apps, with a raised generation; the second gets none of them', async () => {
  addApp('one', null);
  addApp('two', null, 'local');
  await report('a');
  await report('b');
  assert.deepEqual(homes(), { one: 'a', two: 'a' });
  const [raised] = database.all({ sql: 'SELECT min(generation) AS least FROM apps', values: [] });
  assert.ok((raised as { least: number }).least >= 1);
});

test('a host that has joined others gets no apps without a home, also when it reports first', async () => {
  addApp('one', null);
  addApp('two', null, 'local');
  await report('b', { adopts: false });
  assert.deepEqual(homes(), { one: null, two: null });
  await report('a');
  assert.deepEqual(homes(), { one: 'a', two: 'a' });
});

test('a report like the one before writes nothing', async () => {
  await report('a');
  const changes = () => database.all({ sql: 'SELECT total_changes() AS n', values: [] });
  const before = changes();
  await pass(10, 'a');
  assert.deepEqual(changes(), before);
  await report('a', { version: '1.0.1' });
  assert.notDeepEqual(changes(), before);
});

test('a silent host loses its apps in the bucket, and their deletions; those on it stay', async () => {
  await report('a');
  await report('b');
  addApp('one', 'b');
  addApp('two', 'b', 'local');
  addApp('gone', 'b', 'bucket', '2026-01-01T00:00:00.000Z');
  assert.deepEqual(await pass(18, 'a'), { a: 'active', b: 'active' });
  assert.deepEqual(moves, []);
  assert.deepEqual(await pass(2, 'a'), { a: 'active', b: 'silent' });
  assert.deepEqual(moves, [['one', { from: 'b', to: 'a', isLost: true }]]);
  assert.deepEqual(homes(), { gone: 'a', one: 'a', two: 'b' });
  assert.deepEqual(await report('b'), { a: 'active', b: 'active' });
  assert.deepEqual(homes(), { gone: 'a', one: 'a', two: 'b' });
});

test('an object that started after the loss believes the other hosts', async () => {
  await report('a');
  await report('b');
  addApp('one', 'b');
  hosts = start();
  const lost = { unanswered: [{ id: 'b', ms: 20_000 }] };
  assert.deepEqual(await report('a', lost), { a: 'active', b: 'silent' });
  assert.deepEqual(homes(), { one: 'a' });
});

test('after a pause of its own, the object does not take the others for silent', async () => {
  await report('a');
  await report('b');
  addApp('one', 'b');
  mock.timers.tick(30_000);
  assert.deepEqual(await report('a'), { a: 'active', b: 'active' });
  assert.deepEqual(await pass(18, 'a'), { a: 'active', b: 'active' });
  assert.deepEqual(await pass(2, 'a'), { a: 'active', b: 'silent' });
});

test('moves that fail are tried again, and stop when the host is back', async () => {
  await report('a');
  await report('b');
  for (const id of ['one', 'two']) addApp(id, 'b');
  stuck.add('one');
  await pass(20, 'a');
  assert.deepEqual(homes(), { one: 'b', two: 'a' });
  moves = [];
  await pass(4, 'a');
  assert.deepEqual(moves, [], 'not before some seconds have passed');
  await pass(4, 'a');
  assert.equal(moves.length, 1);
  await report('b');
  stuck.clear();
  await pass(10, 'a', 'b');
  assert.deepEqual(homes(), { one: 'b', two: 'a' });
});

test('a drained host hands its apps over, gets no new ones, and may have some again', async () => {
  await report('a', { load: { ...LOAD, memory_free_bytes: 2 ** 30 } });
  await report('b');
  addApp('one', 'b');
  addApp('two', 'b', 'local');
  assert.equal(await hosts.place(), 'b');
  assert.deepEqual(await hosts.drain('b', true), { ok: true, value: null });
  await Promise.all(work);
  assert.deepEqual(moves, [['one', { from: 'b', to: 'a', isLost: false }]]);
  assert.equal(await hosts.place(), 'a');
  assert.deepEqual(await report('b'), { a: 'active', b: 'draining' });
  hosts = start();
  assert.deepEqual(await report('b'), { a: 'active', b: 'draining' }, 'it is kept');
  await hosts.drain('b', false);
  assert.deepEqual(await report('b'), { a: 'active', b: 'active' });
  assert.equal(await hosts.place(), 'b');
});

test('a host whose reports are late gets no apps, unless all are late', async () => {
  await report('a');
  await report('b', { load: { ...LOAD, memory_free_bytes: 4 * LOAD.memory_free_bytes } });
  assert.equal(await hosts.place(), 'b');
  await pass(6, 'a');
  assert.equal(await hosts.place(), 'a');
  mock.timers.tick(6_000);
  assert.equal(await hosts.place(), 'b');
});

test('a host that leaves while it is being drained moves several apps at the same time', async () => {
  await report('a');
  await report('b');
  for (let n = 0; n < 8; n++) addApp(`app-${n}`, 'a');
  const begun = Array.from({ length: 5 }, () => Promise.withResolvers<void>());
  const first = Promise.withResolvers<void>();
  const others = Promise.withResolvers<void>();
  onMove = () => {
    begun[moves.length - 1]?.resolve();
    return moves.length === 1 ? first.promise : others.promise;
  };
  await hosts.drain('a', true);
  await begun[0]!.promise;
  const answered = hosts.report(reportOf('a', { leaves: true }));
  await new Promise(setImmediate);
  first.resolve();
  await begun[4]!.promise;
  assert.equal(moves.length, 5);
  others.resolve();
  await answered;
  assert.equal(moves.length, 8);
});

test('a host that leaves gets its answer after its apps have moved; without another host, nothing moves', async () => {
  await report('a');
  addApp('one', 'a');
  await report('a', { leaves: true });
  assert.deepEqual(moves, []);
  await report('a');
  await report('b');
  const answered = hosts.report(reportOf('a', { leaves: true }));
  await answered;
  assert.deepEqual(moves, [['one', { from: 'a', to: 'b', isLost: false }]]);
  assert.equal(await hosts.place(), 'b');
  assert.deepEqual(await report('a'), { a: 'active', b: 'active' });
});

test('an object that was just loaded refuses a host that leaves, until another host that takes apps has reported', async () => {
  await report('a');
  await report('b');
  addApp('one', 'a');
  hosts = start();
  const leave = () => hosts.report(reportOf('a', { leaves: true }));
  const refused = await leave();
  assert.ok(!refused.ok && refused.code === 'host_unavailable', JSON.stringify(refused));
  assert.deepEqual(moves, []);
  await report('b');
  assert.equal((await leave()).ok, true);
  assert.deepEqual(homes(), { one: 'b' });
  hosts = start();
  assert.equal((await leave()).ok, true, 'no app has to move');
  await hosts.drain('b', true);
  addApp('two', 'a');
  assert.equal((await leave()).ok, true, 'the other host takes no apps');
});

test('a host that leaves is not lost while its apps move, however long that takes', async () => {
  await report('a');
  await report('b');
  for (let n = 0; n < 24; n++) addApp(`app-${n}`, 'a');
  onMove = () => {
    mock.timers.tick(2_000);
    work.push(hosts.report(reportOf('b')));
  };
  await hosts.report(reportOf('a', { leaves: true }));
  assert.equal(moves.length, 24);
  assert.ok(moves.every(([, { isLost }]) => !isLost));
  assert.deepEqual(await report('b'), { a: 'draining', b: 'active' });
});

test('apps of a lost host spread over the others', async () => {
  for (const id of ['a', 'b', 'c']) await report(id);
  for (let n = 0; n < 8; n++) addApp(`app-${n}`, 'c');
  await pass(20, 'a', 'b');
  const counts = Object.groupBy(Object.values(homes()), (home) => home as string);
  assert.deepEqual([counts.a?.length, counts.b?.length], [4, 4]);
});

test('of a lost host, apps for which requests wait move first, then those that ran, sleepers by when they fell asleep, and stopped ones', async () => {
  for (const id of ['a', 'b', 'c']) await report(id);
  const ids = Array.from({ length: 40 }, (_, n) => `app-${String(n).padStart(2, '0')}`);
  for (const id of ids) addApp(id, 'b');
  const set = (change: string, from: number, to: number) =>
    database.all({
      sql: `UPDATE apps SET ${change} WHERE id >= ?1 AND id < ?2`,
      values: [ids[from], ids[to]],
    });
  set(`desired_state = 'stopped'`, 0, 10);
  set(`asleep_since = '2026-01-01T00:00:00.000Z'`, 10, 15);
  set(`asleep_since = '2026-01-01T01:00:00.000Z'`, 15, 20);
  addApp('elsewhere', 'c');
  const awaited = ['app-05', 'app-35', 'elsewhere', 'unknown'].map((app) => ({ app, home: 'b' }));
  let told: Promise<unknown> | null = null;
  onMove = () => {
    told ??= hosts.report(reportOf('a', { awaited }));
    return told;
  };
  await pass(18, 'a', 'c');
  await pass(4, 'a', 'c');
  const order = moves.map(([id]) => id);
  assert.equal(order.length, 40);
  assert.equal(new Set(order).size, 40, 'each has moved once');
  // At most 15 moves come first: eight before the report, and one more by each of seven workers.
  for (const id of ['app-05', 'app-35']) assert.ok(order.indexOf(id) < 17, `${order}`);
  const others = order.filter((id) => id !== 'app-05' && id !== 'app-35');
  const kind = (id: string) => (id < 'app-10' ? 3 : id < 'app-15' ? 2 : id < 'app-20' ? 1 : 0);
  assert.deepEqual(
    others.map(kind),
    others.map(kind).toSorted((one, other) => one - other),
  );
  assert.equal(homes().elsewhere, 'c');
});

test('a host is removed when it is silent or has no apps', async () => {
  await report('a');
  await report('b');
  addApp('one', 'b', 'local');
  const refused = await hosts.remove('b');
  assert.ok(!refused.ok && refused.code === 'host_in_use', JSON.stringify(refused));
  await pass(20, 'a');
  assert.deepEqual(await hosts.remove('b'), { ok: true, value: null });
  assert.deepEqual(await report('a'), { a: 'active' });
  const unknown = await hosts.remove('b');
  assert.ok(!unknown.ok && unknown.code === 'host_not_found');
});

test('a host whose apps have not moved away yet is not removed; with it, its deletions are forgotten', async () => {
  await report('a');
  await report('b');
  addApp('one', 'b');
  addApp('gone', 'b', 'local', '2026-01-01T00:00:00.000Z');
  addApp('too', 'b', 'bucket', '2026-01-01T00:00:00.000Z');
  stuck.add('one');
  await pass(20, 'a');
  const refused = await hosts.remove('b');
  assert.ok(
    !refused.ok && /^The host box-b still has apps that have to move .* \(1\);/.test(refused.detail),
    JSON.stringify(refused),
  );
  stuck.clear();
  await pass(6, 'a');
  assert.deepEqual(await hosts.remove('b'), { ok: true, value: null });
  assert.deepEqual(homes(), { one: 'a', too: 'a' });
});

test('a host whose protocol is too far from that of another is refused by name', async () => {
  await report('a', { protocol: 1 });
  await report('b', { protocol: 2 });
  const outcome = await hosts.report(reportOf('c', { protocol: 3, version: '3.0.0' }));
  assert.ok(!outcome.ok && outcome.code === 'host_incompatible');
  assert.match(outcome.detail, /Host box-c runs Cellar 3\.0\.0, .* of host box-a/);
});
