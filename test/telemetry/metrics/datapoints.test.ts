// Data points are bounded, and one app does not push out another's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLine } from '../../../runtime/telemetry/logs/log-lines.ts';
import { Datapoints } from '../../../runtime/telemetry/metrics/datapoints.ts';
import { Store } from '../../../runtime/telemetry/store/store.ts';
import { DATAPOINT_MIGRATIONS, datapointQueries } from '../../../sqlite/telemetry/datapoints.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const point = (n: number) => ({ dataset: 'd', index: 'i', blobs: ['x'.repeat(1_000)], doubles: [n] });
const DAY_MS = 24 * 3_600_000;

test('points over a limit are deleted, the oldest first, and those of others stay', async (t) => {
  const store = new Store(temporaryDirectory(t));
  t.after(() => store.close());
  const points = new Datapoints(store, { retentionDays: 1, appBytes: 600_000 });
  const list = async (appId: string) =>
    (await points.answers.datapoints({ appId, hours: 24, limit: 1_000 })).items.map(
      ({ doubles }) => doubles[0],
    );
  points.report('small', Date.now(), point(1));
  for (let n = 0; n < 2_100; n++) points.report('large', Date.now(), point(n));
  assert.equal(points.dropped.datapoints, 100, 'those that are too many at once');
  points.flush();
  const kept = (await list('large')).length;
  assert.ok(kept > 500 && kept < 600, `${kept} are kept before anything is pruned`);
  while (points.prune(Date.now()));
  assert.equal(points.dropped.datapoints, 2_100 - kept, 'and those that have made room');
  assert.deepEqual(await list('small'), [1]);
  assert.equal((await list('large'))[0], 1_999);
  assert.equal((await list('large')).length, kept);

  while (points.prune(Date.now() + 2 * DAY_MS));
  assert.deepEqual(points.apps(), []);
  points.report('small', Date.now(), point(2));
  points.flush();
  while (points.forget('small'));
  assert.deepEqual(points.apps(), []);
});

test('points from before the clock was set back are deleted with their neighbours, and leave no bytes behind', async (t) => {
  const store = new Store(temporaryDirectory(t));
  t.after(() => store.close());
  const rows = datapointQueries(store.open('datapoints', DATAPOINT_MIGRATIONS));
  const row = (at: number) => ({ at, dataset: 'd', index: null, blobs: '[]', doubles: '[]', bytes: 100 });
  // At the second point the clock was a day ahead.
  rows.add('a', [row(1_000), row(1_000 + DAY_MS), row(2_000), row(5_000)]);
  assert.equal(rows.removeOldest('a', 1_000, { before: 3_000 }), 3);
  assert.deepEqual(rows.sizes(), [{ app_id: 'a', bytes: 100 }]);
  assert.equal(rows.removeOldest('a', 1_000, { before: 3_000 }), 0);
});

test('a search among many points yields to others, and then continues', async (t) => {
  const store = new Store(temporaryDirectory(t));
  t.after(() => store.close());
  const points = new Datapoints(store, { retentionDays: 1, searchMs: 0 });
  const add = (index: string, doubles: number[]) =>
    points.report('a', Date.now(), { dataset: 'd', index, blobs: [], doubles });
  add('rare', [1]);
  for (let n = 0; n < 45_000; n++) {
    if (n % 1_999 === 0) points.flush();
    add('common', [n]);
  }
  add('rare', [2]);
  const asked = { appId: 'a', hours: 1, index: 'rare', limit: 10 };
  const found: unknown[] = [];
  let pages = 0;
  for (let before: number | undefined, more = true; more; pages++) {
    const { items, next } = await points.answers.datapoints({ ...asked, ...(before && { before }) });
    found.push(...items.map(({ doubles }) => doubles[0]));
    before = next ?? undefined;
    more = next !== null;
  }
  assert.deepEqual(found, [2, 1]);
  assert.equal(pages, 3);
  const { items, next } = await points.answers.datapoints({ ...asked, index: 'common', limit: 3 });
  assert.deepEqual(
    [items.map(({ doubles }) => doubles[0]), typeof next],
    [[44_999, 44_998, 44_997], 'number'],
  );
});

test('junk that an app prints in place of a point is harmless', () => {
  const said = (value: unknown) => {
    const message = `\u001ecellar ${JSON.stringify({ point: value })}\u001e`;
    return readLine(JSON.stringify({ timestamp: 1, level: 'log', message }), 'stdout', 1).point;
  };
  for (const value of [
    null,
    1,
    {},
    { dataset: 1, blobs: [], doubles: [] },
    { dataset: 'd', blobs: 'b', doubles: [] },
  ])
    assert.equal(said(value), null);
  const many = said({ dataset: 'd', index: 7, blobs: Array(99).fill({}), doubles: ['a', 1] })!;
  assert.deepEqual([many.index, many.blobs.length, many.doubles], [null, 20, [null, 1]]);
});
