// Numbers, sizes and times in words.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  age,
  ago,
  bytes,
  change,
  count,
  duration,
  percent,
  person,
  plural,
} from '../../../ui/parts/format.ts';

/** Replaces special spaces by plain ones. */
const plain = (text: string | null) => text?.replaceAll(/[\u00a0\u2009\u202f]/g, ' ') ?? null;

test('formats counts with at most three digits', () => {
  const said = [0, 7, 999, 1_000, 1_234, 12_345, 999_499, 999_500, 3_400_000, null].map((n) =>
    plain(count(n)),
  );
  assert.deepEqual(said, ['0', '7', '999', '1 k', '1.23 k', '12.3 k', '999 k', '1 M', '3.4 M', '–']);
});

test('formats sizes in multiples of 1,024', () => {
  const said = [0, 512, 1024, 1536, 999 * 1024, 1000 * 1024, 64 * 2 ** 20, 2 ** 40].map((n) =>
    plain(bytes(n)),
  );
  assert.deepEqual(said, ['0 B', '512 B', '1 KiB', '1.5 KiB', '999 KiB', '0.98 MiB', '64 MiB', '1 TiB']);
});

test('formats durations', () => {
  const said = [0.42, 12.34, 999.4, 999.6, 59_900, 60_000, 125_000, 3_600_000, 12_000_000, 4 * 86_400_000];
  assert.deepEqual(
    said.map((ms) => plain(duration(ms))),
    ['0.42 ms', '12.3 ms', '999 ms', '1 s', '59.9 s', '1 min', '2 min 5 s', '1 h', '3 h 20 min', '4 days'],
  );
});

test('formats shares and changes', () => {
  assert.deepEqual([0, 0.0004, 0.012, 0.5, 1].map(percent).map(plain), [
    '0 %',
    '< 0.1 %',
    '1.2 %',
    '50 %',
    '100 %',
  ]);
  assert.deepEqual(
    [change(112, 100), change(97, 100), change(1, 1), change(5, 0), change(40_000, 2)].map(plain),
    ['+12 %', '−3 %', '±0 %', null, '×20000'],
  );
});

test('says how long ago something was', () => {
  const now = Date.parse('2026-11-22T12:00:00.000Z');
  const before = [0, 9, 30, 90, 3_700, 86_400, 5 * 86_400].map((s) => ago(now - s * 1e3, now));
  assert.deepEqual(before, [
    'just now',
    'just now',
    '30 s ago',
    '2 min ago',
    '1 h ago',
    '1 day ago',
    '5 days ago',
  ]);
  assert.equal(ago(now + 7_200_000, now), 'in 2 h');
  // The day in the reader's time zone.
  assert.equal(ago(new Date(2025, 2, 4, 12).toISOString(), now), '4 Mar 2025');
});

test('says how long something lasts', () => {
  const now = Date.parse('2026-11-22T12:00:00.000Z');
  const said = [0, 14, 180, 7_200, 3 * 86_400].map((s) => age(now - s * 1e3, now));
  assert.deepEqual(said, ['a moment', '14 s', '3 min', '2 h', '3 days']);
});

test('says how many there are, in singular or plural', () => {
  assert.deepEqual(
    [0, 1, 12_345].map((n) => plain(plural(n, 'app'))),
    ['0 apps', '1 app', '12 345 apps'],
  );
});

test('names the author of a commit without the e-mail address', () => {
  const said = ['Ada Lovelace <ada@example.com>', 'Ada', '<ada@example.com>'].map(person);
  assert.deepEqual(said, ['Ada Lovelace', 'Ada', '<ada@example.com>']);
});
