// Queues of an app: real workerd, through hibernation, sleep and kills.
// Mostly waits.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { QueueConsumer } from '../../../bundler/release.ts';
import { type Harness, harness, nextDue } from '../../support/fleets/harness.ts';
import { makeRelease } from '../../support/fleets/release.ts';

/**
 * `/?body` sends a message. Each batch is a line: queue, bodies with their attempts, time. `slow` takes 800 ms,
 * `long` takes a minute, `bad` throws, `loop` never ends at its first attempt.
 * `/wrong` answers with the errors of sends above a limit.
 */
const CODE = `
const error = (work) => work.then(() => 'sent', ({ message }) => message);
export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === '/wrong') return Response.json(await Promise.all([
      env.JOBS.send('x'.repeat(128_001), { contentType: 'text' }),
      env.JOBS.sendBatch(Array.from({ length: 101 }, (_, body) => ({ body }))),
      env.JOBS.sendBatch([{ body: 'x'.repeat(128_001), contentType: 'text' }]),
      env.JOBS.sendBatch(Array.from({ length: 3 }, () => ({ body: 'x'.repeat(100_000), contentType: 'text' }))),
      env.JOBS.send(1, { delaySeconds: 86_401 }),
      env.JOBS.send(1, { delaySeconds: -1 }),
      env.JOBS.sendBatch([{ body: 1 }, { body: 2, delaySeconds: 86_401 }]),
      env.JOBS.sendBatch([{ body: 1 }], { delaySeconds: 86_401 }),
      env.JOBS.send('kept', { delaySeconds: 86_400 }),
    ].map(error)));
    await env.JOBS.send(new URL(request.url).search.slice(1));
    return new Response(String(Date.now()));
  },
  async queue({ queue, messages }) {
    const bodies = messages.map(({ body, attempts }) => body + '/' + attempts);
    console.log('batch of ' + queue + ': ' + bodies.join(' ') + ' at ' + Date.now());
    if (messages.some(({ body }) => body === 'slow')) await scheduler.wait(800);
    if (messages.some(({ body }) => body === 'long')) await scheduler.wait(60_000);
    if (bodies.includes('loop/1')) for (;;);
    if (queue === 'jobs' && messages.some(({ body }) => body === 'bad')) throw new Error('bad message');
    console.log('end of ' + bodies.join(' '));
  },
};`;

/** Long enough for an app to hibernate before its batch is due. */
const BATCH_TIMEOUT_S = 3;
/** The timeout for a busy machine. */
const LATE_MS = 20_000;

interface Jobs extends Harness {
  live: { deployId: string; directory: string };
  /** Sends a message and returns the time. */
  send: (body: string) => Promise<number>;
  /** Returns the batches so far: `queue: body/attempt …`. */
  batches: () => string[];
}

async function jobs(t: TestContext, settings: Partial<QueueConsumer> = {}, idleMs = 0): Promise<Jobs> {
  const app = harness(t, { idleMs });
  const live = await release(`${app.root}/release-1`, settings);
  await app.fleet.start(live);
  const batches = () => app.lines.flatMap((line) => /^\{.*batch of ([^"\\]*) at \d+/.exec(line)?.[1] ?? []);
  return { ...app, live, batches, send: async (body) => Number((await app.ask(`/?${body}`)).text) };
}

function release(directory: string, settings: Partial<QueueConsumer> = {}) {
  const consumer = { queue: 'jobs', maxBatchTimeout: BATCH_TIMEOUT_S, ...settings };
  return makeRelease(directory, CODE, {
    // This CPU limit soon cuts a batch that never ends.
    cpuMs: 2_000,
    triggers: {
      crons: [],
      producers: [{ binding: 'JOBS', queue: 'jobs' }],
      consumers: [consumer, { queue: 'dead', maxBatchTimeout: 0 }],
    },
  });
}

/** Runs the fleet's checks as the host's timer does, but more often. */
function runClock(t: TestContext, { tick }: Harness): void {
  const timer = setInterval(tick, 20);
  t.after(() => clearInterval(timer));
}

/** Returns the delay of the first batch after its messages were due, in ms. */
function lateness({ lines }: Harness, sentAt: number): number {
  const line = lines.find((entry) => entry.includes('batch of'))!;
  return Number(/ at (\d+)/.exec(line)![1]) - sentAt - BATCH_TIMEOUT_S * 1000;
}

test('messages arrive in batches, in the order in which they were sent', async (t) => {
  const app = await jobs(t, { maxBatchSize: 2 });
  for (const body of ['a', 'b', 'c']) await app.send(body);
  await app.until(() => app.batches().length === 2);
  assert.deepEqual(app.batches(), ['jobs: a/1 b/1', 'jobs: c/1']);
});

test('a message sent just before the app hibernates is consumed in time', async (t) => {
  const app = await jobs(t);
  const sentAt = await app.send('slow');
  app.fleet.tick();
  app.fleet.tick();
  await app.rested();
  assert.ok(Math.abs(app.rests.at(-1)!.dueAt! - sentAt - BATCH_TIMEOUT_S * 1000) < 2_000);
  runClock(t, app);
  await app.until(() => app.rests.length === 3);
  assert.deepEqual(app.batches(), ['jobs: slow/1']);
  assert.ok(
    app.lines.some((line) => line.includes('end of slow')),
    'a batch under way keeps the process',
  );
  assert.ok(lateness(app, sentAt) < LATE_MS, `${lateness(app, sentAt)} ms late`);
  assert.deepEqual([app.fleet.state, app.rests.at(-1)], ['idle', { dueAt: null }]);
});

test('a message sent just before the app falls asleep is consumed in time without waking it', async (t) => {
  const app = await jobs(t);
  const sentAt = await app.send('slow');
  await app.fleet.sleep();
  assert.equal(app.fleet.asleep, true);
  const changes = app.states.length;
  runClock(t, app);
  await app.until(() => app.rests.at(-1)?.dueAt === null);
  assert.deepEqual(app.batches(), ['jobs: slow/1']);
  assert.ok(lateness(app, sentAt) < LATE_MS, `${lateness(app, sentAt)} ms late`);
  assert.deepEqual([app.fleet.state, app.states.length], ['stopped', changes]);
});

test('a batch that throws is retried while the app sleeps, then goes to the dead letter queue', async (t) => {
  const app = await jobs(t, { maxRetries: 1, retryDelay: 1, deadLetterQueue: 'dead' });
  await app.send('bad');
  await app.fleet.sleep();
  runClock(t, app);
  await app.until(() => app.rests.at(-1)?.dueAt === null);
  assert.deepEqual(app.batches(), ['jobs: bad/1', 'jobs: bad/2', 'dead: bad/1']);
  assert.equal(app.fleet.asleep, true);
});

test('a send above a limit names the limit', async (t) => {
  const app = await jobs(t);
  assert.deepEqual(JSON.parse((await app.ask('/wrong')).text), [
    'message length of 128001 bytes exceeds limit of 128000 bytes (10204)',
    'batch message count of 101 exceeds limit of 100 messages (10206)',
    'message in batch of 128001 bytes exceeds limit of 128000 bytes (10204)',
    'batch size of 300000 bytes exceeds limit of 256000 bytes (10205)',
    'delay of 86401 s is out of range: 0 to 86400 s (10203)',
    'delay of -1 s is out of range: 0 to 86400 s (10203)',
    'delay of 86401 s is out of range: 0 to 86400 s (10203)',
    'delay of 86401 s is out of range: 0 to 86400 s (10202)',
    'sent',
  ]);
});

test('a dead letter does not wait for the retry delay', async (t) => {
  const app = await jobs(t, {
    maxBatchTimeout: 0,
    maxRetries: 0,
    retryDelay: 86_400,
    deadLetterQueue: 'dead',
  });
  await app.send('bad');
  await app.until(() => app.batches().length === 2);
  assert.deepEqual(app.batches(), ['jobs: bad/1', 'dead: bad/1']);
});

test('messages survive kill -9, also one that was being consumed', async (t) => {
  const app = await jobs(t, { maxBatchTimeout: 0 });
  await app.send('slow');
  await app.until(() => app.batches().length === 1);
  process.kill(app.fleet.pid!, 'SIGKILL');
  await app.until(() => app.lines.some((line) => line.includes('end of slow')));
  assert.deepEqual(app.batches(), ['jobs: slow/1', 'jobs: slow/2']);
});

test('a deploy keeps the messages, and its consumer gets them', async (t) => {
  const app = await jobs(t, { maxBatchTimeout: 5 });
  await app.send('a');
  const next = await release(`${app.root}/release-2`);
  await app.fleet.swap(next, { commit: async () => {}, log: () => {} });
  await app.until(() => app.batches().length === 1);
  assert.deepEqual(app.batches(), ['jobs: a/1']);
});

test('a deploy uses up no attempt of the batch under way, but a crash does', async (t) => {
  const settings = { maxBatchTimeout: 0, maxRetries: 1 };
  const app = await jobs(t, settings);
  await app.send('long');
  await app.until(() => app.batches().length === 1);
  const next = await release(`${app.root}/release-2`, settings);
  await app.fleet.swap(next, { commit: async () => {}, log: () => {} });
  await app.until(() => app.batches().length === 2);
  process.kill(app.fleet.pid!, 'SIGKILL');
  await app.until(() => app.batches().length === 3);
  assert.deepEqual(app.batches(), ['jobs: long/1', 'jobs: long/1', 'jobs: long/2']);
});

test('a `max_concurrency` above the limit of workerd does not lower the number of concurrent batches', async (t) => {
  const app = await jobs(t, { maxBatchSize: 1, maxBatchTimeout: 0, maxConcurrency: 20 });
  for (let n = 0; n < 8; n++) await app.send('long');
  await app.until(() => app.batches().length === 8, LATE_MS);
});

test('empty queues schedule nothing', async (t) => {
  const app = await jobs(t);
  assert.equal(await nextDue(app.live.directory, `${app.root}/data`), null);
});

test('a batch that never ends is cut and retried though the app sleeps', async (t) => {
  const app = await jobs(t, {}, 1_000);
  await app.send('loop');
  await app.fleet.sleep();
  runClock(t, app);
  await app.until(() => app.batches().length === 2);
  assert.deepEqual(app.batches(), ['jobs: loop/1', 'jobs: loop/2']);
  assert.equal(app.fleet.asleep, true);
});
