import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Shutdown, within } from '../../runtime/closing.ts';

test('a failed step skips no other, and the first error is thrown at the end', async () => {
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

test('closing has a timeout', async () => {
  await assert.rejects(within(10, new Promise(() => {})), /not done within 0\.01 s/);
  await within(10_000, Promise.resolve());
});
