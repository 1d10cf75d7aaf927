import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backoff } from '../../runtime/processes/backoff.ts';

test('the fifth exit in a row is a crash loop; delays double up to a minute', () => {
  const backoff = new Backoff();
  const restarts = Array.from({ length: 11 }, () => backoff.next(59_000));
  assert.deepEqual(
    restarts.map(({ delayMs }) => delayMs),
    [100, 200, 400, 800, 5_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000],
  );
  assert.deepEqual(
    restarts.map(({ loop }) => loop),
    restarts.map((_, index) => index >= 4),
  );
});

test('a process that lived for a minute starts the count again', () => {
  const backoff = new Backoff();
  for (let i = 0; i < 4; i++) backoff.next(0);
  assert.deepEqual(backoff.next(60_000), { delayMs: 100, loop: false });
});

test('a failed start that a caller waited for is not repeated at once', () => {
  assert.deepEqual(new Backoff().failed(), { delayMs: 5_000, loop: true });
});
