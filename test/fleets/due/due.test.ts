// Work of sleeping apps that falls due.
// Mostly waits.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import { readAlarms } from '../../../runtime/fleets/due/alarms.ts';
import { assertGone, dueReader, type Harness, harness, nextDue } from '../../support/fleets/harness.ts';
import { makeRelease } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

/** Duration of an alarm whose process must still run when the test looks, also on a busy machine. In ms. */
const LONG_MS = 15_000;

/** `/set?<ms>` sets an alarm this far ahead and returns its time. An alarm takes `alarmMs`. */
const code = (alarmMs: number) => `
import { DurableObject } from 'cloudflare:workers';
export class Clock extends DurableObject {
  async set(ms) {
    const at = Date.now() + ms;
    await this.ctx.storage.setAlarm(at);
    return at;
  }
  async alarm() {
    console.log('alarm begins at ' + Date.now());
    await scheduler.wait(${alarmMs});
    console.log('alarm ends');
  }
}
export default {
  async fetch(request, env) {
    const { search } = new URL(request.url);
    return new Response(String(await env.CLOCK.getByName('one').set(Number(search.slice(1)))));
  },
};`;

async function clock(
  t: TestContext,
  { idleMs = 0, alarmMs = 800 } = {},
): Promise<Harness & { live: { deployId: string; directory: string } }> {
  const app = harness(t, { idleMs });
  const live = await makeRelease(`${app.root}/release-1`, code(alarmMs), {
    classes: [{ className: 'Clock', storageId: 'clock', sql: true }],
    durableObjects: [{ binding: 'CLOCK', className: 'Clock' }],
  });
  await app.fleet.start(live);
  return { ...app, live };
}

/** Runs the fleet's checks as the host's timer does, but more often. */
function runClock(t: TestContext, { fleet }: Harness): void {
  const timer = setInterval(() => fleet.tick(), 20);
  t.after(() => clearInterval(timer));
}

const alarms = ({ lines }: Harness, what: string) => lines.filter((line) => line.includes(what));

test('an alarm of a hibernated app runs in time, and the process hibernates again after it', async (t) => {
  const app = await clock(t);
  runClock(t, app);
  const at = Number((await app.ask('/?10000')).text);
  await app.rested();
  assert.deepEqual(app.rests, [{ dueAt: at }]);
  assert.equal(app.fleet.state, 'idle');
  await app.until(() => app.rests.length === 3);
  assert.deepEqual(app.rests, [{ dueAt: at }, null, { dueAt: null }]);
  const ran = Number(/at (\d+)/.exec(alarms(app, 'alarm begins')[0]!)![1]);
  assert.ok(ran >= at && ran - at < 20_000, `${ran - at} ms late`);
  assert.equal(alarms(app, 'alarm begins').length, 1);
  assert.equal(alarms(app, 'alarm ends').length, 1, 'an alarm under way keeps the process');
});

test('an alarm of a sleeping app runs, and the app stays asleep for requests', async (t) => {
  const app = await clock(t);
  runClock(t, app);
  const at = Number((await app.ask('/?10000')).text);
  await app.fleet.sleep();
  assert.deepEqual([app.fleet.state, app.rests], ['stopped', [{ dueAt: at }]]);
  await app.until(() => alarms(app, 'alarm begins').length === 1);
  assert.equal(app.fleet.asleep, true);
  await app.until(() => app.rests.length === 3);
  assert.equal(alarms(app, 'alarm ends').length, 1);
  assert.deepEqual([app.fleet.state, app.fleet.asleep], ['stopped', true]);
});

test('a request just before the sleep does not keep the process of its alarm', async (t) => {
  const app = await clock(t, { idleMs: Number.POSITIVE_INFINITY });
  await app.ask('/?10000');
  await app.fleet.sleep();
  runClock(t, app);
  await app.until(() => app.rests.length === 3);
  assert.deepEqual([app.fleet.asleep, app.fleet.pid], [true, null]);
});

test('a sleeping app that wakes during its alarm continues in the same process', async (t) => {
  const app = await clock(t, { alarmMs: LONG_MS });
  await app.ask('/?10000');
  await app.fleet.sleep();
  runClock(t, app);
  await app.until(() => alarms(app, 'alarm begins').length === 1);
  const { pid } = app.fleet;
  await app.fleet.start(app.live);
  assert.deepEqual([app.fleet.asleep, app.fleet.state, app.fleet.pid], [false, 'running', pid]);
  assert.equal((await app.ask('/?60000')).status, 200);
});

test('an alarm that was known when the host ended runs after its next start', async (t) => {
  const app = await clock(t);
  const at = Number((await app.ask('/?10000')).text);
  await app.fleet.close();
  const next = harness(t, {
    idleMs: 0,
    directories: { run: `${app.root}/run`, data: `${app.root}/data` },
  });
  assert.equal(await nextDue(app.live.directory, `${app.root}/data`), at);
  next.fleet.restore('idle', app.live, null);
  runClock(t, next);
  await next.until(() => next.rests.at(-1)?.dueAt === null);
  assert.equal(alarms(next, 'alarm ends').length, 1);
});

test('an alarm of a sleeping app is retried when its process dies, which counts as one failure', async (t) => {
  const app = await clock(t, { alarmMs: LONG_MS });
  await app.ask('/?10000');
  await app.fleet.sleep();
  runClock(t, app);
  await app.until(() => alarms(app, 'alarm begins').length === 1);
  const { pid } = app.fleet;
  process.kill(pid!, 'SIGKILL');
  await app.until(() => app.fleet.lastError !== null);
  assert.equal(app.fleet.lastError!.split(';')[0], 'workerd was ended by SIGKILL');
  assert.deepEqual(
    app.failures.map(({ mechanism }) => mechanism),
    ['crash'],
  );
  assertGone(pid);
  await app.until(() => app.rests.at(-1)?.dueAt === null);
  assert.equal(alarms(app, 'alarm ends').length, 1);
  assert.equal(app.fleet.asleep, true);
});

test('a stopped app does not run its alarms', async (t) => {
  const app = await clock(t);
  await app.ask('/?60000');
  await app.fleet.stop();
  app.fleet.tick();
  assert.deepEqual([app.fleet.state, app.fleet.pid, app.rests], ['stopped', null, []]);
});

test('an app without an alarm or a Durable Object has nothing due', async (t) => {
  const app = await clock(t);
  assert.equal(await nextDue(app.live.directory, `${app.root}/data`), null);
  assert.equal(await nextDue(app.live.directory, `${app.root}/nowhere`), null);
});

test('while alarms cannot be read the process stays, and hibernates once they can', async (t) => {
  const app = await clock(t);
  const metadata = `${app.root}/data/do/clock/metadata.sqlite`;
  renameSync(metadata, `${metadata}.aside`);
  mkdirSync(metadata);
  runClock(t, app);
  await app.until(() => alarms(app, 'alarms could not be read').length > 1);
  assert.equal(app.fleet.state, 'running');
  rmdirSync(metadata);
  renameSync(`${metadata}.aside`, metadata);
  await app.rested();
});

for (const [what, put] of Object.entries({
  'a pipe': (path) => execFileSync('mkfifo', [path]),
  'a link': (path) => symlinkSync('/dev/zero', path),
  'a file that is no database': (path) => writeFileSync(path, 'nothing'),
  'a view without an end': (path) => {
    const rows = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c';
    writeDatabase(
      path,
      `CREATE VIEW _cf_ALARM AS SELECT x AS scheduled_time, '' AS actor_name FROM (${rows})`,
    );
  },
  'a column that computes': (path) =>
    writeDatabase(path, 'CREATE TABLE _cf_ALARM(actor_name, scheduled_time AS (1))'),
  'a schema whose pages never end': (path) => writeEndlessSchema(path),
  'a database whose log is a pipe': (path) => {
    writeDatabase(path, 'PRAGMA journal_mode = DELETE; CREATE TABLE _cf_ALARM(scheduled_time, actor_name)');
    execFileSync('mkfifo', [`${path}-wal`]);
  },
} satisfies Record<string, (path: string) => void>)) {
  test(`${what} in place of the alarms is refused, the host keeps running, and nothing of it is left`, async (t) => {
    const app = await clock(t);
    await app.fleet.stop();
    const metadata = `${app.root}/data/do/clock/metadata.sqlite`;
    mkdirSync(dirname(metadata), { recursive: true });
    rmSync(metadata, { force: true });
    put(metadata);
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    await assert.rejects(nextDue(app.live.directory, `${app.root}/data`), /reading the alarms/);
    assert.ok(delay.max < 3_000e6, `the host stood still for ${delay.max / 1e6} ms`);
    assert.ok(!existsSync(`${app.root}/data/alarms-of-test`));
  });
}

test('an alarm read that is cancelled when its app is deleted does not recreate a directory of the app', async (t) => {
  const app = await clock(t);
  await app.fleet.stop();
  const [data, scratch] = [`${app.root}/data`, `${app.root}/data/alarms-of-test`];
  const abort = new AbortController();
  const reading = dueReader(data).next(app.live.directory, abort.signal);
  // Waits without a timer, because the read takes only a moment.
  while (!existsSync(scratch)) await new Promise(setImmediate);
  rmSync(data, { recursive: true });
  abort.abort();
  await assert.rejects(reading);
  assert.ok(!existsSync(data));
});

test("one account's endless alarm reads leave a reader for another account", async (t) => {
  const folder = temporaryDirectory(t);
  const [endless, own] = [join(folder, 'endless.sqlite'), join(folder, 'own.sqlite')];
  writeEndlessSchema(endless);
  writeDatabase(
    own,
    'CREATE TABLE _cf_ALARM(scheduled_time, actor_name); INSERT INTO _cf_ALARM VALUES (7000000, 1)',
  );
  const read = (path: string, owner: string, signal: AbortSignal) =>
    readAlarms(
      { earliest: [path], named: [], before: 0 },
      { owner, user: null, scratch: join(folder, randomUUID()), signal },
    );
  const running = () =>
    readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory()).length;
  /** Whether a read of the other account returns while all endless reads run or wait. */
  const isFree = async () => {
    const greedy = new AbortController();
    let ended = 0;
    const readings = Array.from({ length: 8 }, () =>
      assert.rejects(read(endless, 'greedy', greedy.signal)).finally(() => ended++),
    );
    await eventually(() => running() >= 3, 'endless reads run');
    const answer = await read(own, 'modest', AbortSignal.timeout(30_000)).catch(() => null);
    const ok = answer !== null && ended === 0;
    greedy.abort();
    await Promise.all(readings);
    if (ok) assert.deepEqual(answer, { times: [7], alarms: [] });
    return ok;
  };
  // Endless reads end after five seconds. On a busy machine the other read may take longer, so it is tried again.
  await eventually(isFree, 'a read of the other account returns before an endless read ends');
});

/** Writes a database whose schema is a tree of pages. All children of a page are the same next page: 100^15 paths. */
function writeEndlessSchema(path: string): void {
  const [pageSize, depth, children] = [4096, 15, 100];
  writeDatabase(path, 'PRAGMA journal_mode = DELETE; CREATE TABLE _cf_ALARM(scheduled_time, actor_name)');
  const bytes = Buffer.concat([readFileSync(path).subarray(0, pageSize), Buffer.alloc(pageSize * depth)]);
  bytes.writeUInt32BE(1 + depth, 28);
  for (let page = 1; page <= depth; page++) {
    const start = (page - 1) * pageSize;
    const header = start + (page === 1 ? 100 : 0);
    bytes.fill(0, header, start + pageSize);
    bytes.writeUInt8(0x05, header);
    bytes.writeUInt16BE(children, header + 3);
    bytes.writeUInt16BE(2048, header + 5);
    bytes.writeUInt32BE(page + 1, header + 8);
    for (let child = 0; child < children; child++) {
      const cell = 2048 + child * 5;
      bytes.writeUInt16BE(cell, header + 12 + 2 * child);
      bytes.writeUInt32BE(page + 1, start + cell);
      bytes.writeUInt8(child + 1, start + cell + 4);
    }
  }
  // The last page is a leaf with one entry, whose five columns are null.
  const leaf = depth * pageSize;
  bytes.fill(0, leaf);
  bytes.writeUInt8(0x0d, leaf);
  bytes.writeUInt16BE(1, leaf + 3);
  bytes.writeUInt16BE(pageSize - 8, leaf + 5);
  bytes.writeUInt16BE(pageSize - 8, leaf + 8);
  bytes.set([6, 1, 6, 0, 0, 0, 0, 0], leaf + pageSize - 8);
  writeFileSync(path, bytes);
}

function writeDatabase(path: string, sql: string): void {
  const database = new Database(path);
  database.exec(sql);
  database.close();
}
