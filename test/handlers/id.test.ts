// Ids sort by age.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId } from '../../handlers/contract/id.ts';

test('ids sort by age, even within one millisecond', () => {
  const now = Date.now();
  const ids = [newId(now - 1), ...Array.from({ length: 2_000 }, () => newId(now)), newId(now + 1)];
  assert.deepEqual(ids.toSorted(), ids);
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[0-9a-hjkmnp-tv-z]{16}$/);
});

test('ids sort by age even when the clock is set back', () => {
  const now = Date.now() + 1_000;
  const ids = [now, now - 500, now - 1_000, now - 999, now, now + 1].map((at) => newId(at));
  assert.deepEqual(ids.toSorted(), ids);
  assert.equal(new Set(ids).size, ids.length);
});

test('each millisecond begins at a random id', () => {
  const later = Date.now() + 10_000;
  const tails = Array.from({ length: 100 }, (_, n) => newId(later + n).slice(9));
  assert.equal(new Set(tails).size, 100);
});
