// Lines that wait for source-mapped stacks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SourceStacks } from '../../../runtime/telemetry/errors/source-stacks.ts';
import type { LogRecord } from '../../../runtime/telemetry/logs/log-lines.ts';
import { LogStacks } from '../../../runtime/telemetry/logs/log-stacks.ts';
import { eventually } from '../../support/processes.ts';

const line = (text: string): LogRecord => ({
  ...{ at: 1, level: 'info', source: 'app', text, fields: null, traceId: null, release: 'r1' },
});

test('waiting lines are bounded in all: those of the app with most appear unmapped, in order, and none is lost', async () => {
  const shown: [string, string][] = [];
  const add = (appId: string, { text }: LogRecord) => shown.push([appId, text]);
  const stacks = new LogStacks(new SourceStacks('/nowhere'), add, 100_000);
  const stack = 'Error\n    at f (index.js:1:1)';
  stacks.take('quiet', line(stack));
  stacks.take('quiet', line('after'));
  const loud = [stack, ...Array.from({ length: 20 }, (_, n) => `${n} ${'x'.repeat(10_000)}`)];
  for (const text of loud) stacks.take('loud', line(text));
  const of = (wanted: string) => shown.filter(([appId]) => appId === wanted).map(([, text]) => text);
  assert.ok(of('loud').length >= 9, `${of('loud').length} are shown at once`);
  assert.deepEqual(of('quiet'), [], 'the others wait on');
  await eventually(() => of('quiet').length === 2, 'the places were looked up');
  await eventually(() => of('loud').length === loud.length, 'all are shown');
  assert.deepEqual([of('quiet'), of('loud')], [[stack, 'after'], loud]);
});
