import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { MemoryGauge } from '../../../runtime/fleets/admission/memory.ts';
import type { Cell } from '../../../runtime/fleets/process/cell.ts';
import { CoreUse } from '../../../runtime/fleets/process/core-use.ts';
import { Watchdog } from '../../../runtime/fleets/process/watchdog.ts';
import { call, makeRelease, startRelease } from '../../support/fleets/release.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const CODE = `
export default { async fetch(request) {
  const { pathname, search } = new URL(request.url);
  if (pathname === '/loop') for (;;);
  if (pathname === '/work') for (let left = Number(search.slice(1)) * 1e6; left > 0; left--) Math.random();
  if (request.headers.get('upgrade') === 'websocket') {
    const [client, server] = Object.values(new WebSocketPair());
    server.accept();
    server.addEventListener('message', () => { for (;;); });
    return new Response(null, { status: 101, webSocket: client });
  }
  return new Response('ok');
} }`;
const LIMITS = { leastCpuMs: 600, silentMs: 60_000 };

/** A process of `CODE` whose CPU usage is read, and which the watchdog checks, as often as possible. */
async function watched(t: TestContext, limits = LIMITS) {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/release`, CODE);
  const cell = await startRelease(root, directory);
  cell.cpuLimitMs = LIMITS.leastCpuMs;
  t.after(() => cell.kill());
  const memory = new MemoryGauge(0, 512);
  memory.watch(cell, { footprint: 0, evict: () => {}, coreUse: new CoreUse() });
  const stuck: Cell[] = [];
  const watchdog = new Watchdog((found, why) => {
    stuck.push(found);
    assert.equal(why, 'cpu');
  }, limits);
  const look = setInterval(() => {
    void memory.sample();
    watchdog.look(cell, false);
  }, 100);
  t.after(() => clearInterval(look));
  const found = async () => {
    const deadline = AbortSignal.timeout(60_000);
    while (stuck.length === 0) {
      deadline.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.deepEqual(stuck, [cell]);
  };
  return { cell, stuck, found };
}

test('a process in an endless loop is found without any waiting request', async (t) => {
  const { cell, found } = await watched(t);
  const looped = call(cell.socketPath('http'), '/loop').catch(() => null);
  await found();
  cell.kill();
  await looped;
});

test('a loop behind a WebSocket is found', async (t) => {
  const { cell, found } = await watched(t);
  const headers = {
    connection: 'upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  };
  const upgrade = request({ socketPath: cell.socketPath('http'), headers });
  upgrade.end();
  const [, socket] = await once(upgrade, 'upgrade');
  socket.on('error', () => {});
  // A text message of one byte with a zero mask.
  socket.write(Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x61]));
  await found();
  cell.kill();
  await cell.exited;
});

test('a process that is stopped or waits for the processor is not stuck while it uses no CPU time', async (t) => {
  const { cell, stuck } = await watched(t);
  const working = call(cell.socketPath('http'), '/work?20');
  process.kill(cell.pid, 'SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, 4 * LIMITS.leastCpuMs));
  assert.deepEqual(stuck, []);
  process.kill(cell.pid, 'SIGCONT');
  await working;
});

test('a process that responds now and then is left alone, however busy it is', async (t) => {
  const { cell, stuck } = await watched(t);
  for (const end = performance.now() + 3_000; performance.now() < end; )
    assert.equal((await call(cell.socketPath('http'), '/work?1')).text, 'ok');
  assert.deepEqual(stuck, []);
});

/**
 * A watchdog that checks a process once a second of a simulated clock.
 * The returned `pass` advances that clock. In each second the process uses `cpuMs` of CPU time. It responds only if it `answers`.
 */
function clocked(cpuLimitMs: number) {
  let now = 0;
  let isSilent = true;
  const asked: (() => void)[] = [];
  const cell = {
    cpuLimitMs,
    usage: { cpuMs: 0 },
    answers: () => new Promise<void>((answer) => asked.push(answer)),
  };
  const found: string[] = [];
  const watchdog = new Watchdog(
    (_, why) => found.push(`${why} after ${now / 1000} s`),
    undefined,
    () => now,
  );
  const pass = async (seconds: number, cpuMs: number, answers = false) => {
    for (let second = 0; second < seconds; second++) {
      now += 1000;
      cell.usage = { cpuMs: cell.usage.cpuMs + cpuMs };
      isSilent = !answers;
      watchdog.look(cell as unknown as Cell, true);
      if (!isSilent) for (const answer of asked.splice(0)) answer();
      await setImmediate();
    }
  };
  return { pass, found };
}

test('an app may compute up to its CPU limit and no longer', async () => {
  for (const [limitMs, computedS, ended] of [
    [60_000, 35, []],
    [60_000, 70, ['cpu after 61 s']],
    [30_000, 29, []],
    [30_000, 40, ['cpu after 31 s']],
    // A limit below 2 s counts as 2 s, because many short requests may use that much.
    [500, 10, ['cpu after 3 s']],
  ] as const) {
    const { pass, found } = clocked(limitMs);
    await pass(computedS, 1000);
    await pass(1, 1000, true);
    assert.deepEqual(found, ended, `${computedS} s of ${limitMs} ms`);
  }
});

test('an app with only part of a processor gets its full CPU time and does not count as unresponsive', async () => {
  const { pass, found } = clocked(30_000);
  await pass(100, 250);
  assert.deepEqual(found, []);
  await pass(30, 250);
  assert.deepEqual(found, ['cpu after 121 s']);
});

test('a process that never responds and uses no CPU time is found', async () => {
  const { pass, found } = clocked(300_000);
  await pass(20, 1000);
  await pass(70, 0);
  assert.deepEqual(found, ['silent after 80 s']);
});

test('an app that waits for others and responds is left alone', async () => {
  const { pass, found } = clocked(2_000);
  await pass(600, 1, true);
  await pass(600, 900, true);
  assert.deepEqual(found, []);
});
