// When an app counts as quiet.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Activity } from '../../../runtime/fleets/due/activity.ts';

for (const idleMs of [1_000, 120_000, Number.POSITIVE_INFINITY])
  test(`with ${idleMs} ms of quiet time, a process for due work is one until a request comes`, (t) => {
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const activity = new Activity(idleMs, null);
    activity.begin(false);
    assert.equal(activity.isForDueWork, false);
    activity.begin(true);
    assert.equal(activity.isForDueWork, true);
    now += 5_000;
    assert.equal(activity.isQuiet(1), false);
    now += 5_000;
    assert.equal(activity.isQuiet(0), true);
    activity.requests++;
    assert.equal(activity.isQuiet(0), false);
    assert.equal(activity.isForDueWork, false);
    now += 5_000;
    assert.equal(activity.isQuiet(0), idleMs <= 5_000);
  });
