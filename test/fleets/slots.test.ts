import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NoTurn, Slots } from '../../runtime/fleets/slots.ts';

/** Work that notes when it begins, and ends when told. */
function jobs(slots: Slots) {
  const begun: string[] = [];
  const run = (name: string, signal = new AbortController().signal) => {
    const gate = Promise.withResolvers<void>();
    const done = slots.run(() => {
      begun.push(name);
      return gate.promise;
    }, signal);
    done.catch(() => {});
    return { done, end: gate.resolve, fail: gate.reject };
  };
  return { begun, run };
}

/** Lets everything that can run, run. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('so many run at once, and the others in the order they came, however those before ended', async () => {
  const { begun, run } = jobs(new Slots(2, 10_000));
  const [a, b] = [run('a'), run('b')];
  const [c, d, e] = [run('c'), run('d'), run('e')];
  await settled();
  assert.deepEqual(begun, ['a', 'b']);
  b.fail(new Error('no'));
  await assert.rejects(b.done, { message: 'no' });
  await settled();
  assert.deepEqual(begun, ['a', 'b', 'c']);
  for (const job of [a, c, d, e]) {
    job.end();
    await job.done;
    await settled();
  }
  assert.deepEqual(begun, ['a', 'b', 'c', 'd', 'e']);
});

test('one that gives up waiting leaves its place to the next', async () => {
  const { begun, run } = jobs(new Slots(1, 10_000));
  const first = run('first');
  const leaver = new AbortController();
  const leaving = run('leaving', leaver.signal);
  const next = run('next');
  leaver.abort(new Error('gone'));
  await assert.rejects(leaving.done, { message: 'gone' });
  first.end();
  await settled();
  assert.deepEqual(begun, ['first', 'next']);
  next.end();
  await next.done;
  await assert.rejects(run('late', leaver.signal).done, { message: 'gone' });
});

test('one whose turn does not come in time fails, and its place is nobody’s', async () => {
  const { begun, run } = jobs(new Slots(1, 20));
  const first = run('first');
  await assert.rejects(run('late').done, NoTurn);
  first.end();
  await first.done;
  const next = run('next');
  await settled();
  assert.deepEqual(begun, ['first', 'next']);
  next.end();
});
