import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { serialize } from 'node:v8';
import Database from 'better-sqlite3';
import { type Harness, harness, nextDue } from '../../support/fleets/harness.ts';
import { makeRelease } from '../../support/fleets/release.ts';

const MINUTE_MS = 60_000;
const EVERY_MINUTE = '* * * * *';
/** Once a year, in a month that is not near. */
const YEARLY = `0 0 1 ${((new Date().getUTCMonth() + 6) % 12) + 1} *`;

/** Each run of a cron writes a line: expression, scheduled time, actual time. A run takes 800 ms. */
const CODE = `
export default {
  fetch: () => new Response('answered'),
  async scheduled({ cron, scheduledTime }) {
    console.log('run of ' + cron + ' for ' + scheduledTime + ' at ' + Date.now());
    await scheduler.wait(800);
    console.log('end of ' + cron);
  },
};`;

interface Crons extends Harness {
  live: { deployId: string; directory: string };
  nextDue: () => Promise<number | null>;
  /** Returns the runs so far. */
  runs: () => { cron: string; for: number; at: number }[];
}

/** A fleet that has started a release with crons, all scheduled. */
async function crons(t: TestContext, expressions: string[], code = CODE): Promise<Crons> {
  const app = harness(t, { idleMs: 0 });
  const live = await release(`${app.root}/release-1`, expressions, code);
  const started = withRuns(app, live);
  await app.fleet.start(live);
  runClock(t, app);
  await app.rested();
  return started;
}

function withRuns(app: Harness, live: Crons['live'], root = app.root): Crons {
  return {
    ...app,
    live,
    nextDue: () => nextDue(live.directory, `${root}/data`),
    runs: () =>
      app.lines.flatMap((line) => {
        const [, cron, time, at] = /run of (.*) for (\d+) at (\d+)/.exec(line) ?? [];
        return cron === undefined ? [] : [{ cron, for: Number(time), at: Number(at) }];
      }),
  };
}

function release(directory: string, expressions: string[], code = CODE) {
  return makeRelease(directory, code, { triggers: { crons: expressions, producers: [], consumers: [] } });
}

/** Runs the fleet's checks as the host's timer does, but more often. */
function runClock(t: TestContext, { fleet }: Harness): void {
  const timer = setInterval(() => fleet.tick(), 20);
  t.after(() => clearInterval(timer));
}

/**
 * Closes the fleet, changes the stored time of a cron, and starts again with the app asleep.
 * @param due when the cron is due, and its scheduled time
 */
async function later(
  t: TestContext,
  app: Crons,
  cron: string,
  due: { at: number; for: number },
): Promise<Crons> {
  await app.fleet.close();
  const directory = `${app.root}/data/do/Schedule`;
  const time = BigInt(due.at) * 1_000_000n;
  const alarms = new Database(`${directory}/metadata.sqlite`);
  const query = 'UPDATE _cf_ALARM SET scheduled_time = ? WHERE actor_name = ? RETURNING actor_id AS id';
  const { id } = alarms.prepare<[bigint, string], { id: string }>(query).get(time, cron)!;
  alarms.close();
  const schedule = new Database(`${directory}/${id}.sqlite`);
  schedule.prepare('UPDATE _cf_METADATA SET value = ? WHERE key = 1').run(time);
  schedule.prepare("UPDATE _cf_KV SET value = ? WHERE key = 'at'").run(serialize(due.for));
  schedule.close();
  const next = harness(t, { idleMs: 0, directories: { run: `${app.root}/run`, data: `${app.root}/data` } });
  next.fleet.restore('idle', app.live, null);
  next.fleet.asleep = true;
  return withRuns(next, app.live, app.root);
}

const lastMinute = () => Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;

test('a cron of a sleeping app runs in time without waking it', async (t) => {
  const started = await crons(t, [EVERY_MINUTE, YEARLY]);
  const due = { at: Date.now() + 500, for: lastMinute() };
  const app = await later(t, started, EVERY_MINUTE, due);
  assert.equal(await app.nextDue(), due.at);
  runClock(t, app);
  // There may be a second run already, because the next minute may begin at any moment.
  await app.until(() => app.runs().length >= 1);
  assert.equal(app.fleet.asleep, true);
  const [run] = app.runs();
  assert.deepEqual([run!.cron, run!.for], [EVERY_MINUTE, due.for]);
  assert.ok(run!.at >= due.at && run!.at - due.at < 20_000, `${run!.at - due.at} ms late`);
  await app.rested();
  assert.ok(
    app.lines.some((line) => line.includes(`end of ${EVERY_MINUTE}`)),
    'a run keeps the process',
  );
  assert.ok(
    app.lines.some(
      (line) => line.includes('"trigger":"schedule"') || line.includes('\\"trigger\\":\\"schedule\\"'),
    ),
    'its end is told',
  );
  assert.deepEqual([app.fleet.state, app.fleet.asleep], ['stopped', true]);
});

test('a cron that missed many runs runs once', async (t) => {
  const started = await crons(t, [EVERY_MINUTE]);
  const missed = lastMinute() - 60 * MINUTE_MS;
  const app = await later(t, started, EVERY_MINUTE, { at: missed, for: missed });
  runClock(t, app);
  await app.until(() => app.runs().length > 0);
  await app.rested();
  assert.equal(app.runs()[0]!.for, missed);
  assert.ok(app.runs().every((run, i) => i === 0 || run.for > run.at - MINUTE_MS));
  assert.ok((await app.nextDue())! > lastMinute());
});

test('a run that is cut by a killed process or by sleep is retried while the app sleeps', async (t) => {
  const started = await crons(t, [EVERY_MINUTE]);
  const minute = lastMinute();
  const app = await later(t, started, EVERY_MINUTE, { at: minute, for: minute });
  runClock(t, app);
  await app.until(() => app.runs().length >= 1);
  const before = app.runs().length;
  process.kill(app.fleet.pid!, 'SIGKILL');
  await app.until(() => app.runs().length > before);
  await app.fleet.start(app.live);
  await app.fleet.sleep();
  await app.until(() => app.lines.some((line) => line.includes(`end of ${EVERY_MINUTE}`)));
  assert.ok(app.runs().every((run) => run.for === minute || run.for === minute + MINUTE_MS));
});

test('a cron that throws is retried, and its process does not stay for the retry', async (t) => {
  const code = CODE.replace(
    'await scheduler.wait(800);',
    `if (Date.now() % 2 < 2) throw new Error('thrown');`,
  );
  const minute = lastMinute();
  // This cron is not due again within an hour.
  const hourly = `${new Date(minute).getUTCMinutes()} * * * *`;
  const started = await crons(t, [hourly], code);
  const app = await later(t, started, hourly, { at: minute, for: minute });
  runClock(t, app);
  await app.until(() => app.runs().length === 2);
  const [first, second] = app.runs();
  assert.ok(second!.at - first!.at >= 2_000);
  assert.equal(second!.for, minute);
  // The state is stored at the beginning, and at each start and end of the process.
  assert.deepEqual(app.rests.length, 4);
});

test('a deploy schedules its new crons at once and removes the others', async (t) => {
  const app = await crons(t, [EVERY_MINUTE]);
  const next = await release(`${app.root}/release-2`, [YEARLY]);
  await app.fleet.swap(next, { commit: async () => {}, log: () => {} });
  await app.fleet.sleep();
  await app.until(() => (app.rests.at(-1)?.dueAt ?? 0) > Date.now() + 30 * 24 * 60 * MINUTE_MS);
  assert.equal(new Date(app.rests.at(-1)!.dueAt!).toISOString().slice(7), '-01T00:00:00.000Z');
});
