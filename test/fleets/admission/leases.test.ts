// Leases: the host uses a process of an app, even while the app is stopped or asleep.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Leases } from '../../../runtime/fleets/admission/leases.ts';
import { type LeasedCell, Leasing } from '../../../runtime/fleets/admission/leasing.ts';
import { stop } from '../../../runtime/fleets/life/ending.ts';
import type { FleetOptions } from '../../../runtime/fleets/life/fleet.ts';
import type { ReleaseRef } from '../../../runtime/fleets/life/launch.ts';
import { Supervisor } from '../../../runtime/fleets/life/supervisor.ts';
import { assertGone, type Harness, harness } from '../../support/fleets/harness.ts';
import { call } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';

/** A fleet, and release 1 of its app, which is not started. Its process hibernates at the first idle check. */
async function app(t: TestContext, options: Partial<FleetOptions> = {}) {
  const made = harness(t, { idleMs: 0, ...options });
  return { ...made, live: await made.release(1) };
}

/** A lease that is held until `release` is called. */
interface Held {
  cell: LeasedCell;
  release: () => void;
  result: Promise<string>;
}

async function hold({ fleet }: Pick<Harness, 'fleet'>): Promise<Held> {
  const begun = Promise.withResolvers<LeasedCell>();
  const end = Promise.withResolvers<void>();
  const result = fleet.withCell('a test', async (cell) => {
    begun.resolve(cell);
    await end.promise;
    return 'done';
  });
  result.catch(begun.reject);
  return { cell: await begun.promise, release: end.resolve, result };
}

/** Asks the process at the host's own entry point, which answers with the number of events under way. */
async function speak({ socketPath }: LeasedCell): Promise<string> {
  return (await call(socketPath, '/')).text;
}

/** Sends 50 requests with an idle check before each. A process that hibernated would have ended meanwhile. */
async function speakOn({ cell }: Held, { fleet }: Pick<Harness, 'fleet'>): Promise<void> {
  for (let round = 0; round < 50; round++) {
    fleet.tick();
    assert.equal(await speak(cell), '0');
  }
}

/** Runs three idle checks as the host's timer does. The first one may see a request since the previous check. */
function looks({ fleet }: Pick<Harness, 'fleet'>): void {
  for (let look = 0; look < 3; look++) fleet.tick();
}

test('a lease on a running app uses its process, which stays until the release', async (t) => {
  const counting = await app(t);
  const { fleet, live } = counting;
  await fleet.start(live);
  const { pid } = fleet;
  const held = await hold(counting);
  await speakOn(held, counting);
  assert.deepEqual([fleet.pid, fleet.state], [pid, 'running']);
  assert.equal((await counting.ask('/version')).text, '1', 'visitors are served beside it');
  held.release();
  assert.equal(await held.result, 'done');
  looks(counting);
  await counting.rested();
  assertGone(pid);
});

test('a hibernated app gets a process for a lease, which also serves requests and hibernates again', async (t) => {
  const counting = await app(t);
  const { fleet, live } = counting;
  fleet.restore('idle', live, { dueAt: null });
  const held = await hold(counting);
  const { pid } = fleet;
  await speakOn(held, counting);
  assert.equal((await counting.ask('/version')).text, '1');
  assert.equal(fleet.pid, pid);
  held.release();
  await held.result;
  looks(counting);
  await counting.rested();
  assertGone(pid);
});

test('a sleeping app stays asleep during a lease, and its requests wake it as usual', async (t) => {
  const marks: boolean[] = [];
  const counting = await app(t, { onAsleep: (asleep) => marks.push(asleep) });
  const { fleet, live } = counting;
  fleet.restore('idle', live, { dueAt: null });
  fleet.asleep = true;
  const held = await hold(counting);
  assert.equal(await speak(held.cell), '0');
  const { pid } = fleet;
  looks(counting);
  assert.deepEqual([fleet.asleep, marks], [true, []]);
  assert.equal((await counting.ask('/version')).text, '1');
  assert.deepEqual([fleet.asleep, marks], [false, [false]]);
  assert.equal(fleet.pid, pid, 'the lease’s process serves now');
  held.release();
  assert.equal(await held.result, 'done');

  await fleet.sleep();
  await fleet.withCell('a test', speak);
  assert.equal(fleet.asleep, true);
  looks(counting);
  await counting.rested();
});

test('a stopped app gets a process for leases only: it serves no requests and ends with the last lease', async (t) => {
  const counting = await app(t);
  const { fleet, live, states } = counting;
  fleet.restore('stopped', live, null);
  const [one, other] = await Promise.all([hold(counting), hold(counting)]);
  assert.equal(await speak(one.cell), '0');
  assert.equal((await counting.ask('/version')).status, 503);
  assert.deepEqual([fleet.state, fleet.pid], ['stopped', null]);
  one.release();
  await one.result;
  assert.equal(await speak(other.cell), '0', 'there is another lease');
  other.release();
  await other.result;
  await eventually(
    () =>
      speak(other.cell).then(
        () => false,
        () => true,
      ),
    'the process goes',
  );
  assert.deepEqual(states, [], 'nobody is told of a process');
  assert.equal(await fleet.withCell('a test', speak), '0', 'and comes back for the next');
  await fleet.start(live);
  assert.equal((await counting.ask('/version')).text, '1');
});

test('a stopped app that is started during a lease serves from the same process', async (t) => {
  const counting = await app(t);
  const { fleet, live } = counting;
  fleet.restore('stopped', live, null);
  const held = await hold(counting);
  await fleet.start(live);
  assert.equal((await counting.ask('/version')).text, '1');
  const { pid } = fleet;
  held.release();
  assert.equal(await held.result, 'done');
  assert.equal((await counting.ask('/version')).text, '1');
  assert.equal(fleet.pid, pid);
});

test('a deploy waits for a lease, and a lease waits for a deploy', async (t) => {
  const counting = await app(t);
  const { fleet, live } = counting;
  await fleet.start(live);
  const before = fleet.pid;
  const next = await counting.release(2);
  const held = await hold(counting);
  let committed = false;
  const swapped = fleet.swap(next, {
    commit: async () => {
      committed = true;
    },
    log: () => {},
  });
  await counting.until(() => fleet.state === 'starting');
  await speakOn(held, counting);
  const after = fleet.withCell('a test', async (cell) => [await speak(cell), fleet.pid]);
  assert.equal(committed, false);
  held.release();
  await swapped;
  assertGone(before);
  assert.deepEqual(await after, ['0', fleet.pid]);
  assert.equal((await counting.ask('/version')).text, '2');
});

test('a deploy to a stopped app waits for the leased process and leaves no process', async (t) => {
  const counting = await app(t);
  const { fleet, live } = counting;
  fleet.restore('stopped', live, null);
  const held = await hold(counting);
  let committed = false;
  const commit = async () => {
    committed = true;
  };
  const adopted = fleet.adopt(await counting.release(2), { commit, log: () => {} });
  await speakOn(held, counting);
  assert.equal(committed, false);
  held.release();
  await adopted;
  assert.deepEqual([fleet.state, fleet.liveDeployId], ['stopped', 'release-2']);
  await assert.rejects(speak(held.cell));
});

test('a failed deploy leaves a stopped app with a lease stopped', async (t) => {
  const counting = await app(t);
  const { fleet, live } = counting;
  fleet.restore('stopped', live, null);
  const held = await hold(counting);
  const commit = () => Promise.reject(new Error('disk full'));
  const swapped = fleet.swap(await counting.release(2), { commit, log: () => {} });
  const failed = assert.rejects(swapped, /disk full/);
  held.release();
  await failed;
  assert.deepEqual([fleet.state, fleet.pid], ['stopped', null]);
  assert.equal((await counting.ask('/version')).status, 503);
});

test('a host that stops waits for a lease and grants no new one', async (t) => {
  const counting = await app(t);
  const { fleet, live } = counting;
  await fleet.start(live);
  const held = await hold(counting);
  const closed = fleet.close();
  await speakOn(held, counting);
  held.release();
  assert.equal(await held.result, 'done');
  await closed;
  await assert.rejects(fleet.withCell('a test', speak), /^Error: the host is stopping$/);
});

test('a lease ends with its process or its timeout', async (t) => {
  const counting = await app(t);
  const { fleet, live } = counting;
  await fleet.start(live);
  const held = await hold(counting);
  process.kill(fleet.pid!, 'SIGKILL');
  await assert.rejects(held.result, /^Error: workerd was ended by SIGKILL/);

  const leasing = await leasingOf(t, { ms: 3_000, most: 2 });
  let ended: LeasedCell | null = null;
  const late = leasing.withCell('waiting', (cell) => {
    ended = cell;
    return new Promise(() => {});
  });
  await assert.rejects(late, /^Error: waiting did not end within 3 s$/);
  assert.equal(ended!.signal.aborted, true);
});

test('a process whose holder keeps it from answering is killed at the lease timeout, and the next lease gets a new one', async (t) => {
  const leasing = await leasingOf(t, { ms: 3_000, most: 2 }, 'idle');
  const sql = 'WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s) SELECT count(*) FROM s';
  const body = JSON.stringify([{ sql, params: [] }]);
  const endless = leasing.withCell(
    'SQL',
    ({ databasePath }) => call(databasePath, '/query/database1', { method: 'POST', body }),
    { mayBlock: true },
  );
  await assert.rejects(endless, /^Error: SQL did not end within 3 s$/);
  const again = () => leasing.withCell('a test', speak).catch(() => null);
  await eventually(async () => (await again()) === '0', 'the next one has a process');
});

test('leases above the limit are refused, and an app that never ran gets none', async (t) => {
  const leasing = await leasingOf(t, { ms: 10_000, most: 2 });
  const end = Promise.withResolvers<void>();
  const held = [1, 2].map(() => leasing.withCell('a test', () => end.promise));
  await assert.rejects(
    leasing.withCell('a third', speak),
    /^Error: a third: 2 other calls use the app's process/,
  );
  end.resolve();
  await Promise.all(held);
  assert.equal(await leasing.withCell('a fourth', speak), '0');

  const { fleet } = harness(t);
  await assert.rejects(fleet.withCell('a test', speak), /nothing has been deployed yet/);
});

/** Makes leases with `limits`, on an app that has no process yet. */
async function leasingOf(
  t: TestContext,
  limits: { ms: number; most: number },
  name: 'stopped' | 'idle' = 'stopped',
): Promise<Leasing> {
  const { options, release } = harness(t);
  const supervisor = new Supervisor(options, () => {});
  supervisor.live = (await release(1)) as ReleaseRef;
  supervisor.resume({ name });
  t.after(() => supervisor.operations.close(() => stop(supervisor)));
  return new Leasing(supervisor, limits);
}

test('a drain waits for leases up to its timeout and ends those that are left', async () => {
  const leases = new Leases(() => {});
  assert.equal(await leases.drain(10_000), 0);
  const [one, other] = [leases.hold(), leases.hold()];
  const drained = leases.drain(10_000);
  one.release();
  other.release();
  assert.equal(await drained, 0);

  const busy = new Leases(() => {});
  const { signal } = busy.hold();
  assert.equal(await busy.drain(20), 1);
  assert.match(String(signal.reason), /stopped or replaced/);
});
