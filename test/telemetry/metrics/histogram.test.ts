import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  classOf,
  count,
  decodeInto,
  encode,
  type Histogram,
  middleOf,
  percentiles,
} from '../../../runtime/telemetry/metrics/histogram.ts';
import { randomCases } from '../../support/random.ts';

const duration = fc.double({ min: 0.1, max: 40_000_000, noNaN: true });

function of(durations: number[]): Histogram {
  const histogram: Histogram = new Map();
  for (const ms of durations) count(histogram, ms);
  return histogram;
}

test('a histogram class is exact to 6 %, from a tenth of a millisecond to 11 hours', () => {
  fc.assert(
    fc.property(duration, (ms) => {
      assert.ok(Math.abs(middleOf(classOf(ms)) - ms) <= 0.06 * ms);
    }),
    randomCases(),
  );
  assert.equal(middleOf(classOf(0.155)), 0.16);
});

test('classes are ordered by duration, and cover any duration', () => {
  fc.assert(
    fc.property(duration, duration, (a, b) => a > b || classOf(a) <= classOf(b)),
    randomCases(),
  );
  for (const ms of [0, -1, 1e-9, 1e12, Number.MAX_VALUE]) assert.ok(classOf(ms) >= 0 && classOf(ms) < 464);
});

test('histograms that were written, read and added have the percentiles of all durations', () => {
  fc.assert(
    fc.property(fc.array(fc.array(duration, { maxLength: 50 }), { maxLength: 8 }), (parts) => {
      const sum: Histogram = new Map();
      for (const part of parts) decodeInto(sum, encode(of(part)));
      const sorted = parts.flat().sort((a, b) => a - b);
      const found = percentiles(sum, [0.5, 0.9, 0.99]);
      for (const [i, share] of [0.5, 0.9, 0.99].entries()) {
        if (sorted.length === 0) assert.equal(found[i], null);
        else {
          const exact = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
          assert.ok(Math.abs(found[i]! - exact) <= 0.06 * exact, `${found[i]} is not ${exact}`);
        }
      }
    }),
    randomCases(),
  );
});
