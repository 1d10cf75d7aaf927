// An app with several processes: real workerd, as members of one cluster.
// Mostly waits.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { MemoryGauge } from '../../../runtime/fleets/admission/memory.ts';
import { clusterIn } from '../../support/bucket/clusters.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { type Harness, harness } from '../../support/fleets/harness.ts';
import { makeRelease } from '../../support/fleets/release.ts';
import { askMany, COUNTING, hot, whoServes } from '../../support/fleets/replicas.ts';

function pidOf({ root }: Harness, number: number): number {
  return Number.parseInt(readFileSync(`${root}/run/${number}/cell.pid`, 'utf8'), 10);
}

test('requests spread over the processes, and all of them reach the same object and database', async (t) => {
  await using store = await new MemoryStore().start();
  const app = await hot(t, store, 3);
  assert.equal((await whoServes(app)).length, 3);
  const counts = await askMany(app, '/add', 1_000, 24);
  const sorted = counts.map(({ text }) => Number(text)).sort((one, other) => one - other);
  assert.deepEqual(
    sorted,
    Array.from({ length: 1_000 }, (_, at) => at + 1),
  );
  const rows = await askMany(app, '/row', 60, 12);
  assert.equal(Math.max(...rows.map(({ text }) => Number(text))), 60);
});

test('more or fewer processes do not restart those that stay', async (t) => {
  await using store = await new MemoryStore().start();
  const app = await hot(t, store, 1);
  const one = await whoServes(app);
  app.fleet.scale(3);
  await app.until(() => app.fleet.processes === 3);
  const three = await whoServes(app);
  assert.equal(three.length, 3);
  app.fleet.scale(2);
  assert.equal(app.fleet.processes, 2);
  const two = await whoServes(app);
  assert.ok(three.includes(one[0]!) && two.includes(one[0]!) && two.length === 2);
  assert.ok(two.every((process) => three.includes(process)));
});

for (const which of ['the first', 'another'] as const) {
  test(`after kill -9 of ${which} process the others go on, and no acknowledged write is lost`, async (t) => {
    await using store = await new MemoryStore().start();
    const app = await hot(t, store, 2);
    const pid = which === 'the first' ? app.fleet.pid! : pidOf(app, 1);
    assert.notEqual(pid, app.fleet.pid === pid ? pidOf(app, 1) : app.fleet.pid);
    await askMany(app, '/add', 20, 8);
    let asked = 0;
    let acknowledged = 0;
    // Requests before the object has moved fail at once. Their number depends on how busy the machine is.
    const clients = Array.from({ length: 8 }, async () => {
      while (acknowledged < 50) {
        asked++;
        acknowledged += await app.ask('/add').then(
          ({ status }) => Number(status === 200),
          () => 0,
        );
      }
    });
    process.kill(pid, 'SIGKILL');
    const killed = performance.now();
    await app.until(() => app.fleet.processes === 1);
    assert.deepEqual(app.failures, [
      { mechanism: 'crash', deployId: 'release-1', reason: 'workerd was ended by SIGKILL' },
    ]);
    await Promise.all(clients);
    const next = Number((await app.ask('/add')).text);
    assert.ok(next > 20 + acknowledged && next <= 21 + asked, `${next} after ${acknowledged} of ${asked}`);
    const waitedMs = performance.now() - killed;
    assert.ok(waitedMs < 15_000, `${waitedMs} ms: a lease expires after 20 s`);
    await app.until(() => app.fleet.processes === 2);
    assert.equal((await whoServes(app)).length, 2);
    const leases = () => [...store.objects.keys()].filter((name) => name.includes('/v1/nodes/'));
    // Only the leases of the running processes are left.
    await app.until(() => leases().length === 2);
  });
}

test('a swap under load drops no request, and no process of the old release is left', async (t) => {
  await using store = await new MemoryStore().start();
  const app = await hot(t, store, 2);
  const old = [app.fleet.pid!, pidOf(app, 1)];
  let isOver = false;
  const statuses = new Set<number>();
  const load = Array.from({ length: 8 }, async () => {
    while (!isOver) statuses.add((await app.ask('/add')).status);
  });
  await app.fleet.swap(await app.release(2, { code: COUNTING(2) }), {
    commit: async () => {},
    log: () => {},
  });
  for (const pid of old) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  await app.until(() => app.fleet.processes === 2);
  const versions = await askMany(app, '/version', 24, 24);
  isOver = true;
  await Promise.all(load);
  assert.deepEqual([...statuses], [200]);
  assert.deepEqual([...new Set(versions.map(({ text }) => text))], ['2']);
});

test('asleep it has no process, and a wake brings all back', async (t) => {
  await using store = await new MemoryStore().start();
  const app = await hot(t, store, 2);
  assert.equal((await app.ask('/add')).text, '1');
  const pids = [app.fleet.pid!, pidOf(app, 1)];
  await app.fleet.sleep();
  assert.equal(app.fleet.processes, 0);
  for (const pid of pids) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  assert.equal((await app.ask('/add')).text, '2');
  await app.until(() => app.fleet.processes === 2);
  await app.fleet.stop();
  assert.equal(app.fleet.processes, 0);
});

const WORKING = `
import { DurableObject } from 'cloudflare:workers';
export class Clock extends DurableObject {
  ring(name) {
    this.ctx.storage.kv.put('name', name);
    return this.ctx.storage.setAlarm(Date.now() + 500);
  }
  alarm() {
    console.log('[alarm ' + this.ctx.storage.kv.get('name') + ']');
  }
}
export default {
  async fetch(request, env) {
    const name = new URL(request.url).pathname.slice(1);
    await env.QUEUE.send(name);
    await env.CLOCK.getByName(name).ring(name);
    await scheduler.wait(50);
    return new Response('sent');
  },
  async queue({ messages }) {
    for (const { body } of messages) console.log('[message ' + body + ']');
  },
  async scheduled({ scheduledTime }) {
    console.log('[cron ' + scheduledTime + ']');
  },
};`;

test('a message, an alarm and a cron are each handled by one process, once', async (t) => {
  await using store = await new MemoryStore().start();
  const app = harness(t, { cluster: clusterIn(store) });
  app.fleet.scale(3);
  const consumer = { queue: 'q', maxBatchSize: 1, maxBatchTimeout: 0, maxRetries: 0 };
  const release = await makeRelease(`${app.root}/release-w`, WORKING, {
    classes: [{ className: 'Clock', storageId: 'clock', sql: true }],
    durableObjects: [{ binding: 'CLOCK', className: 'Clock' }],
    triggers: {
      crons: ['* * * * *'],
      producers: [{ binding: 'QUEUE', queue: 'q' }],
      consumers: [consumer],
    },
  });
  await app.fleet.start(release);
  await app.until(() => app.fleet.processes === 3);
  const handled = (what: string) =>
    app.lines.flatMap((line) => line.match(`\\[${what} [^\\]]+\\]`)?.[0] ?? []);
  await Promise.all(Array.from({ length: 30 }, (_, at) => app.ask(`/${at}`)));
  await app.until(() => handled('message').length >= 30 && handled('alarm').length >= 30);
  await app.until(() => handled('cron').length >= 1, 90_000);
  // Once a later message and alarm are handled, second runs of the earlier ones would have been seen.
  await app.ask('/last');
  await app.until(
    () => handled('alarm').includes('[alarm last]') && handled('message').includes('[message last]'),
  );
  for (const what of ['message', 'alarm', 'cron'])
    assert.equal(new Set(handled(what)).size, handled(what).length, `${what} twice`);
});

test('without memory fewer processes run, until there is some', async (t) => {
  await using store = await new MemoryStore().start();
  let isShort = true;
  class Gauge extends MemoryGauge {
    override get over() {
      return isShort;
    }
    override admits() {
      return true;
    }
  }
  const app = harness(t, { cluster: clusterIn(store), memory: new Gauge(0, 512) });
  app.fleet.scale(2);
  await app.fleet.start(await app.release(1, { code: COUNTING(1) }));
  await app.until(() => app.lines.some((line) => line.includes('fewer processes run than wanted')));
  assert.equal(app.fleet.processes, 1);
  isShort = false;
  await app.until(() => app.fleet.processes === 2);
});

test('an app that keeps its data on this machine has one process', async (t) => {
  const app = harness(t);
  app.fleet.scale(3);
  await app.fleet.start(await app.release(1, { code: COUNTING(1) }));
  assert.equal((await whoServes(app)).length, 1);
  assert.equal(app.fleet.processes, 1);
});
