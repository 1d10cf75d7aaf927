import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeployStep } from '../../../handlers/contract/host/host-calls.ts';
import { DeployLog } from '../../../runtime/builds/deploy/deploy-log.ts';

function collect() {
  const lines: string[] = [];
  const steps: DeployStep[][] = [];
  const log = new DeployLog({
    onLine: (line) => lines.push(line),
    onSteps: (now) => steps.push(structuredClone(now)),
  });
  return { log, lines, steps };
}

test('every line is passed on at once and kept with its line end', () => {
  const { log, lines } = collect();
  log.line('one');
  log.line('two\nthree');
  assert.deepEqual(lines, ['one', 'two', 'three']);
  assert.equal(log.text, 'one\ntwo\nthree\n');
});

test('lines contain no terminal control sequences', () => {
  const { log, lines } = collect();
  log.line('\x1b[31mred\x1b[0m\x07 a\tb\0\r\n\x9b2Jnext');
  assert.deepEqual(lines, ['red a  b', 'next']);
  assert.equal(log.text, 'red a  b\nnext\n');
});

test('the kept text has at most 64 KiB and no split character', () => {
  const { log } = collect();
  for (const line of ['ä'.repeat(50_000), '€'.repeat(30_000), `x${'🦉'.repeat(20_000)}`]) {
    log.line(line);
    assert.ok(Buffer.byteLength(log.text) <= 64 * 1024, `${Buffer.byteLength(log.text)} bytes`);
    assert.ok(!log.text.includes('\ufffd') && log.text.isWellFormed());
  }
  assert.match(log.text, /^… \(earlier lines are not kept\)\n🦉+\n$/u);
});

test('older lines are dropped first when not all fit', () => {
  const { log } = collect();
  for (let i = 0; i < 20_000; i++) log.line(`line ${i}`);
  const kept = log.text.split('\n').slice(1, -1);
  assert.equal(kept.at(-1), 'line 19999');
  assert.equal(kept.at(0), `line ${20_000 - kept.length}`);
});

test('many short lines cost as little time as few long ones', () => {
  const { log } = collect();
  const started = performance.now();
  for (let i = 0; i < 500_000; i++) log.line('y');
  assert.ok(performance.now() - started < 60_000, `${performance.now() - started} ms`);
  assert.match(log.text, /^….*\n(y\n){32000}(y\n)*$/);
  assert.ok(Buffer.byteLength(log.text) <= 64 * 1024);
});

test('a step is logged when it begins and when it ends', async () => {
  const { log, lines, steps } = collect();
  assert.equal(await log.step('install', 'npm ci', async () => 7), 7);
  log.skip('build', 'no build script');
  await assert.rejects(
    log.step('bundle', 'esbuild', () => Promise.reject(new Error('syntax'))),
    /syntax/,
  );
  assert.match(
    lines.join('\n'),
    /^▸ install: npm ci\n {2}install took \d+ ms\n▸ build: skipped, no build script\n▸ bundle: esbuild\n {2}bundle failed after \d+ ms$/,
  );
  assert.deepEqual(
    steps.map((now) => now.map(({ name, status }) => `${name} ${status}`).join(', ')),
    [
      'install running',
      'install done',
      'install done, build skipped',
      'install done, build skipped, bundle running',
      'install done, build skipped, bundle failed',
    ],
  );
  assert.equal(steps[0]![0]!.duration_ms, null);
  assert.equal(typeof log.steps[0]!.duration_ms, 'number');
});

test('a text that is too long keeps its end, at low cost', () => {
  const lines: string[] = [];
  const log = new DeployLog({ onLine: (line) => lines.push(line), onSteps: () => {} });
  const began = performance.now();
  log.line(`${'x\n'.repeat(20_000_000)}the end`);
  assert.ok(performance.now() - began < 20_000);
  assert.ok(lines.length <= 32 * 1024 + 1, String(lines.length));
  assert.equal(lines.at(-1), 'the end');
  assert.match(log.text, /^… \(earlier lines are not kept\)\n/);
});
