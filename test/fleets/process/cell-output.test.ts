// Apps that print as much as they can.
import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { PassThrough } from 'node:stream';
import { finished } from 'node:stream/promises';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { BYTES_PER_S, CellOutput, lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import type { OutputSink } from '../../../runtime/processes/output-sink.ts';
import { cpuTime } from '../../support/cpu-time.ts';
import { call, cellOptions, makeRelease } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const FLOOD = `
export default { async fetch(request, env, context) {
  const length = Number(new URL(request.url).search.slice(1));
  if (length === 0) return new Response('ok');
  const line = 'x'.repeat(length);
  for (;;) {
    for (let i = 0; i < 200; i++) console.log(line);
    await scheduler.wait(0);
  }
} }`;
/** Prints up to 100,000 lines a second. Returns their number and duration. */
const PACED = `
export default { async fetch() {
  const begun = Date.now();
  let printed = 0;
  for (; printed < 200_000; printed += 500) {
    for (let i = 0; i < 500; i++) console.log('a line of an app');
    await scheduler.wait(Math.max(0, begun + (printed + 500) / 100 - Date.now()));
  }
  return Response.json({ printed, ms: Date.now() - begun });
} }`;
const BURST_LINES = 1_000;
/** Prints at once, and then nothing more. */
const BURST = `
export default { fetch() {
  for (let i = 0; i < ${BURST_LINES}; i++) console.log('x'.repeat(8_000));
  return new Response('ok');
} }`;
const MEASURED_MS = 3_000;

/** A sink that counts the bytes it gets and those reported as dropped. */
function counting(): OutputSink & { bytes: number; lines: number; lost: number } {
  const sink = lineSink(() => counted.lines++);
  let isAfterGap = false;
  const counted = {
    bytes: 0,
    lines: 0,
    lost: 0,
    isCrowded: false,
    write: (...given: Parameters<OutputSink['write']>) => {
      const [, piece, dropped] = given;
      counted.bytes += piece.length;
      counted.lost += dropped ?? 0;
      isAfterGap ||= dropped !== null;
      // The first bytes belong to a line whose beginning is lost.
      if (isAfterGap && piece.length > 0) counted.lost++;
      isAfterGap &&= piece.length === 0;
      sink.write(...given);
    },
    end: sink.end,
  };
  return counted;
}

for (const length of [1, 100, 10_000]) {
  test(`an app that endlessly prints lines of ${length} bytes costs the host little`, async (t) => {
    const root = temporaryDirectory(t);
    const { directory } = await makeRelease(`${root}/r`, FLOOD);
    const output = counting();
    const cell = await startCell({ ...(await cellOptions(root, directory)), output });
    t.after(() => cell.kill());
    const flooding = call(cell.socketPath('http'), `/?${length}`).catch(() => null);
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const spent = cpuTime();
    const began = performance.now();
    await sleep(MEASURED_MS);
    const used = spent();
    delay.disable();
    const elapsed = performance.now() - began;
    const share = used / elapsed;
    t.diagnostic(`${(100 * share).toFixed(1)} % of a core, p99 of the loop ${delay.percentile(99) / 1e6} ms`);
    assert.ok(share < 0.25, `${share} of a core`);
    // An app may begin with a burst of four seconds' allowance. One more second is tolerance.
    assert.ok(output.bytes < (elapsed / 1000 + 5) * BYTES_PER_S, `${output.bytes} bytes`);
    await eventually(() => output.lost > 0, 'lines are dropped');
    assert.equal((await call(cell.socketPath('http'), '/')).text, 'ok', 'it is not blocked for long');
    cell.kill();
    await flooding;
    assert.match((await cell.exited).reason, /its last lines:\nx+/);
  });
}

test('an app that prints 100,000 lines a second is not blocked by its pipe, and each line is kept or counted', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, PACED);
  const output = counting();
  const cell = await startCell({ ...(await cellOptions(root, directory)), output });
  t.after(() => cell.kill());
  let printed = 0;
  // Retries on a busy machine: a pipe that blocks the app does so each time.
  await eventually(async () => {
    const round = JSON.parse((await call(cell.socketPath('http'), '/')).text);
    printed += round.printed;
    const perSecond = (round.printed / round.ms) * 1000;
    t.diagnostic(`${Math.round(perSecond)} lines a second`);
    return perSecond > 50_000;
  }, 'it prints more than 50,000 lines a second');
  await cell.stop();
  t.diagnostic(`${output.lines} kept, ${output.lost} dropped`);
  assert.equal(output.lines + output.lost, printed);
  assert.ok(output.lines > 5_000);
});

test('dropped lines are counted also when the app prints nothing more', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, BURST);
  const output = counting();
  const cell = await startCell({ ...(await cellOptions(root, directory)), output });
  t.after(() => cell.kill());
  assert.equal((await call(cell.socketPath('http'), '/')).text, 'ok');
  await eventually(() => output.lines + output.lost === BURST_LINES, 'each line is kept or counted');
  assert.ok(output.lost > 0);
});

/** Returns the output of a process that printed `pieces`. */
async function printed(pieces: string[], isCrowded = false) {
  const lines: string[] = [];
  const dropped: number[] = [];
  const sink = lineSink((line) => lines.push(line));
  const output = new CellOutput(
    {
      isCrowded,
      end: sink.end,
      write: (pipe, piece, lost) => {
        if (lost !== null) dropped.push(lost);
        sink.write(pipe, piece, lost);
      },
    },
    512,
  );
  const stream = new PassThrough({ highWaterMark: 1024 * 1024 });
  output.read('stdout', stream);
  for (const piece of pieces) {
    stream.write(piece);
    // The pause has each piece read separately.
    await new Promise((resolve) => setImmediate(resolve));
  }
  stream.end();
  await finished(stream);
  return { lines, dropped, output };
}

test('a burst of lines of a quiet app is passed on whole', async () => {
  const { lines, dropped } = await printed(Array.from({ length: 5_000 }, (_, i) => `line ${i}\n`));
  assert.equal(lines.length, 5_000);
  assert.equal(lines.at(-1), 'line 4999');
  assert.deepEqual(dropped, []);
});

test('lines around dropped ones are whole', async () => {
  // Enough that seconds pass before the app may print again.
  const burst = `${'x'.repeat(100)}\n`.repeat(40_000) + 'short\n'.repeat(2);
  const { lines, dropped, output } = await printed([burst, 'dropped\nbegins to be dr', 'opped\nlast\n']);
  assert.deepEqual([lines.length, dropped], [40_002, [3]]);
  assert.match(output.explain(1, null).reason, /short\nshort\ndropped\nbegins to be dropped\nlast$/);
});

test("an out-of-memory end names whose memory it was, and exceeds a limit only if the memory was the app's own", async () => {
  const { output } = await printed(['the last words\n']);
  const limit = /^the app needed more memory than RUNNER_CELL_MAX_MB/;
  assert.match(output.explain(null, 'SIGKILL', 'limit').limit!, limit);
  assert.deepEqual(output.explain(null, 'SIGKILL', 'machine'), {
    reason:
      'the kernel ended the process because the machine, or the container that Cellar runs in, ran out of memory',
    limit: null,
  });
  // One of its child processes was killed; the process itself exited later.
  assert.match(output.explain(1, null, 'machine').reason, /^workerd exited with code 1; its last lines:/);
});

test('when much output of others waits, an app that printed much loses its lines first', async () => {
  // Nearly its whole allowance: half of it takes two seconds to return.
  const much = 'short\n'.repeat(170_000);
  assert.deepEqual((await printed([much, 'kept\n'])).dropped, []);
  assert.deepEqual((await printed([much, 'dropped\n'], true)).dropped, [1]);
  assert.deepEqual((await printed(['kept\n'], true)).dropped, []);
});

test('the last lines of an app that prints many spaces cost the host little CPU time', async () => {
  const { output } = await printed([`Error:${' '.repeat(15 * 1024)}x\n`]);
  const spent = cpuTime();
  for (let i = 0; i < 20; i++) output.explain(1, null);
  assert.ok(spent() < 500, `${spent()} ms`);
});
