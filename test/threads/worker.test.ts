import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { ChildError } from '../../runtime/processes/child.ts';
import { WorkerThreads } from '../../runtime/threads/worker.ts';
import * as jobs from '../support/jobs.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const MODULE = new URL('../support/jobs.ts', import.meta.url);
const pools: WorkerThreads[] = [];
after(() => {
  for (const pool of pools) pool.close();
});

function start(most = 1) {
  const pool = new WorkerThreads(most);
  pools.push(pool);
  return <Name extends keyof typeof jobs>(
    name: Name,
    values: Parameters<(typeof jobs)[Name]>,
    options: Partial<Parameters<WorkerThreads['run']>[3]> = {},
  ) => pool.run<(typeof jobs)[Name]>(MODULE, name, values, { deadlineMs: 20_000, ...options });
}

test('a job runs in another thread, which the next job reuses', async () => {
  const run = start();
  const first = await run('whichThread', []);
  assert.notEqual(first, jobs.whichThread());
  assert.equal(await run('whichThread', []), first);
});

test('a job that cannot be interrupted has ended when its caller hears of the deadline', async (t) => {
  const path = join(temporaryDirectory(t), 'locked.sqlite');
  await assert.rejects(start()('lockDatabase', [path], { deadlineMs: 1_000 }), /took longer than 1 s/);
  const database = new Database(path, { timeout: 0 });
  // A job that still ran would hold the lock, and this statement would fail.
  database.exec('BEGIN IMMEDIATE');
  database.close();
});

test('an error of a job arrives with its class and fields', async () => {
  const run = start();
  const failed = run('fail', ['no such thing', 7], { errors: [ChildError] });
  await assert.rejects(failed, (error) => {
    assert.ok(error instanceof ChildError);
    assert.deepEqual([error.message, error.exitCode], ['no such thing', 7]);
    return true;
  });
});

test('an error with fields that cannot be copied arrives without them, and the thread goes on', async () => {
  const run = start();
  const thread = await run('whichThread', []);
  await assert.rejects(run('failUncopied', [], { errors: [ChildError] }), (error) => {
    assert.ok(error instanceof ChildError);
    assert.deepEqual([error.message, error.exitCode], ['no such thing', 7]);
    return true;
  });
  assert.equal(await run('whichThread', []), thread);
});

test('a job that never ends, or exceeds its memory, ends its own thread only', async () => {
  const run = start(2);
  const overrun = assert.rejects(
    run('spin', [], { deadlineMs: 300 }),
    /^Error: spin took longer than 0\.3 s and was ended/,
  );
  assert.equal(await run('add', [1, 2]), 3);
  await overrun;
  await assert.rejects(run('exhaustMemory', []), /^Error: a thread ended: .*memory/);
  assert.equal(await run('add', [2, 2]), 4);
});

test('jobs of one key run in sequence, while others pass them', async () => {
  const run = start(2);
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const order: string[] = [];
  const note = (name: string) => () => void order.push(name);
  const first = run('waitFor', [signal], { key: 'a' }).then(note('first'));
  const second = run('add', [1, 1], { key: 'a' }).then(note('second'));
  await run('add', [1, 1], { key: 'b' }).then(note('other'));
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
  await Promise.all([first, second]);
  assert.deepEqual(order, ['other', 'first', 'second']);
});

test('keys take turns, however many jobs of one key wait', async () => {
  const run = start(1);
  const order: string[] = [];
  const job = (key: string) => run('add', [1, 1], { key }).then(() => void order.push(key));
  await Promise.all(['a', 'a', 'a', 'a', 'b'].map(job));
  assert.deepEqual(order, ['a', 'a', 'b', 'a', 'a']);
  const many = await Promise.allSettled(Array.from({ length: 202 }, () => job('a')));
  const refused = many.filter(({ status }) => status === 'rejected');
  assert.equal(refused.length, 1);
});

test('closing the threads fails their jobs', async () => {
  const pool = new WorkerThreads(1);
  const options = { deadlineMs: 20_000 };
  const running = pool.run(MODULE, 'spin', [], options);
  const waiting = pool.run(MODULE, 'add', [1, 1], options);
  pool.close();
  await assert.rejects(running, /the host is stopping/);
  await assert.rejects(waiting, /the host is stopping/);
});

test('a thread that ends by itself after its job runs no other one', async () => {
  const run = start();
  const workers: Worker[] = [];
  const note = (worker: Worker) => workers.push(worker);
  process.on('worker', note);
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const ending = await run('endLater', [signal]);
  process.off('worker', note);
  const worker = workers.find(({ threadId }) => threadId === ending)!;
  const ended = new Promise((resolve) => worker.once('exit', resolve));
  Atomics.store(signal, 0, 1);
  Atomics.notify(signal, 0);
  await ended;
  assert.notEqual(await run('whichThread', []), ending);
});
