import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { HostEvents, ObservedApp } from '../../handlers/contract/host-calls.ts';
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
});

test('facts are delivered in order, again after a failure, and then forgotten', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const received: string[] = [];
  let failures = 2;
  const outbox = new Outbox(store.outbox, async ({ events }: HostEvents) => {
    if (failures-- > 0) throw new Error('not yet');
    for (const event of events) if (event.type === 'app') received.push(event.app.id);
    return { applied: events.at(-1)!.seq };
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
  assert.deepEqual(store.outbox.next(1, 1_000_000), []);
});

test('a fact that is added at any moment of a delivery’s end is delivered', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const received: string[] = [];
  let sent = Promise.withResolvers<void>();
  const outbox = new Outbox(store.outbox, async ({ events }: HostEvents) => {
    for (const event of events) if (event.type === 'app') received.push(event.app.id);
    await sent.promise;
    return { applied: events.at(-1)!.seq };
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

test('stopping ends a wait between attempts and keeps what was not applied', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const outbox = new Outbox(store.outbox, () => Promise.reject(new Error('down')));
  store.outbox.add({ type: 'app', app: app('a') });
  outbox.open();
  await outbox.stop();
  assert.equal(store.outbox.next(1, 1_000_000).length, 1);
});

test('a fact that is refused is dropped, and those behind it are delivered', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const received: string[] = [];
  const outbox = new Outbox(store.outbox, async ({ events }: HostEvents) => {
    const ids = events.map((event) => (event.type === 'app' ? event.app.id : ''));
    if (ids.includes('bad')) throw Object.assign(new Error('too large'), { status: 413 });
    received.push(...ids);
    return { applied: events.at(-1)!.seq };
  });
  for (const id of ['a', 'bad', 'b', 'c']) store.outbox.add({ type: 'app', app: app(id) });
  outbox.open();
  await outbox.flushed(5_000);
  assert.deepEqual(received, ['a', 'b', 'c']);
});

test('a batch ends before it grows too large, and holds one fact at least', (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  for (const id of ['a', 'b', 'c']) store.outbox.add({ type: 'app', app: app(id) });
  const size = Buffer.byteLength(JSON.stringify({ type: 'app', app: app('a') }));
  assert.equal(store.outbox.next(100, 2 * size).length, 2);
  assert.equal(store.outbox.next(100, 1).length, 1);
});
