import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Shutdown, within } from '../../runtime/closing.ts';

test('a step that fails skips no other, and the first failure is told in the end', async () => {
  const closing = new Shutdown();
  const taken: string[] = [];
  const step = (name: string, failure?: string) =>
    closing.step(name, async () => {
      taken.push(name);
      if (failure !== undefined) throw new Error(failure);
    });
  await step('edge');
  await step('apps', 'no');
  await closing.step('threads', () => {
    throw new Error('not at once either');
  });
  await step('database');
  assert.deepEqual(taken, ['edge', 'apps', 'database']);
  assert.throws(() => closing.throwFirst(), /^Error: no$/);
});

test('an end that takes too long is given up', async () => {
  await assert.rejects(within(10, new Promise(() => {})), /not done within 0\.01 s/);
  await within(10_000, Promise.resolve());
});
