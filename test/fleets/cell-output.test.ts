// Apps that print as much as they can.
import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { CellOutput } from '../../runtime/fleets/cell-output.ts';
import { call, makeRelease, startRelease } from '../support/fleets/release.ts';
import { temporaryDirectory } from '../support/temporary.ts';

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
const MEASURED_MS = 3_000;

for (const length of [1, 100, 10_000]) {
  test(`an app that prints lines of ${length} bytes without end costs the host little, and is told`, async (t) => {
    const root = temporaryDirectory(t);
    const { directory } = await makeRelease(`${root}/r`, FLOOD);
    let [bytes, count] = [0, 0];
    const told: string[] = [];
    const cell = await startRelease(root, directory, (line) => {
      bytes += line.length;
      count++;
      if (/^\d+ KiB of output were dropped/.test(line)) told.push(line);
    });
    t.after(() => cell.kill());
    const flooding = call(cell.socketPath('http'), `/?${length}`).catch(() => null);
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const before = process.cpuUsage();
    const began = performance.now();
    await sleep(MEASURED_MS);
    const { user, system } = process.cpuUsage(before);
    delay.disable();
    const elapsed = performance.now() - began;
    const share = (user + system) / 1000 / elapsed;
    t.diagnostic(`${(100 * share).toFixed(1)} % of a core, p99 of the loop ${delay.percentile(99) / 1e6} ms`);
    assert.ok(share < 0.1, `${share} of a core`);
    // What a second may have, and what was saved up for four.
    const seconds = elapsed / 1000 + 5;
    assert.ok(bytes < seconds * 256 * 1024 && count < seconds * 2_000, `${bytes} bytes, ${count} lines`);
    assert.ok(told.length > 0 && told.length <= seconds, told.join('\n'));
    assert.equal((await call(cell.socketPath('http'), '/')).text, 'ok', 'it is not blocked for long');
    cell.kill();
    await flooding;
    assert.match((await cell.exited).reason, /its last lines:\nx+/);
  });
}

test('a quiet app’s burst of lines is passed on whole', async () => {
  const lines: string[] = [];
  const output = new CellOutput((line) => lines.push(line), 512);
  const stream = new PassThrough();
  output.read(stream);
  for (let i = 0; i < 5_000; i++) stream.write(`line ${i}\n`);
  stream.end();
  await new Promise((resolve) => stream.once('end', resolve));
  assert.equal(lines.length, 5_000);
  assert.equal(lines.at(-1), 'line 4999');
});

test('lines around what was dropped are whole ones', async () => {
  const lines: string[] = [];
  const output = new CellOutput((line) => lines.push(line), 512);
  const stream = new PassThrough();
  output.read(stream);
  stream.write(Buffer.from('short\n'.repeat(10_000)));
  stream.end('end of a dropped line\nlast\n');
  await new Promise((resolve) => stream.once('end', resolve));
  const others = lines.filter((line) => line !== 'short' && line !== 'last');
  assert.equal(others.length, 1);
  assert.match(others[0]!, /^\d+ KiB of output were dropped/);
  assert.match(output.explain(1, null).reason, /short\nshort\nend of a dropped line\nlast$/);
});
