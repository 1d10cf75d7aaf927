import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { HostEvents, ObservedApp } from '../../handlers/contract/host/host-calls.ts';
import { Outbox } from '../../runtime/control/outbox.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const app = (id: string): ObservedApp => ({
  id,
  generation: 1,
  process_state: 'running',
  live_deploy_id: null,
  deployed_at: null,
  last_error: null,
  asleep_since: null,
  woke_at: null,
});

test('facts are delivered in order, retried after a failure, and then forgotten', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const received: string[] = [];
  let failures = 2;
  const outbox = new Outbox(store, async ({ events }: HostEvents) => {
    if (failures-- > 0) throw new Error('not yet');
    for (const event of events) if (event.type === 'app') received.push(event.app.id);
  });
  for (let i = 0; i < 150; i++) store.outbox.add({ type: 'app', app: app(String(i)) });
  outbox.notify();
  assert.deepEqual(received, [], 'nothing is delivered before it is open');
  outbox.open();
  await outbox.flushed(5_000);
  assert.deepEqual(
    received,
    Array.from({ length: 150 }, (_, i) => String(i)),
  );
  assert.deepEqual(store.outbox.next(1, 1_000_000).events, []);
});

test('a fact that is added while a delivery ends is delivered', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const received: string[] = [];
  let sent = Promise.withResolvers<void>();
  const outbox = new Outbox(store, async ({ events }: HostEvents) => {
    for (const event of events) if (event.type === 'app') received.push(event.app.id);
    await sent.promise;
  });
  const add = (id: string) => {
    store.outbox.add({ type: 'app', app: app(id) });
    outbox.notify();
  };
  outbox.open();
  for (let steps = 0; steps < 20; steps++) {
    sent = Promise.withResolvers<void>();
    add(`first ${steps}`);
    sent.resolve();
    for (let step = 0; step < steps; step++) await null;
    add(`second ${steps}`);
    await outbox.flushed(5_000);
    assert.deepEqual(received.splice(0), [`first ${steps}`, `second ${steps}`]);
  }
});

test('stopping ends the wait between retries and keeps unapplied facts', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const outbox = new Outbox(store, () => Promise.reject(new Error('down')));
  store.outbox.add({ type: 'app', app: app('a') });
  outbox.open();
  await outbox.stop();
  assert.equal(store.outbox.next(1, 1_000_000).events.length, 1);
});

test('a refused fact holds back the facts of its app only, and is retried', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const received: [string, number][] = [];
  const mended = Promise.withResolvers<void>();
  let status: number | null = 500;
  const outbox = new Outbox(
    store,
    async ({ events }: HostEvents) => {
      const facts = events.flatMap((event) => (event.type === 'app' ? [event.app] : []));
      if (status !== null && facts.some(({ id, generation }) => id === 'bad' && generation === 1))
        throw Object.assign(new Error('no'), { status });
      received.push(...facts.map(({ id, generation }): [string, number] => [id, generation]));
      if (facts.some(({ id, generation }) => id === 'bad' && generation === 2)) mended.resolve();
    },
    10,
  );
  t.after(() => outbox.stop());
  const add = (id: string, generation: number) =>
    store.outbox.add({ type: 'app', app: { ...app(id), generation } });
  for (const [id, generation] of [
    ['a', 1],
    ['bad', 1],
    ['b', 1],
    ['bad', 2],
    ['c', 1],
  ] as const)
    add(id, generation);
  outbox.open();
  await outbox.flushed(5_000);
  assert.deepEqual(received, [
    ['a', 1],
    ['b', 1],
    ['c', 1],
  ]);
  assert.deepEqual(outbox.refused, ['bad']);
  assert.equal(store.outbox.next(10, 1_000_000).events.length, 2, 'they are kept');
  status = null;
  await mended.promise;
  await outbox.flushed(5_000);
  assert.deepEqual(received.slice(3), [
    ['bad', 1],
    ['bad', 2],
  ]);
  assert.deepEqual(outbox.refused, []);
});

test('a busy control plane refuses no fact', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  let failures = 3;
  const outbox = new Outbox(store, async () => {
    if (failures-- > 0) throw Object.assign(new Error('busy'), { status: 503 });
  });
  store.outbox.add({ type: 'app', app: app('a') });
  outbox.open();
  await outbox.flushed(5_000);
  assert.deepEqual([store.outbox.next(1, 1).events, outbox.refused], [[], []]);
});

test('a fact is sent after it is synced, and waits while the disk fails', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const disk = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const asked = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let syncs = 0;
  const synced = () => {
    asked[syncs]?.resolve();
    return disk[syncs++]?.promise ?? Promise.resolve();
  };
  const sent: number[] = [];
  const outbox = new Outbox({ ...store, synced }, async ({ events }: HostEvents) => {
    sent.push(syncs);
    assert.equal(events.length, 1);
  });
  store.outbox.add({ type: 'app', app: app('a') });
  outbox.open();
  await asked[0]!.promise;
  disk[0]!.reject(new Error('EIO: i/o error, fdatasync'));
  await asked[1]!.promise;
  assert.deepEqual(sent, []);
  disk[1]!.resolve();
  await outbox.flushed(5_000);
  assert.deepEqual(sent, [2]);
  assert.deepEqual(outbox.refused, []);
});

test('a batch has a size limit, and at least one fact', (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  for (const id of ['a', 'b', 'c']) store.outbox.add({ type: 'app', app: app(id) });
  const size = Buffer.byteLength(JSON.stringify({ type: 'app', app: app('a') }));
  assert.equal(store.outbox.next(100, 2 * size).events.length, 2);
  assert.equal(store.outbox.next(100, 1).events.length, 1);
});

test('with many facts of a refused app, few are read at once, and none twice before the next retry', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  for (let n = 0; n < 5_000; n++) store.outbox.add({ type: 'app', app: app('bad') });
  store.outbox.add({ type: 'app', app: app('good') });
  const read: number[] = [];
  const next: typeof store.outbox.next = (limit, bytes, without, after = 0) => {
    const found = store.outbox.next(limit, bytes, without, after);
    read.push((found.events.at(-1)?.seq ?? found.skippedTo) - after);
    return found;
  };
  const received: string[] = [];
  const outbox = new Outbox({ ...store, outbox: { ...store.outbox, next } }, async ({ events }) => {
    const ids = events.flatMap((event) => (event.type === 'app' ? [event.app.id] : []));
    if (ids.includes('bad')) throw Object.assign(new Error('no'), { status: 500 });
    received.push(...ids);
  });
  t.after(() => outbox.stop());
  outbox.open();
  await outbox.flushed(20_000);
  assert.deepEqual(received, ['good']);
  assert.ok(Math.max(...read) <= 501, `${Math.max(...read)} rows were read at once`);
  read.length = 0;
  store.outbox.add({ type: 'app', app: app('good') });
  await outbox.flushed(20_000);
  assert.deepEqual(received, ['good', 'good']);
  assert.ok(Math.max(...read) <= 1, 'the waiting ones are not read again');
});
