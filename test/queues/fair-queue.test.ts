import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairQueue, QueueFull, type QueueLimits } from '../../runtime/queues/fair-queue.ts';

const LIMITS: QueueLimits = { name: 'reads', running: 2, runningPerOwner: 2, waitingPerOwner: 10 };

/** Makes a queue. `begun` has the names of the jobs that have started, and `end` ends one of them. */
function started(limits: Partial<QueueLimits> = {}) {
  const queue = new FairQueue({ ...LIMITS, ...limits });
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (owner: string, name: string, more: { key?: string; signal?: AbortSignal } = {}) =>
    queue.run({ owner, ...more }, () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    });
  const end = async (name: string) => {
    ends.get(name)!();
    await new Promise(setImmediate);
  };
  return { queue, begun, run, end };
}

test('owners take turns, whoever has most jobs', async () => {
  const { begun, run, end } = started({ running: 1 });
  for (const name of ['a1', 'a2', 'a3']) void run('a', name);
  for (const name of ['b1', 'b2']) void run('b', name);
  await new Promise(setImmediate);
  for (const name of ['a1', 'a2', 'b1', 'a3']) await end(name);
  assert.deepEqual(begun, ['a1', 'a2', 'b1', 'a3', 'b2']);
});

test('one owner leaves a place to others', async () => {
  const { begun, run, end } = started({ runningPerOwner: 1 });
  void run('a', 'a1');
  void run('a', 'a2');
  void run('b', 'b1');
  await new Promise(setImmediate);
  assert.deepEqual(begun, ['a1', 'b1']);
  await end('a1');
  assert.deepEqual(begun, ['a1', 'b1', 'a2']);
});

test('the last places are for owners without a running job', async () => {
  const { begun, run, end } = started({ running: 3, runningPerOwner: 3, firstPlaces: 1 });
  for (const name of ['a1', 'a2', 'a3']) void run('a', name);
  await new Promise(setImmediate);
  assert.deepEqual(begun, ['a1', 'a2']);
  void run('b', 'b1');
  void run('b', 'b2');
  await new Promise(setImmediate);
  assert.deepEqual(begun, ['a1', 'a2', 'b1']);
  await end('a1');
  assert.deepEqual(begun, ['a1', 'a2', 'b1']);
  await end('a2');
  assert.deepEqual(begun, ['a1', 'a2', 'b1', 'a3']);
});

test('jobs of one key run one after another', async () => {
  const { begun, run, end } = started();
  void run('a', 'a1', { key: 'app' });
  void run('a', 'a2', { key: 'app' });
  void run('a', 'a3', { key: 'other' });
  await new Promise(setImmediate);
  assert.deepEqual(begun, ['a1', 'a3']);
  await end('a1');
  assert.deepEqual(begun, ['a1', 'a3', 'a2']);
});

test('too many waiting jobs of one owner are refused with the limit, and the others are not', async () => {
  const { run, begun } = started({ running: 1, waitingPerOwner: 1 });
  void run('a', 'a1');
  void run('a', 'a2');
  await assert.rejects(
    run('a', 'a3'),
    (error) => error instanceof QueueFull && /at most 1 reads/.test(error.message),
  );
  void run('b', 'b1');
  await new Promise(setImmediate);
  assert.deepEqual(begun, ['a1']);
});

test('a job whose signal aborts leaves the queue', async () => {
  const { queue, run, begun, end } = started({ running: 1 });
  const leaving = new AbortController();
  void run('a', 'a1');
  const left = run('a', 'a2', { signal: leaving.signal });
  void run('a', 'a3');
  await new Promise(setImmediate);
  leaving.abort(new Error('left'));
  await assert.rejects(left, /left/);
  assert.equal(queue.waiting, 1);
  await end('a1');
  assert.deepEqual(begun, ['a1', 'a3']);
  await assert.rejects(run('a', 'a4', { signal: leaving.signal }), /left/);
});

test('a job that fails frees its place', async () => {
  const { queue } = started({ running: 1 });
  await assert.rejects(
    queue.run({ owner: 'a', key: 'app' }, () => Promise.reject(new Error('no'))),
    /no/,
  );
  assert.equal(await queue.run({ owner: 'a', key: 'app' }, () => 1), 1);
  assert.equal(queue.running, 0);
});
