import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BucketCheck } from '../../runtime/bucket/bucket-check.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { eventually } from '../support/e2e/processes.ts';

/** A Cellar of this id, with or without apps in its bucket. */
const cellar =
  (id: string, hasData = false) =>
  async () => ({ cellar: id, hasData, proof: null });

test('a store that is away at the start is probed until it is back', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { cuts: true };
  const check = new BucketCheck(store.place(), cellar('one'));
  await check.start();
  assert.match(check.problem!, /failed the check "create if missing"/);
  store.faults = {};
  await eventually(() => check.problem === null, 'the bucket is used');
});

test('a request without an answer holds up the start for some seconds only', {
  timeout: 30_000,
}, async () => {
  await using store = await new MemoryStore().start();
  let isFirst = true;
  const hangs = ({ key }: { key: string }) => {
    if (!key.endsWith('cellar.json') || !isFirst) return false;
    isFirst = false;
    return true;
  };
  store.faults = { hangs };
  const check = new BucketCheck(store.place(), cellar('one'));
  await check.start();
  assert.deepEqual([isFirst, check.isPassed], [false, true]);
});

test('a store that ignores conditions ends the start', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { ignoresConditions: true };
  await assert.rejects(
    new BucketCheck(store.place(), cellar('one')).start(),
    /failed the check "create again if missing"/,
  );
});

test('a clock that differs by over 2 s is a problem, and the message says what to do', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { clockMs: -3_000 };
  const check = new BucketCheck(store.place(), cellar('one'));
  await check.start();
  assert.match(check.problem!, /differ by [23]\.\d s, and at most 2 s are allowed: synchronise/);
});

test('a store that takes one write of a name in a second passes', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { refusesQuickWrites: true };
  const check = new BucketCheck(store.place(), cellar('one'));
  await check.start();
  assert.equal(check.problem, null);
});

test('the first Cellar to use a bucket owns it', async () => {
  await using store = await new MemoryStore().start();
  const place = store.place('of/all/');
  for (let start = 0; start < 2; start++) await new BucketCheck(place, cellar('one', start > 0)).start();
  const other = new BucketCheck(place, cellar('two')).start();
  await assert.rejects(other, /it is of another Cellar \(one, this one is two\): give this one a prefix/);
  await new BucketCheck(store.place('of/two/'), cellar('two')).start();
});

test('a Cellar with apps in its bucket does not start with another one, where they would find nothing', async () => {
  await using store = await new MemoryStore().start();
  const check = new BucketCheck(store.place('elsewhere/'), cellar('one', true));
  await assert.rejects(
    check.start(),
    /this is not the one .*elsewhere\/cellar\.json\): set RUNNER_BUCKET as it was/,
  );
  assert.ok(!store.objects.has('elsewhere/cellar.json'));
});
