import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BucketCheck } from '../../runtime/bucket/bucket-check.ts';
import { claimBucket, readOwner, takeBucket } from '../../runtime/bucket/owner.ts';
import type { S3Place } from '../../runtime/bucket/place.ts';
import { S3Store } from '../../runtime/bucket/s3-store.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { eventually } from '../support/processes.ts';

/** Returns a check by the Cellar with this id. @param hasData whether this Cellar has data in its bucket */
function checkOf(place: S3Place, cellar: string, hasData = false, machine = cellar): BucketCheck {
  const own = { cellar, machine, proof: 'key' };
  return new BucketCheck(place, () => claimBucket(place, own, hasData));
}

test('a store that is away at the start is probed until it is back', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { cuts: true };
  const check = checkOf(store.place(), 'one');
  await check.start();
  assert.match(check.problem!, /failed the check "create if missing"/);
  store.faults = {};
  await eventually(() => check.problem === null, 'the bucket is used');
});

test('a request without an answer holds up the start for some seconds only', async () => {
  await using store = await new MemoryStore().start();
  let isFirst = true;
  const hangs = ({ key }: { key: string }) => {
    if (!key.endsWith('cellar.json') || !isFirst) return false;
    isFirst = false;
    return true;
  };
  store.faults = { hangs };
  const check = checkOf(store.place(), 'one');
  await check.start();
  assert.deepEqual([isFirst, check.isPassed], [false, true]);
});

test('a store that ignores conditions ends the start', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { ignoresConditions: true };
  await assert.rejects(checkOf(store.place(), 'one').start(), /failed the check "create again if missing"/);
});

test('a clock that differs by over 2 s is a problem, and the message says what to do', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { clockMs: -3_000 };
  const check = checkOf(store.place(), 'one');
  await check.start();
  assert.match(check.problem!, /differ by [23]\.\d s, and at most 2 s are allowed: synchronise/);
});

test('a clock that was wrong at the start is measured again, until it is right', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { clockMs: -3_000 };
  const check = new BucketCheck(
    store.place(),
    async () => {},
    () => {},
    10,
  );
  await check.start();
  const before = store.asked.length;
  store.faults = { hangs: true };
  await eventually(() => store.asked.length > before + 1, 'it is measured twice');
  assert.match(check.problem!, /synchronise/, 'a missing answer proves nothing');
  store.faults = {};
  await eventually(() => check.problem === null, 'the clock is right');
  assert.ok(Math.abs(check.clockMs!) < 1_000);
  check.close();
});

test('a store that takes one write of a name in a second passes', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { refusesQuickWrites: true };
  const check = checkOf(store.place(), 'one');
  await check.start();
  assert.equal(check.problem, null);
});

test('the first Cellar to use a bucket owns it', async () => {
  await using store = await new MemoryStore().start();
  const place = store.place('of/all/');
  for (let start = 0; start < 2; start++) await checkOf(place, 'one', start > 0).start();
  const other = checkOf(place, 'two').start();
  await assert.rejects(other, /it is of another Cellar \(one, this one is two\): give this one a prefix/);
  await checkOf(store.place('of/two/'), 'two').start();
});

test('a Cellar with apps in its bucket does not start with another one, where they would find nothing', async () => {
  await using store = await new MemoryStore().start();
  const check = checkOf(store.place('elsewhere/'), 'one', true);
  await assert.rejects(
    check.start(),
    /this is not the one .*elsewhere\/cellar\.json\): set RUNNER_BUCKET as it was/,
  );
  assert.ok(!store.objects.has('elsewhere/cellar.json'));
});

test('a lost machine that comes back does not use the bucket that another one has continued', async () => {
  await using store = await new MemoryStore().start();
  const place = store.place();
  await checkOf(place, 'one', false, 'first').start();
  const found = (await readOwner(place))!;
  await takeBucket(place, found, { cellar: 'one', machine: 'second', proof: 'key' });
  await checkOf(place, 'one', true, 'second').start();
  await assert.rejects(checkOf(place, 'one', true, 'first').start(), /another machine continued this Cellar/);
  const late = takeBucket(place, found, { cellar: 'one', machine: 'third', proof: 'key' });
  await assert.rejects(late, /another Cellar or machine has just taken the bucket/);
});

test('another cluster key is refused, and the key of an older Cellar is added', async () => {
  await using store = await new MemoryStore().start();
  const place = store.place();
  await new S3Store(place).write('cellar.json', Buffer.from('{"cellar":"one"}\n'));
  await checkOf(place, 'one', true).start();
  const { cellar, machine, proof } = (await readOwner(place))!;
  assert.deepEqual([cellar, machine, proof], ['one', 'one', 'key']);
  const other = claimBucket(place, { cellar: 'one', machine: 'one', proof: 'another' }, true);
  await assert.rejects(other, /set RUNNER_CLUSTER_KEY as it was/);
  assert.equal((await readOwner(place))!.proof, 'key');
});

test('a bucket of one machine becomes that of several hosts, and takes no host without an address', async () => {
  await using store = await new MemoryStore().start();
  const place = store.place();
  const own = { cellar: 'one', machine: 'first', proof: 'key' };
  await claimBucket(place, own, false);
  const other = claimBucket(place, { ...own, machine: 'second', several: true }, true);
  await assert.rejects(other, /another machine continued this Cellar/);
  await claimBucket(place, { ...own, several: true }, true);
  const { etag, ...found } = (await readOwner(place))!;
  assert.deepEqual(found, { cellar: 'one', several: true, proof: 'key' });
  await claimBucket(place, { ...own, machine: 'second', several: true }, true);
  assert.equal((await readOwner(place))!.etag, etag, 'nothing is written again');
  await assert.rejects(claimBucket(place, own, true), /several hosts have this Cellar: set RUNNER_ADDRESS/);
  const stranger = claimBucket(place, { ...own, several: true, proof: 'another' }, false);
  await assert.rejects(stranger, /set RUNNER_CLUSTER_KEY as it was/);
});
