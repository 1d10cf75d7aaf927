// The error groups of apps in the telemetry thread, with a real database and real source maps.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import type { Database } from 'better-sqlite3';
import { operationsByName } from '../../../handlers/contract/index.ts';
import { Errors } from '../../../runtime/telemetry/errors/errors.ts';
import { SourceStacks } from '../../../runtime/telemetry/errors/source-stacks.ts';
import type { ReportedError } from '../../../runtime/telemetry/logs/log-lines.ts';
import { idAt } from '../../../runtime/telemetry/logs/log-rows.ts';
import { Logs } from '../../../runtime/telemetry/logs/logs.ts';
import type { StreamPiece } from '../../../runtime/telemetry/protocol.ts';
import { Store } from '../../../runtime/telemetry/store/store.ts';
import { openTelemetryDatabase } from '../../../sqlite/telemetry/database.ts';
import { LOGS_MIGRATIONS, logQueries } from '../../../sqlite/telemetry/logs.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const APP = 'app1';
const TRACE = 'abcdef0123456789abcdef0123456789';
const REPORTED: ReportedError = {
  id: null,
  type: 'TypeError',
  message: 'no user 7',
  stack: 'TypeError: no user 7\n    at loadUser (index.js:1:5)\n    at Object.fetch (index.js:2:3)',
  mechanism: 'uncaught',
  handler: 'fetch',
  method: 'GET',
  path: '/users',
  untold: 0,
};

/** Resolves after concurrent reports have been sent. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

interface Kept {
  errors: Errors;
  database: Database;
  /** Reports an error, and waits until it is counted. */
  report: (error?: Partial<ReportedError>, release?: string, traceId?: string | null) => Promise<void>;
  list: (status?: 'open' | 'resolved' | 'ignored') => ReturnType<typeof listed>;
}

function listed(errors: Errors, status: 'open' | 'resolved' | 'ignored') {
  return errors.answers.errors!({ appId: APP, status, limit: 50 }) as Exclude<
    Awaited<ReturnType<NonNullable<Errors['answers']['errors']>>>,
    Promise<unknown>
  >;
}

function kept(t: TestContext): Kept {
  const directory = temporaryDirectory(t);
  mkdirSync(`${directory}/db`);
  const store = new Store(`${directory}/db`);
  t.after(() => store.close());
  const opened = t.mock.method(store, 'open');
  for (const release of ['r1', 'r2']) {
    mkdirSync(`${directory}/releases/${APP}/${release}/modules`, { recursive: true });
    // In release r1, lines 1 and 2 of the bundle are lines 11 and 12 of the source. In r2 they are lines 12 and 13.
    const line = release === 'r1' ? 'U' : 'W';
    writeFileSync(
      `${directory}/releases/${APP}/${release}/modules/index.js.map`,
      JSON.stringify({ version: 3, sources: ['src/index.ts'], names: [], mappings: `AA${line}A;AACA` }),
    );
  }
  const options = { retentionDays: 30, stacks: new SourceStacks(`${directory}/releases`) };
  const errors = new Errors(store, options, () => ({ items: [], next: null }));
  const report: Kept['report'] = (error = {}, release = 'r1', traceId = null) => {
    errors.report({ appId: APP, release, at: Date.now(), traceId, error: { ...REPORTED, ...error } });
    return errors.settled();
  };
  const database = opened.mock.calls[0]!.result!;
  return { errors, database, report, list: (status = 'open') => listed(errors, status) };
}

test('an error that is being mapped is stored at the end, unless its app was deleted meanwhile', async (t) => {
  const { errors, report, list } = kept(t);
  const looked = report();
  while (errors.forget(APP));
  await looked;
  assert.deepEqual(list().items, []);
  const last = report({ message: 'no user 9' });
  await errors.close();
  assert.equal(list().items[0]!.message, 'no user 9');
  await last;
});

test('an error that waits for its source map is not lost when others are written meanwhile', async (t) => {
  const { report, list } = kept(t);
  const both = [report(), report({ message: 'no user 8' })];
  assert.deepEqual(list().items, [], 'they wait');
  await Promise.all(both);
  assert.equal(list().items[0]!.count, 2);
});

test('an error is counted in its group, with its place in the source', async (t) => {
  const { errors, report, list } = kept(t);
  await report({}, 'r1', TRACE);
  await report({ message: 'no user 8', path: '/others' }, 'r2');
  const { items } = list();
  assert.equal(items.length, 1);
  const { fingerprint, first_seen_at, last_seen_at, sparkline, ...rest } = items[0]!;
  assert.deepEqual(rest, {
    kind: 'TypeError',
    message: 'no user 8',
    place: 'src/index.ts:12:5',
    mechanism: 'uncaught',
    handler: 'fetch',
    method: 'GET',
    path: '/others',
    trace_id: null,
    count: 2,
    status: 'open',
    regressed_at: null,
    first_release: 'r1',
    last_release: 'r2',
  });
  assert.deepEqual([sparkline.length, sparkline.at(-1)! + sparkline.at(-2)!], [24, 2]);
  assert.ok(first_seen_at <= last_seen_at);
  const got = await errors.answers['errors/get']!({ appId: APP, fingerprint });
  assert.ok(operationsByName.get('errors.get')!.output.safeParse(got).success, 'as the contract has it');
  assert.deepEqual(
    got.occurrences.map(({ stack, release, trace_id }) => [stack!.split('\n')[1], release, trace_id]),
    [
      ['    at loadUser (src/index.ts:12:5)', 'r2', null],
      ['    at loadUser (src/index.ts:11:5)', 'r1', TRACE],
    ],
  );
});

test('an error that is reported again gains details, and is counted once', async (t) => {
  const { errors, report, list } = kept(t);
  await report({ id: 'a', handler: 'Room.add', method: null, path: null }, 'r1', '1'.repeat(32));
  await report({ id: 'a', stack: 'TypeError: no user 7\n    at async fetch (index.js:2:1)' }, 'r1', TRACE);
  const { items } = list();
  assert.deepEqual(
    items.map(({ count }) => count),
    [1],
  );
  const got = await errors.answers['errors/get']!({ appId: APP, fingerprint: items[0]!.fingerprint });
  const { handler, method, path, trace_id, stack } = got.occurrences[0]!;
  assert.deepEqual([handler, method, path, trace_id], ['Room.add', 'GET', '/users', TRACE]);
  assert.match(stack!, /loadUser/);
  const shown = list().items[0]!;
  assert.deepEqual([shown.method, shown.path, shown.trace_id], ['GET', '/users', TRACE]);
});

test('a group shows the request of its last occurrence, even when an earlier one gains details later', async (t) => {
  const { report, list } = kept(t);
  const inObject = { method: null, path: null };
  await report({ id: 'a', ...inObject }, 'r1', '1'.repeat(32));
  await report({ id: 'b', ...inObject }, 'r1', '2'.repeat(32));
  await report({ id: 'b', path: '/second' }, 'r1', TRACE);
  await report({ id: 'a', path: '/first' }, 'r1', '3'.repeat(32));
  const [{ count, path, trace_id }] = list().items as [ReturnType<typeof list>['items'][number]];
  assert.deepEqual([count, path, trace_id], [2, '/second', TRACE]);
});

test('a resolved group regresses on a newer release only; an ignored one stays quiet', async (t) => {
  const { errors, report, list } = kept(t);
  await report();
  const { fingerprint } = list().items[0]!;
  const set = (status: 'open' | 'resolved' | 'ignored') =>
    errors.answers['errors/status']!({ appId: APP, fingerprint, status });
  await set('resolved');
  await report();
  assert.deepEqual([list().items.length, list('resolved').items[0]!.count], [0, 2]);
  await report({}, 'r2');
  const [back] = list().items;
  assert.deepEqual([back!.count, back!.status, typeof back!.regressed_at], [3, 'open', 'string']);
  await set('ignored');
  await report({}, 'r2');
  assert.deepEqual([list().items.length, list('ignored').items[0]!.count], [0, 4]);
  await set('open');
  assert.equal(list().items[0]!.regressed_at, null);
  assert.throws(
    () => errors.answers['errors/status']!({ appId: APP, fingerprint: 'none', status: 'open' }),
    /there is no error none/,
  );
  assert.throws(() => errors.answers['errors/status']!({ appId: 'app2', fingerprint, status: 'open' }));
});

test('thousands of different errors are bounded, and those left out are counted', async (t) => {
  const { errors, report } = kept(t);
  const words = Array.from(
    { length: 2_000 },
    (_, n) => `${String.fromCharCode(97 + (n % 26))}${'x'.repeat(Math.floor(n / 26))}`,
  );
  for (const chunk of [words.slice(0, 150), words.slice(150, 300), words.slice(300)]) {
    const reported = chunk.map((message) => report({ message, stack: `Error: ${message}` }));
    await Promise.all(reported);
  }
  const { items } = await errors.answers.errors!({ appId: APP, status: 'open', limit: 400 });
  assert.equal(items.length, 201);
  assert.equal(items.find(({ fingerprint }) => fingerprint === 'other')?.kind, 'Other');
  const counted = items.reduce((sum, { count }) => sum + count, 0);
  assert.equal(counted, 2_000);
  assert.ok(errors.dropped.errors > 1_000);
});

test('errors that are dropped after a failed write are counted once writes succeed', async (t) => {
  const { errors, database, report, list } = kept(t);
  database.exec("CREATE TRIGGER full BEFORE INSERT ON groups BEGIN SELECT raise(ABORT, 'it is full'); END");
  const reports = (count: number) => Promise.all(Array.from({ length: count }, () => report()));
  await reports(150);
  await reports(80);
  await eventually(() => errors.dropped.errors > 200, 'they are dropped');
  database.exec('DROP TRIGGER full');
  const counted = list().items.reduce((sum, { count }) => sum + count, 0);
  assert.equal(counted, 230);
});

test('a group keeps its last 20 occurrences', async (t) => {
  const { errors, report, list } = kept(t);
  for (let n = 0; n < 25; n++) await report({ path: `/${n}` });
  const { fingerprint, count } = list().items[0]!;
  const { occurrences } = await errors.answers['errors/get']!({ appId: APP, fingerprint });
  assert.deepEqual(
    [count, occurrences.length, occurrences[0]!.path, occurrences[19]!.path],
    [25, 20, '/24', '/5'],
  );
});

test('a follower of a status gets the changes, and after a break the missed ones', async (t) => {
  const { errors, report, list } = kept(t);
  const sent: StreamPiece[] = [];
  const follow = (after: number | null, rpcMethod: string | null = null) =>
    errors.follow(APP, 'errors', { status: 'open', after, rpcMethod }, (pieces) => sent.push(...pieces))!;
  const missed = async (...how: Parameters<typeof follow>) => {
    follow(...how)();
    await settled();
  };
  const end = follow(null);
  await report();
  await eventually(() => sent.length > 0, 'it is sent');
  const data = JSON.parse(/^data: (.*)$/m.exec(sent[0]!.text)![1]!);
  assert.deepEqual(data, list().items[0]);
  end();
  const { lastId } = sent.pop()!;
  await report({ type: 'RangeError' });
  errors.flush();
  await settled();
  assert.equal(sent.length, 0);
  await missed(lastId, 'errors.stream');
  assert.equal(sent.length, 1);
  const { method, params } = JSON.parse(/^data: (.*)$/m.exec(sent[0]!.text)![1]!);
  assert.deepEqual([method, params.kind], ['errors.stream', 'RangeError']);
  await missed(sent[0]!.lastId);
  assert.equal(sent.length, 1);
  const { fingerprint } = list().items[0]!;
  await errors.answers['errors/status']!({ appId: APP, fingerprint, status: 'resolved' });
  await missed(sent[0]!.lastId);
  assert.match(sent[1]!.text, /"status":"resolved"/, 'who was away learns what has left the status');
});

test('deleted apps and old errors leave nothing', async (t) => {
  const { errors, report, list } = kept(t);
  await report();
  assert.equal(errors.prune(Date.now()), false);
  assert.equal(list().items.length, 1);
  while (errors.prune(Date.now() + 31 * 86_400_000));
  assert.equal(list().items.length, 0);
  await report();
  while (errors.forget(APP));
  assert.equal(list().items.length, 0);
});

test('the lines of an error’s trace are searched at their time, and not among all later lines', async (t) => {
  const directory = temporaryDirectory(t);
  const stacks = new SourceStacks('/nowhere');
  const at = Date.now() - 3 * 3_600_000;
  const rows = Array.from({ length: 50_000 }, (_, n) => {
    const printedAt = at - 3_600_000 + n * 250;
    const isOfTrace = Math.abs(printedAt - at) < 1_000;
    return {
      ...{ id: idAt(printedAt), at: printedAt, level: 1, source: 0, text: `line ${n}`, fields: null },
      ...{ trace_id: isOfTrace ? TRACE : null, release: null },
    };
  });
  const before = openTelemetryDatabase(`${directory}/logs.sqlite`, LOGS_MIGRATIONS);
  logQueries(before).append(APP, rows);
  before.close();
  const store = new Store(directory);
  t.after(() => store.close());
  const logs = new Logs(
    store,
    { fleetLog: 'error', stacks },
    { onError() {}, onRun() {}, onPoint() {}, onCalls() {}, onReport() {} },
  );
  const sought: number[] = [];
  const errors = new Errors(store, { retentionDays: 30, stacks }, (params) => {
    sought.push(params.before! - idAt(params.since!));
    return logs.answers.logs!(params);
  });
  errors.report({ appId: APP, release: null, at, traceId: TRACE, error: { ...REPORTED, stack: null } });
  const { fingerprint } = listed(errors, 'open').items[0]!;
  const { occurrences } = await errors.answers['errors/get']!({ appId: APP, fingerprint });
  assert.equal(occurrences[0]!.log.length, 7);
  assert.ok(sought[0]! < idAt(120_000), `${sought[0]} ids are looked at`);
});
