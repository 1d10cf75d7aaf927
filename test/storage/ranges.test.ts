// The byte ranges that clients and apps ask for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { partOf } from '../../handlers/range.ts';
import { partOf as partOfR2 } from '../../runtime/storage/r2/bucket/conditions.ts';
import { cpuTime } from '../support/cpu-time.ts';

test('a range with many spaces is parsed in little time', () => {
  const spaces = ' '.repeat(60 * 1024);
  const spent = cpuTime();
  for (const range of [`bytes=${spaces}x`, `bytes=-${spaces}x`, `bytes=1${spaces}x`, `bytes=-1${spaces}x`]) {
    assert.equal(partOf(range, 10), null);
    assert.deepEqual(partOfR2({ rangeHeader: range } as never, 10), { offset: 0, length: 10 });
  }
  assert.ok(spent() < 500, `${spent()} ms`);
});

test('a range may have spaces around its numbers', () => {
  for (const [range, offset, length] of [
    ['bytes= 2 - 5 ', 2, 4],
    ['bytes=2-', 2, 8],
    ['bytes= - 3', 7, 3],
  ] as const) {
    assert.deepEqual(partOf(range, 10), { offset, length });
    assert.deepEqual(partOfR2({ rangeHeader: range } as never, 10), { offset, length });
  }
});
