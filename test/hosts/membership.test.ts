// A host's reports to the control plane, and what it may run while it has no answer.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { HostReport, HostReportAnswer } from '../../handlers/contract/host/hosts.ts';
import { Gate } from '../../runtime/hosts/gate.ts';
import { Homes } from '../../runtime/hosts/homes.ts';
import { Load } from '../../runtime/hosts/load.ts';
import { Membership } from '../../runtime/hosts/membership.ts';
import { eventually } from '../support/processes.ts';

const CUT_OFF_MS = 300;
/** Interval of the reports that nobody asks for. */
const REPORT_EVERY_MS = 2_000;

const ANSWER: HostReportAnswer = {
  hosts: [
    { id: 'one', name: 'a', address: '127.0.0.1:1', version: '1', state: 'active' },
    { id: 'two', name: 'b', address: '127.0.0.2:1', version: '1', state: 'active' },
  ],
  revision: 7,
  whole: true,
  routes: [],
  deleted: [],
};

function member(t: TestContext, cutOffMs = 60_000) {
  const reports: HostReport[] = [];
  const events: string[] = [];
  const gate = new Gate();
  const homes = new Homes('one', 'localhost');
  /** How the control plane answers. */
  const control = { answer: async (): Promise<HostReportAnswer> => ANSWER, isCounted: async () => true };
  const membership = new Membership({
    host: { id: 'one', name: 'a', address: '127.0.0.1:1', version: '1', started_at: '', adopts: true },
    homes,
    gate,
    look: () => ({
      load: new Load({ freeMb: 5, totalMb: 9 }, () => ({ apps: 2, running: 1 })).read(),
      clock_ahead_ms: null,
      unanswered: [],
    }),
    send: (report) => {
      reports.push(report);
      return control.answer();
    },
    isCounted: () => control.isCounted(),
    onAnswer: () => {},
    settle: async () => void events.push('settle'),
    onCutOff: () => events.push('cut off'),
    onBack: () => events.push('back'),
    cutOffMs,
  });
  t.after(() => membership.leave(1_000));
  const passes = () => {
    let hasPassed = false;
    void gate.pass(AbortSignal.timeout(10_000)).then(() => {
      hasPassed = true;
    });
    return () => hasPassed;
  };
  return { membership, reports, events, gate, homes, control, passes };
}

test('apps wait for the first answer and for those with other homes, and the answer names the hosts', async (t) => {
  const { membership, gate, homes, passes, reports } = member(t);
  const hasPassed = passes();
  await membership.join();
  assert.deepEqual(
    homes.others.map(({ id }) => id),
    ['two'],
  );
  assert.equal(hasPassed(), false);
  membership.admitApps();
  await gate.pass(AbortSignal.timeout(1_000));
  assert.equal(hasPassed(), true);
  await membership.reportNow();
  assert.deepEqual(
    reports.slice(0, 2).map(({ revision }) => revision),
    [0, 7],
  );
  const { load, protocol } = reports[1]!;
  assert.equal(protocol, 1);
  assert.ok(load.cpu >= 0 && load.cpu <= 1 && load.memory_free_bytes <= load.memory_total_bytes);
  assert.deepEqual([load.apps, load.running], [2, 1]);
  assert.deepEqual([load.disk_free_bytes, load.disk_total_bytes], [5 * 2 ** 20, 9 * 2 ** 20]);
});

test('a host that the control plane does not know how to talk to ends its start; other failures are repeated', async (t) => {
  const { membership, control, reports } = member(t);
  control.answer = () => Promise.reject(new Error('not yet'));
  const joined = membership.join();
  await eventually(() => reports.length > 0, 'the first report');
  control.answer = () =>
    Promise.reject(Object.assign(new Error('speaks protocol 1'), { code: 'host_incompatible' }));
  const failed = reports.length;
  await assert.rejects(joined, /speaks protocol 1/);
  assert.equal(reports.length, failed + 1);
});

test('without answers the host is cut off; afterwards it hands over what has moved, and then runs apps again', async (t) => {
  const { membership, control, events, gate } = member(t, CUT_OFF_MS);
  await membership.join();
  membership.admitApps();
  control.answer = () => Promise.reject(new Error('no answer'));
  await eventually(() => gate.isShut, 'it is cut off');
  await assert.rejects(gate.pass(AbortSignal.timeout(1_000)), /another host may run the app/);
  assert.deepEqual(events, ['cut off']);
  control.answer = async () => ANSWER;
  await membership.reportNow();
  // It may be cut off again before its next report.
  await eventually(() => events.includes('back'), 'it is back');
  assert.deepEqual(events.slice(0, 3), ['cut off', 'settle', 'back']);
});

test('a host whose silence nobody counts runs its apps on, until somebody does or that is unknown', async (t) => {
  const { membership, control, events, gate } = member(t, CUT_OFF_MS);
  let looks = 0;
  control.isCounted = async () => {
    looks++;
    return false;
  };
  await membership.join();
  membership.admitApps();
  control.answer = () => Promise.reject(new Error('no answer'));
  await eventually(() => looks > 1, 'it has looked twice');
  assert.deepEqual([events, gate.isShut], [[], false]);
  control.isCounted = () => Promise.reject(new Error('the bucket does not answer'));
  await eventually(() => gate.isShut, 'it is cut off');
});

test('reports for unknown names are shared, and come half a second apart', async (t) => {
  const { membership, reports } = member(t);
  const from = performance.now();
  await membership.join();
  /** Asserts that there are `count` reports, besides the regular one of each `REPORT_EVERY_MS`. */
  const assertShared = (count: number) => {
    const unasked = Math.floor((performance.now() - from) / REPORT_EVERY_MS);
    assert.ok(reports.length >= count && reports.length <= count + unasked, `${reports.length} reports`);
  };
  await Promise.all(Array.from({ length: 100 }, () => membership.reportNow()));
  assertShared(2);
  await Promise.all(Array.from({ length: 100 }, () => membership.reportNow()));
  assertShared(3);
  assert.ok(performance.now() - from > 450);
});

test('a host is ready for requests between its start and its end, unless it is cut off', async (t) => {
  const { membership, gate } = member(t);
  assert.equal(membership.problem, 'starting');
  await membership.join();
  membership.admitApps();
  assert.equal(membership.problem, null);
  gate.shut();
  assert.equal(membership.problem, 'cut off');
  gate.open();
  membership.isLeaving = true;
  assert.equal(membership.problem, 'stopping');
});

test('an aborted start passes no gate, open or not', async () => {
  const gate = new Gate();
  const aborted = AbortSignal.abort(new Error('the app moves'));
  await assert.rejects(gate.pass(aborted), /the app moves/);
  gate.open();
  await assert.rejects(gate.pass(aborted), /the app moves/);
  await gate.pass(new AbortController().signal);
});

test('a host that leaves says so once, and reports no more', async (t) => {
  const { membership, reports } = member(t);
  await membership.join();
  await membership.leave(1_000);
  await membership.reportNow();
  assert.deepEqual(
    reports.map(({ leaves }) => leaves),
    [undefined, true],
  );
});

test('a host reports on while its apps move away, so that it is not lost before they have', async (t) => {
  const { membership, reports, control } = member(t);
  await membership.join();
  const moved = Promise.withResolvers<HostReportAnswer>();
  control.answer = () => moved.promise;
  const left = membership.leave(30_000);
  const leaving = () => reports.filter(({ leaves }) => leaves).length;
  await eventually(() => leaving() > 1, 'it has reported again');
  moved.resolve(ANSWER);
  await left;
  const last = leaving();
  await membership.reportNow();
  assert.equal(leaving(), last);
});

test('a host that leaves says so again until the control plane answers, or its time is over', async (t) => {
  const { membership, reports, control, homes } = member(t);
  await membership.join();
  let left = 0;
  control.answer = async () => {
    if (++left === 1) throw new Error('the control plane has just been lost');
    return { ...ANSWER, revision: 8 };
  };
  await membership.leave(30_000);
  assert.equal(homes.revision, 8);
  assert.ok(reports.filter(({ leaves }) => leaves).length > 1);
  const other = member(t);
  await other.membership.join();
  other.control.answer = () => Promise.reject(new Error('no answer'));
  await other.membership.leave(1_000);
  assert.equal(other.homes.revision, 7);
});

test('a host is lost once another has its address, or it was silent for a day', () => {
  const homes = new Homes('one', 'localhost');
  const day = 24 * 3_600_000;
  const silent = (id: string, address: string, ms: number) => {
    const silent_since = new Date(Date.now() - ms).toISOString();
    return { id, name: id, address, version: '1', state: 'silent' as const, silent_since };
  };
  const away = [silent('restarts', '127.0.0.3:1', day / 2), silent('gone', '127.0.0.4:1', 2 * day)];
  const { silent_since: _, ...unknown } = silent('unknown', '127.0.0.5:1', 0);
  homes.take({ ...ANSWER, hosts: [...ANSWER.hosts, ...away, silent('replaced', '127.0.0.1:1', 0), unknown] });
  assert.deepEqual(homes.notLost(), ['two', 'restarts', 'unknown']);
});

const route = (id: string, home = 'two') => ({
  ...{ id, slug: id, owner: 'owner', hostnames: [], storage: 'bucket' as const, home, generation: 1 },
  limits: { clientRpm: null, appRpm: null },
});

test('a deleted app is reported once, and not if it was undeleted since', () => {
  const homes = new Homes('one', 'localhost');
  const deleted: string[] = [];
  homes.onDeleted = (appId) => deleted.push(appId);
  homes.take({ ...ANSWER, routes: [route('a'), route('b'), route('c')] });
  homes.take({ ...ANSWER, whole: false, routes: [route('b')], deleted: ['a', 'b'] });
  assert.deepEqual(deleted, ['a']);
  assert.deepEqual(homes.appIds, ['c', 'b']);
});

test('an app that all routes lack is reported as deleted, unless an older database answers', () => {
  const homes = new Homes('one', 'localhost');
  const deleted: string[] = [];
  homes.onDeleted = (appId) => deleted.push(appId);
  homes.take({ ...ANSWER, routes: [route('a'), route('b'), route('c')] });
  homes.take({ ...ANSWER, revision: 2_000, routes: [route('b', 'three'), route('c')] });
  assert.deepEqual(deleted, ['a']);
  homes.take({ ...ANSWER, revision: 1_999, routes: [route('b')] });
  assert.deepEqual(deleted, ['a']);
  assert.deepEqual(homes.appIds, ['b']);
});
