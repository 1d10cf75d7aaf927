// An app whose data is in the bucket: real workerd with its cluster.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { test } from 'node:test';
import { Slots } from '../../../runtime/fleets/admission/slots.ts';
import { Gate } from '../../../runtime/hosts/gate.ts';
import { clusterIn } from '../../support/bucket/clusters.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { harness } from '../../support/fleets/harness.ts';

const ALARMING = `
import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  at(time) { return this.ctx.storage.setAlarm(time); }
  alarm() {}
}
export default {
  async fetch(request, env) {
    await env.COUNTER.getByName('one').at(Number(new URL(request.url).pathname.slice(1)));
    return new Response('set');
  },
};`;

/** Runs a loaded class within a Durable Object. */
const LOADING = `
import { DurableObject } from 'cloudflare:workers';
const CODE = \`import { DurableObject } from 'cloudflare:workers';
export class Counted extends DurableObject {
  async add() {
    const n = ((await this.ctx.storage.get('n')) ?? 0) + 1;
    await this.ctx.storage.put('n', n);
    return n;
  }
}\`;
export class Counter extends DurableObject {
  add() {
    const modules = { 'main.js': CODE };
    const worker = this.env.LOADER.load({ compatibilityDate: '2026-10-01', mainModule: 'main.js', modules });
    return this.ctx.facets.get('one', () => ({ class: worker.getDurableObjectClass('Counted') })).add();
  }
}
export default {
  fetch: async (request, env) => new Response(await env.COUNTER.getByName('one').add()),
};`;

test('an app in the bucket loses nothing with the disk of its machine', async (t) => {
  await using store = await new MemoryStore().start();
  const first = harness(t, { cluster: clusterIn(store) });
  await first.fleet.start(await first.release(1));
  assert.equal((await first.ask('/')).text, '{"version":1,"count":1,"rows":1}');
  await first.fleet.stop();
  rmSync(first.root, { recursive: true });
  const next = harness(t, { cluster: clusterIn(store) });
  await next.fleet.start(await next.release(1));
  assert.equal((await next.ask('/')).text, '{"version":1,"count":2,"rows":2}');
});

test('after a kill the next process has the data at once, and does not wait for the lease to expire', async (t) => {
  await using store = await new MemoryStore().start();
  const { fleet, release, ask, until } = harness(t, { cluster: clusterIn(store) });
  await fleet.start(await release(1));
  assert.equal((await ask('/')).text, '{"version":1,"count":1,"rows":1}');
  const killed = performance.now();
  process.kill(fleet.pid!, 'SIGKILL');
  await until(() => fleet.pid === null);
  assert.equal((await ask('/')).text, '{"version":1,"count":2,"rows":2}');
  const waitedMs = performance.now() - killed;
  assert.ok(waitedMs < 15_000, `${waitedMs} ms: a lease expires after 20 s`);
  const leases = [...store.objects.keys()].filter((name) => name.includes('/v1/nodes/'));
  assert.equal(leases.length, 1, 'that of the process that runs');
});

test('a resting app in the bucket knows its next alarm, also on a machine that never ran it', async (t) => {
  await using store = await new MemoryStore().start();
  const first = harness(t, { cluster: clusterIn(store), idleMs: 0 });
  const at = Date.now() + 3_600_000;
  await first.fleet.start(await first.release(1, { code: ALARMING }));
  assert.equal((await first.ask(`/${at}`)).text, 'set');
  first.tick();
  await first.rested();
  assert.deepEqual(first.rests.at(-1), { dueAt: at });
  const next = harness(t, { cluster: clusterIn(store) });
  next.fleet.restore('idle', await next.release(1, { code: ALARMING }), null);
  await next.until(() => next.rests.length > 0);
  assert.deepEqual(next.rests, [{ dueAt: at }]);
});

test('the storage of a loaded class is in the bucket', async (t) => {
  await using store = await new MemoryStore().start();
  for (const count of ['1', '2']) {
    const { fleet, release, ask, root } = harness(t, { cluster: clusterIn(store) });
    await fleet.start(await release(1, { code: LOADING, more: { workerLoaders: [{ binding: 'LOADER' }] } }));
    assert.equal((await ask('/')).text, count);
    await fleet.stop();
    rmSync(root, { recursive: true });
  }
});

test('a host removes no leases that another host renews', async (t) => {
  await using store = await new MemoryStore().start();
  const clusterOn = (host: string) => clusterIn(store, 'app1', { host });
  const { fleet, release, ask } = harness(t, { cluster: clusterOn('127.0.0.2') });
  await fleet.start(await release(1));
  assert.equal((await ask('/')).status, 200);
  const leases = () => [...store.objects].filter(([name]) => name.includes('/v1/nodes/'));
  assert.match(JSON.parse(leases()[0]![1].body.toString()).address, /^127\.0\.0\.2:[1-9]\d*$/);
  await clusterOn('127.0.0.3').removeLeases();
  assert.equal(leases().length, 1);
  await clusterOn('127.0.0.2').removeLeases();
  assert.equal(leases().length, 0);
});

test('an app of a lost host has its objects at once elsewhere, before the lease of its lost process expires', async (t) => {
  await using store = await new MemoryStore().start();
  await using left = await new MemoryStore().start();
  const on = (host: string, bucket: MemoryStore) => {
    const gate = new Gate();
    gate.open();
    return harness(t, { cluster: clusterIn(bucket, 'app1', { host, gate }) });
  };
  const lost = on('127.0.0.2', store);
  await lost.fleet.start(await lost.release(1));
  assert.equal((await lost.ask('/')).text, '{"version":1,"count":1,"rows":1}');
  // A host that is lost leaves the lease of its process in the bucket. Hosts that end a process remove its lease.
  for (const [name, object] of store.objects) left.objects.set(name, object);
  await lost.fleet.stop();
  const [name, lease] = [...left.objects].find(([each]) => each.includes('/v1/nodes/'))!;
  const expires_ms = Date.now() + 9_000;
  const body = Buffer.from(JSON.stringify({ ...JSON.parse(lease.body.toString()), expires_ms }));
  left.objects.set(name, { ...lease, body });
  const next = on('127.0.0.3', left);
  await next.fleet.start(await next.release(1));
  assert.deepEqual(await next.ask('/'), { status: 200, text: '{"version":1,"count":2,"rows":2}' });
});

test('an app waits until its host may run it, and ends when the host is cut off', async (t) => {
  await using store = await new MemoryStore().start();
  const gate = new Gate();
  const { fleet, release, ask, until } = harness(t, {
    cluster: clusterIn(store, 'app1', { host: '127.0.0.1', gate }),
    slots: new Slots(1, 10_000),
  });
  fleet.restore('idle', await release(1), { dueAt: null });
  const waiting = ask('/');
  const other = harness(t);
  await other.fleet.start(await other.release(1));
  assert.equal(fleet.pid, null, 'it waits');
  gate.open();
  assert.equal((await waiting).text, '{"version":1,"count":1,"rows":1}');
  gate.shut();
  void fleet.cutOff();
  await until(() => fleet.pid === null);
  assert.match(fleet.lastError!, /does not reach the control plane/);
  const refused = fleet.admit();
  assert.deepEqual([refused.kind, 'reason' in refused && refused.reason], ['refuse', 'cut_off']);
  gate.open();
  assert.equal((await ask('/')).text, '{"version":1,"count":2,"rows":2}');
});
