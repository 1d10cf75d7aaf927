// Limits on stored errors, in bytes of one app and of all apps, with a real database.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SourceStacks } from '../../../runtime/telemetry/errors/source-stacks.ts';
import { openTelemetryDatabase } from '../../../sqlite/telemetry/database.ts';
import { ERRORS_MIGRATIONS } from '../../../sqlite/telemetry/errors.ts';
import { large, openErrors as open, RELEASE } from '../../support/telemetry/errors.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const LOUD = 'loud';
const NEIGHBOUR = 'neighbour';
/** Size of a database page, in bytes. */
const PAGE = 4_096;

test('an app with large errors of many kinds stays within its bytes, and its neighbour loses nothing', async (t) => {
  const appBytes = 500_000;
  const { errors, report, list, occurrences, bytesOf } = open(t, { appBytes });
  await report(NEIGHBOUR, 3, large);
  const before = await list(NEIGHBOUR);
  for (let round = 0; round < 5; round++) {
    await report(LOUD, 30, large);
    assert.ok((await bytesOf(LOUD)) < appBytes * 1.1, 'also before anything is pruned');
  }
  while (errors.prune(Date.now()));
  assert.ok((await bytesOf(LOUD)) > appBytes * 0.9, 'as much is kept as there is room for');
  const groups = await list(LOUD);
  assert.deepEqual([groups.length, new Set(groups.map(({ count }) => count))], [30, new Set([5])]);
  const kept = await occurrences(LOUD);
  assert.ok(
    kept.every(({ length }) => length >= 1),
    'the last one of each kind is kept',
  );
  const left = kept.reduce((sum, { length }) => sum + length, 0);
  assert.equal(errors.dropped.error_occurrences, 150 - left);
  assert.deepEqual(await list(NEIGHBOUR), before);
  assert.deepEqual(
    (await occurrences(NEIGHBOUR)).map(({ length }) => length),
    [1, 1, 1],
  );
});

test('the errors of all apps stay within their bytes in the file: the app with most loses occurrences, but no group', async (t) => {
  const allBytes = 1_500_000;
  const { errors, report, list, occurrences, inUse } = open(t, { allBytes });
  await report(NEIGHBOUR, 3, large);
  for (let round = 0; round < 7; round++) await report(LOUD, 30, large);
  assert.ok(inUse() < allBytes * 1.3, `${inUse()} bytes before anything is pruned`);
  while (errors.prune(Date.now()));
  assert.ok(inUse() <= allBytes + PAGE, `${inUse()} bytes`);
  assert.equal((await list(LOUD)).length, 30);
  assert.ok((await occurrences(LOUD)).flat().length > 0);
  assert.deepEqual([errors.dropped.error_occurrences > 0, errors.dropped.error_groups], [true, 0]);
  assert.equal((await occurrences(NEIGHBOUR)).flat().length, 3);
});

test('a group keeps its status and its count when all of its occurrences are deleted', async (t) => {
  const { errors, report, list, occurrences } = open(t, { appBytes: 0 });
  await report(LOUD, 2, large);
  const [one, other] = await list(LOUD);
  const set = (fingerprint: string, status: 'resolved' | 'ignored') =>
    errors.answers['errors/status']!({ appId: LOUD, fingerprint, status });
  set(one!.fingerprint, 'ignored');
  set(other!.fingerprint, 'resolved');
  await report(LOUD, 2, large);
  while (errors.prune(Date.now()));
  assert.deepEqual(await occurrences(LOUD), [[], []]);
  const statuses = [await list(LOUD, 'open'), await list(LOUD, 'ignored'), await list(LOUD, 'resolved')];
  assert.deepEqual(
    statuses.map((groups) => groups.map(({ count }) => count)),
    [[], [2], [2]],
  );
});

test('where all apps are at their group limit, the app with most gets no more, and loses some to others', async (t) => {
  const { errors, report, list } = open(t, { allGroups: 60 });
  await report(LOUD, 100);
  const kinds = async (appId: string) => {
    const groups = await list(appId);
    return groups.filter(({ fingerprint }) => fingerprint !== 'other').length;
  };
  assert.equal(await kinds(LOUD), 60);
  const other = (await list(LOUD)).find(({ fingerprint }) => fingerprint === 'other')!;
  assert.deepEqual([other.count, errors.dropped.error_groups], [40, 0]);
  await report(NEIGHBOUR, 5);
  assert.equal(await kinds(NEIGHBOUR), 5);
  assert.equal(await kinds(LOUD), 60 - errors.dropped.error_groups);
  assert.ok((await kinds(LOUD)) <= 55, 'before anything is pruned');
  while (errors.prune(Date.now()));
  assert.equal(await kinds(NEIGHBOUR), 5);
});

test("apps that endlessly create error groups do not keep evicting each other's groups", async (t) => {
  const { errors, reportOne, list } = open(t, { allGroups: 100 });
  const apps = Array.from({ length: 10 }, (_, n) => `app${n}`);
  for (let kind = 0; kind < 60; kind++) {
    for (const appId of apps) await reportOne(appId, { type: `Kind${kind}` });
    errors.flush();
  }
  const sizes = await Promise.all(apps.map(async (appId) => (await list(appId)).length));
  assert.ok(Math.max(...sizes) <= 2 + 3 * Math.min(...sizes), `${sizes}`);
  assert.ok(errors.dropped.error_groups < 100, `${errors.dropped.error_groups} groups have gone`);
});

test('texts of an error are cut, whether they come from the app or its source map', async (t) => {
  const { report, list, occurrences, directory } = open(t);
  mkdirSync(join(directory, 'releases', LOUD, RELEASE, 'modules'), { recursive: true });
  const map = { version: 3, sources: [`${'x'.repeat(100_000)}.ts`], names: [], mappings: 'AAUA;AACA' };
  writeFileSync(join(directory, 'releases', LOUD, RELEASE, 'modules', 'index.js.map'), JSON.stringify(map));
  const stack = `Error: x\n    at one (index.js:1:5)\n    at two (index.js:2:3)\n${'y'.repeat(16_000)}`;
  await report(LOUD, 1, { message: 'm'.repeat(16_000), stack });
  const [[occurrence]] = (await occurrences(LOUD)) as [[Awaited<ReturnType<typeof occurrences>>[0][0]]];
  const lengths = [occurrence!.message, occurrence!.stack!, occurrence!.place!].map(({ length }) => length);
  assert.deepEqual(lengths, [4_002, 8_002, 506]);
  assert.equal((await list(LOUD))[0]!.place, occurrence!.place);
});

test('occurrences in the file of an older Cellar count, too', async (t) => {
  const directory = temporaryDirectory(t);
  const database = openTelemetryDatabase(join(directory, 'errors.sqlite'), ERRORS_MIGRATIONS.slice(0, 1));
  database.exec(`INSERT INTO groups (id, app_id, fingerprint, grouping, kind, message, mechanism, count, status, first_seen_at, last_seen_at, change)
    VALUES (1, '${LOUD}', 'f', 1, 'Error', 'm', 'uncaught', 20, 'ignored', 1, ${Date.now()}, 1)`);
  const add = database.prepare(
    "INSERT INTO occurrences (group_id, at, message, stack, mechanism) VALUES (1, ?, 'm', ?, 'uncaught')",
  );
  for (let at = 0; at < 20; at++) add.run(at, 's'.repeat(10_000));
  database.close();
  const { errors, list, occurrences } = open(t, { appBytes: 100_000 }, directory);
  while (errors.prune(Date.now()));
  const [kept] = await occurrences(LOUD);
  assert.deepEqual(
    kept!.map(({ at }) => Date.parse(at)),
    [19, 18, 17, 16, 15, 14, 13, 12, 11],
  );
  assert.equal((await list(LOUD, 'ignored'))[0]!.count, 20);
});

test('errors that wait for source maps are bounded in all: the app with most loses its own, which are counted', async (t) => {
  const { errors, reportOne, list } = open(t, { allLength: 200_000 });
  // Stacks are mapped in another process, so these errors still wait when the other app's errors arrive.
  const waiting = (appId: string, n: number) =>
    reportOne(appId, {
      message: `no user ${'abcdefgh'[n % 8]}`,
      stack: `Error\n    at f${n} (index.js:${n + 1}:1)`,
    });
  const all = [waiting(NEIGHBOUR, 0), waiting(NEIGHBOUR, 1)];
  for (let n = 0; n < 60; n++)
    all.push(reportOne(LOUD, { ...large, stack: `${large.stack}\n    at g (index.js:1:${n})` }));
  all.push(waiting(NEIGHBOUR, 2));
  await Promise.all(all);
  const sum = async (appId: string) => (await list(appId)).reduce((counts, { count }) => counts + count, 0);
  assert.deepEqual([await sum(NEIGHBOUR), await sum(LOUD)], [3, 60]);
  const other = (await list(LOUD)).find(({ fingerprint }) => fingerprint === 'other')!;
  assert.ok(other.count > 10 && other.count < 60, `${other.count}`);
  assert.equal(errors.dropped.errors, other.count);
  assert.ok((await list(NEIGHBOUR)).every(({ fingerprint }) => fingerprint !== 'other'));
});

test('errors that an app reports as unreported are counted as its own, and not as dropped', async (t) => {
  const { errors, reportOne, list } = open(t);
  await reportOne(LOUD, { untold: 1_000_000 });
  const counts = (await list(LOUD)).map(({ fingerprint, count }) => [fingerprint === 'other', count]);
  assert.deepEqual(new Set(counts.map(String)), new Set(['false,1', 'true,1000000']));
  assert.equal(errors.dropped.errors, 0);
});

test('of errors that an app makes up, at most as many as a process may report are stored, and all are counted', async (t) => {
  const { errors, reportOne, list, occurrences } = open(t);
  for (let n = 0; n < 2_000; n++) await reportOne(LOUD, { path: `/${n}`, type: `Kind${n % 100}` });
  const groups = await list(LOUD);
  const counted = groups.reduce((sum, { count }) => sum + count, 0);
  const other = groups.find(({ fingerprint }) => fingerprint === 'other')!;
  assert.equal(counted, 2_000);
  assert.deepEqual([other.count, errors.dropped.errors], [errors.dropped.errors, other.count]);
  assert.ok(2_000 - other.count >= 240 && other.count > 1_000, `${2_000 - other.count} are taken`);
  assert.equal((await occurrences(LOUD)).flat().length, 2_000 - other.count);
});

test('errors not mapped before the end are counted', async (t) => {
  class HangingStacks extends SourceStacks {
    override find() {
      return new Promise<never>(() => {});
    }
  }
  const { errors, reportOne, list } = open(t, { stacks: new HangingStacks('/nowhere') });
  void reportOne(LOUD, large);
  void reportOne(LOUD, large);
  await errors.close();
  assert.deepEqual(
    (await list(LOUD)).map(({ fingerprint, count }) => [fingerprint, count]),
    [['other', 2]],
  );
  assert.equal(errors.dropped.errors, 2);
});
