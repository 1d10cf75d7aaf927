// The times that `cellar restore --at` takes.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { timeOf } from '../../cli/commands/machine/restore.ts';
import { Stopped } from '../../cli/exit.ts';

test('a time of the clock is in the last 24 hours, and others have a date', () => {
  const now = new Date(2026, 10, 22, 13, 30);
  assert.equal(timeOf('13:30', now), new Date(2026, 10, 22, 13, 30).toISOString());
  assert.equal(timeOf('9:05', now), new Date(2026, 10, 22, 9, 5).toISOString());
  assert.equal(timeOf('14:00', now), new Date(2026, 10, 21, 14, 0).toISOString());
  assert.equal(timeOf('2026-11-20T14:00+02:00', now), '2026-11-20T12:00:00.000Z');
  for (const wrong of ['24:00', '12:60', 'yesterday', '', '1400'])
    assert.throws(
      () => timeOf(wrong, now),
      (error) => error instanceof Stopped && /--at must be like/.test(error.message),
      wrong,
    );
});
