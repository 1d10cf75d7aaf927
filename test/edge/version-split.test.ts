import assert from 'node:assert/strict';
import { test } from 'node:test';
import { goesToSecond } from '../../runtime/edge/version-split.ts';

const FIRST = '0190a1b2-0000-8000-8000-000000000000';
const SECOND = '0190a1b3-0000-8000-8000-000000000000';
const split = (share: number) => ({ slug: 'shop', first: FIRST, second: SECOND, share });
const KEY = 'Cloudflare-Workers-Version-Key';
const OVERRIDES = 'Cloudflare-Workers-Version-Overrides';
const byKey = (share: number) =>
  Array.from({ length: 10_000 }, (_, user) => goesToSecond(['Host', 'x', KEY, `user ${user}`], split(share)));
const count = (chosen: boolean[]) => chosen.filter(Boolean).length;

test('keys are divided by the share, always in the same way, and stay when the share grows', () => {
  const [tenth, half] = [byKey(10), byKey(50)];
  assert.ok(Math.abs(count(tenth) - 1_000) < 100, `${count(tenth)} of 10,000`);
  assert.ok(Math.abs(count(half) - 5_000) < 200, `${count(half)} of 10,000`);
  assert.deepEqual(byKey(10), tenth);
  assert.ok(tenth.every((isSecond, user) => !isSecond || half[user]));
  assert.equal(count(byKey(0)), 0);
});

test('requests without a key are divided by the share', () => {
  const chosen = Array.from({ length: 10_000 }, () => goesToSecond([], split(10)));
  assert.ok(Math.abs(count(chosen) - 1_000) < 200, `${count(chosen)} of 10,000`);
});

test('an override chooses a version of the split, of this app', () => {
  const asked = (value: string, share: number) => goesToSecond([OVERRIDES, value], split(share));
  assert.equal(asked(`shop="${SECOND}"`, 0), true);
  assert.equal(asked(`shop="${FIRST}"`, 99.999), false);
  assert.equal(asked(`other="${FIRST}" ,\tshop = "${SECOND}"`, 0), true);
  for (const ignored of [
    `other="${SECOND}"`,
    `shop=${SECOND}`,
    'shop="unknown"',
    '',
    '=,=',
    `${','.repeat(1_024)}shop="${SECOND}"`,
  ])
    assert.equal(asked(ignored, 0), false, ignored.slice(0, 80));
});
