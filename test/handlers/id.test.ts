// Ids sort by their age.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId } from '../../handlers/contract/id.ts';

test('ids sort by age, those of one millisecond too', () => {
  const now = Date.now();
  const ids = [newId(now - 1), ...Array.from({ length: 2_000 }, () => newId(now)), newId(now + 1)];
  assert.deepEqual(ids.toSorted(), ids);
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[0-9a-hjkmnp-tv-z]{16}$/);
});

test('another millisecond begins at a random place', () => {
  const tails = Array.from({ length: 100 }, (_, at) => newId(at).slice(9));
  assert.equal(new Set(tails).size, 100);
});
