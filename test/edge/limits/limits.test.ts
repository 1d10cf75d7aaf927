import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { Limiter } from '../../../runtime/edge/limits/rate-limits.ts';
import { RefusalQueue } from '../../../runtime/edge/limits/refusal-queue.ts';
import { Window } from '../../../runtime/edge/limits/window.ts';
import { randomCases } from '../../support/random.ts';

const app = (clientRpm: number, appRpm = 0) => ({ site: 'app', clientRpm, appRpm });

/** Sends `count` requests at once. Returns the number of admitted ones. */
function burst(
  limiter: Limiter,
  limits: ReturnType<typeof app>,
  client: string,
  at: number,
  count: number,
): number {
  let admitted = 0;
  for (let i = 0; i < count; i++) if (limiter.admit(limits, client, at) === 0) admitted++;
  return admitted;
}

test('a limit of N per minute admits N/6 in ten seconds, at least one, and 0 is unlimited', () => {
  const cases = [
    [1800, 300],
    [120, 20],
    [11, 1],
    [1, 1],
    [6, 1],
    [0, 2000],
  ] as const;
  for (const [rpm, admitted] of cases)
    assert.equal(burst(new Limiter(), app(rpm), '192.0.2.1', 5, 2000), admitted);
});

test('the window slides: a request counts for ten seconds, to the millisecond', () => {
  const limiter = new Limiter();
  assert.equal(burst(limiter, app(120), '192.0.2.1', 1_000, 15), 15);
  assert.equal(burst(limiter, app(120), '192.0.2.1', 9_000, 15), 5);
  assert.equal(burst(limiter, app(120), '192.0.2.1', 10_999, 15), 0);
  assert.equal(burst(limiter, app(120), '192.0.2.1', 11_000, 20), 15);
  assert.equal(burst(limiter, app(120), '192.0.2.1', 18_999, 5), 0);
  assert.equal(burst(limiter, app(120), '192.0.2.1', 19_000, 20), 5);
});

test('the wait is exact to the second, and refused requests do not extend it', () => {
  const limiter = new Limiter();
  burst(limiter, app(120), '192.0.2.1', 2_500, 20);
  for (const [at, wait] of [
    [2_500, 10],
    [2_501, 10],
    [3_500, 9],
    [11_499, 2],
    [11_500, 1],
    [12_499, 1],
    [12_500, 0],
  ] as const)
    assert.equal(limiter.admit(app(120), '192.0.2.1', at), wait, String(at));
});

test('clients and sites are counted separately; IPv6 counts by /64, and a mapped IPv4 address as itself', () => {
  const limiter = new Limiter();
  const one = app(6);
  assert.equal(limiter.admit(one, '192.0.2.1', 0), 0);
  assert.equal(limiter.admit(one, '192.0.2.2', 0), 0);
  assert.equal(limiter.admit(one, '::ffff:192.0.2.1', 0), 10);
  assert.equal(limiter.admit(one, '::FFFF:c000:201', 0), 10);
  assert.equal(limiter.admit({ ...one, site: 'other' }, '192.0.2.1', 0), 0);
  assert.equal(limiter.admit(one, '2001:db8:0:1::1', 0), 0);
  assert.equal(limiter.admit(one, '2001:DB8:0:1:ffff::9', 0), 10);
  assert.equal(limiter.admit(one, '2001:db8::2:0:0:0:9', 0), 0);
});

test('the limit of a whole app counts all its clients, and its refusals count for no client', () => {
  const limiter = new Limiter();
  const limits = app(60, 90);
  assert.equal(burst(limiter, limits, '192.0.2.1', 0, 20), 10);
  assert.equal(burst(limiter, limits, '192.0.2.2', 5_000, 20), 5);
  assert.equal(limiter.admit(limits, '192.0.2.3', 5_000), 5);
  assert.equal(limiter.admit(limits, '192.0.2.1', 5_000), 5);
  // If refused requests counted, the second client would be at its limit.
  assert.equal(burst(limiter, limits, '192.0.2.2', 10_000, 20), 5);
});

test('limits may change from one request to the next', () => {
  const limiter = new Limiter();
  assert.equal(burst(limiter, app(120), '192.0.2.1', 0, 30), 20);
  assert.equal(burst(limiter, app(240), '192.0.2.1', 4_000, 30), 20);
  assert.equal(limiter.admit(app(60), '192.0.2.1', 4_000), 10);
  assert.equal(limiter.admit(app(180), '192.0.2.1', 4_000), 6);
  assert.equal(limiter.admit(app(0), '192.0.2.1', 4_000), 0);
});

test('a client that is idle for ten seconds is forgotten at later requests or a sweep', () => {
  const limiter = new Limiter();
  for (let i = 0; i < 100; i++) limiter.admit(app(60, 60_000), `192.0.2.${i}`, i);
  assert.equal(limiter.visitors, 100);
  limiter.sweep(10_049);
  assert.equal(limiter.visitors, 50);
  limiter.admit(app(60), '198.51.100.1', 20_000);
  limiter.admit(app(60), '198.51.100.1', 20_000);
  assert.equal(limiter.visitors, 43);
  limiter.sweep(40_000);
  assert.equal(limiter.visitors, 0);
});

test('at capacity new clients of a site share one entry, known ones keep theirs, and other sites keep their capacity', () => {
  const limiter = new Limiter({ site: 2, all: 3 });
  const other = { ...app(60), site: 'other' };
  for (const client of ['192.0.2.1', '192.0.2.2']) assert.equal(burst(limiter, app(60), client, 0, 4), 4);
  let admitted = 0;
  for (let i = 0; i < 1000; i++) if (limiter.admit(app(60), `198.51.100.${i % 250}`, 1) === 0) admitted++;
  assert.equal(admitted, 10);
  assert.equal(limiter.visitors, 2);
  assert.equal(burst(limiter, app(60), '192.0.2.1', 2, 20), 6);
  assert.equal(burst(limiter, other, '192.0.2.1', 2, 20), 10);
  assert.equal(burst(limiter, other, '192.0.2.2', 2, 20), 10);
  assert.equal(burst(limiter, other, '192.0.2.3', 2, 20), 0);
  // Capacity is back once the known clients are idle.
  assert.equal(burst(limiter, app(60), '198.51.100.1', 10_000, 20), 10);
});

test('the clock may exceed 2^32 ms', () => {
  const limiter = new Limiter();
  const end = 2 ** 32;
  assert.equal(burst(limiter, app(120), '192.0.2.1', end - 1, 30), 20);
  assert.equal(limiter.admit(app(120), '192.0.2.1', end + 4_000), 6);
  assert.equal(burst(limiter, app(120), '192.0.2.1', end + 9_999, 30), 20);
});

/** Gaps in ms, so that some requests share a millisecond and others are far apart. */
const gaps = fc.array(
  fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 12_000 })),
  { maxLength: 400, size: 'max' },
);

test('the limiter admits exactly what a list of all admissions would, for any requests of any clients', () => {
  const visitors = ['192.0.2.1', '192.0.2.2', '2001:db8::1'];
  const requests = fc.array(fc.tuple(fc.nat(2), fc.oneof(fc.nat(30), fc.nat(3_000))), {
    maxLength: 300,
    size: 'max',
  });
  fc.assert(
    fc.property(
      requests,
      fc.integer({ min: 1, max: 200 }),
      fc.integer({ min: 0, max: 300 }),
      (sent, clientRpm, appRpm) => {
        const limiter = new Limiter();
        const admitted: { visitor: number; at: number }[] = [];
        let at = 2 ** 32 - 50_000;
        for (const [visitor, gap] of sent) {
          at += gap;
          const inWindow = admitted.filter((past) => at - past.at < 10_000);
          const own = inWindow.filter((past) => past.visitor === visitor).length;
          const fits =
            own < Math.max(1, Math.floor(clientRpm / 6)) &&
            (appRpm === 0 || inWindow.length < Math.max(1, Math.floor(appRpm / 6)));
          assert.equal(limiter.admit(app(clientRpm, appRpm), visitors[visitor]!, at) === 0, fits);
          if (fits) admitted.push({ visitor, at });
        }
      },
    ),
    randomCases(200),
  );
});

test('the wait that a refusal names is enough, and one second less is not', () => {
  fc.assert(
    fc.property(gaps, fc.integer({ min: 1, max: 1_800 }), (between, rpm) => {
      const limiter = new Limiter();
      let at = 0;
      for (const gap of between) {
        at += gap;
        const wait = limiter.admit(app(rpm), '192.0.2.1', at);
        if (wait === 0) continue;
        assert.ok(limiter.admit(app(rpm), '192.0.2.1', at + (wait - 1) * 1000) > 0);
        at += wait * 1000;
        assert.equal(limiter.admit(app(rpm), '192.0.2.1', at), 0);
      }
    }),
    randomCases(200),
  );
});

test('an overflowing window never counts too few requests, and keeps none more than 64 ms too long', () => {
  const many = fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 300, maxLength: 3_000, size: 'max' });
  fc.assert(
    fc.property(
      many,
      fc.oneof(fc.nat(2 ** 31), fc.integer({ min: 2 ** 32 - 20_000, max: 2 ** 32 })),
      (between, start) => {
        const window = new Window();
        const added: number[] = [];
        let at = start;
        for (const gap of between) {
          at += gap;
          const counted = window.count(at >>> 0);
          const atLeast = added.length - lowerBound(added, at - 9_999);
          const atMost = added.length - lowerBound(added, at - 9_999 - 64);
          assert.ok(counted >= atLeast && counted <= atMost, `${atLeast} ≤ ${counted} ≤ ${atMost}`);
          window.add(at >>> 0);
          added.push(at);
        }
      },
    ),
    randomCases(30),
  );
});

/** Returns the index of the first of ascending `values` that is at least `value`. */
function lowerBound(values: number[], value: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

test('each turn of the event loop sends sixteen of many refusals, in order of arrival', async () => {
  const queue = new RefusalQueue();
  const refused: number[] = [];
  const add = (n: number) => queue.add(() => refused.push(n));
  for (let n = 0; n < 40; n++) add(n);
  assert.equal(refused.length, 16);
  await turn();
  add(40);
  assert.equal(refused.length, 32);
  await turn();
  assert.deepEqual(
    refused,
    Array.from({ length: 41 }, (_, n) => n),
  );
});
