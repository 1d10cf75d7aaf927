// Data points are kept within bounds, those of one app at no cost of another's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Datapoints } from '../../runtime/telemetry/datapoints.ts';
import { readLine } from '../../runtime/telemetry/log-lines.ts';
import { Store } from '../../runtime/telemetry/store.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const point = (n: number) => ({ dataset: 'd', index: 'i', blobs: ['x'.repeat(1_000)], doubles: [n] });
const DAY_MS = 24 * 3_600_000;

test('points beyond a bound go, the oldest first, and those of others stay', (t) => {
  const store = new Store(temporaryDirectory(t));
  t.after(() => store.close());
  const points = new Datapoints(store, { retentionDays: 1, appBytes: 600_000 });
  const list = (appId: string) =>
    points.answers.datapoints({ appId, hours: 24, limit: 1_000 }).items.map(({ doubles }) => doubles[0]);
  points.report('small', Date.now(), point(1));
  for (let n = 0; n < 2_100; n++) points.report('large', Date.now(), point(n));
  points.flush();
  assert.equal(points.dropped.datapoints, 100);
  while (points.prune(Date.now()));
  assert.deepEqual(list('small'), [1]);
  assert.equal(list('large')[0], 1_999);
  const kept = list('large').length;
  assert.ok(kept > 500 && kept < 600, `${kept} are kept`);

  while (points.prune(Date.now() + 2 * DAY_MS));
  assert.deepEqual(points.apps(), []);
  points.report('small', Date.now(), point(2));
  points.flush();
  while (points.forget('small'));
  assert.deepEqual(points.apps(), []);
});

test('what an app prints in place of a point harms nobody', () => {
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
