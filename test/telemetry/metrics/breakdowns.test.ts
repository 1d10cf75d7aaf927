// Devices, paths and referrers: how they are grouped, and that their number is bounded.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Breakdowns } from '../../../runtime/telemetry/metrics/breakdowns.ts';
import { deviceKey, readDevice } from '../../../runtime/telemetry/metrics/devices.ts';
import { foldPath } from '../../../runtime/telemetry/metrics/paths.ts';
import { KEYS_MAX, OTHER, Tally } from '../../../runtime/telemetry/metrics/tally.ts';
import { randomCases } from '../../support/random.ts';
import { APP, taken, temporaryStore } from '../../support/telemetry/parts.ts';

const DAYS = { retentionDays: 30 };
const all = (hours = 24) => ({ appId: APP, hours, limit: 1_000, offset: 0 });

test('ids and other variable parts of a path are merged', () => {
  for (const [path, folded] of [
    ['/', '/'],
    ['/about', '/about'],
    ['/users/42/orders/9f3c2a71', '/users/:id/orders/:id'],
    ['/u/123e4567-e89b-12d3-a456-426614174000', '/u/:id'],
    ['/items/usr_01H8XGJWBWBAQ4ZD', '/items/usr_:id'],
    ['/assets/index-BxY1z2Ab.js', '/assets/index-:id.js'],
    ['/app.3f2a9b1c.css', '/app.:id.css'],
    ['/photos/17.jpg', '/photos/:id.jpg'],
    ['/2026/11/22/a-day-in-november', '/:id/:id/:id/a-day-in-november'],
    ['/n/V1StGXR8_Z5jdHi6B-myT', '/n/:id'],
    ['/n/V1StGXR8_Z5jdHi6B', '/n/:id'],
    ['/posts/how-we-moved-to-http3-in-2026', '/posts/how-we-moved-to-http3-in-2026'],
    ['/invite/alice@example.com', '/invite/:email'],
    ['/invite/alice%40example.com', '/invite/:email'],
    ['/reset/eyJhbGciOiJIUzI1NiIsInR5cCI6', '/reset/:id'],
    [`/${'a'.repeat(100)}`, '/:long'],
    ['/a/b/c/d/e/f/g/h/i/j', '/a/b/c/d/e/f/g/h/…'],
    ['/api/v2/search', '/api/v2/search'],
    ['*', '*'],
  ] as const)
    assert.equal(foldPath(path), folded, path);
});

test('any path and any user agent is parsed quickly, and its key is short', () => {
  const hostile = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 512 }),
    fc.constantFrom('/'.repeat(512), `${'a1-'.repeat(170)}`, 'Mozilla/5.0 ('.repeat(39), '(;'.repeat(256)),
  );
  const begun = performance.now();
  fc.assert(
    fc.property(hostile, (text) => {
      assert.ok(foldPath(text).length <= 600);
      const { client, os } = readDevice(deviceKey(text));
      assert.ok((client?.length ?? 0) <= 40 && (os?.length ?? 0) <= 40);
    }),
    randomCases(1_000),
  );
  assert.ok(performance.now() - begun < 10_000);
});

test('devices are grouped by kind, client and system, and bots do not count as devices', () => {
  const iPhone =
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1';
  const windows =
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36';
  const gptBot =
    'Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)';
  for (const [userAgent, kind, client, os] of [
    [iPhone, 'mobile', 'Safari', 'iOS'],
    [windows, 'desktop', 'Chrome', 'Windows'],
    ['Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)', 'bot', 'Googlebot', null],
    [gptBot, 'bot', 'GPTBot', null],
    ['UptimeMonitor/2.0', 'bot', 'UptimeMonitor', null],
    ['curl/8.5.0', 'program', 'curl', null],
    ['python-requests/2.31', 'program', 'python-requests', null],
    ['', 'unknown', null, null],
  ] as const)
    assert.deepEqual(readDevice(deviceKey(userAgent)), { kind, client, os }, userAgent);
});

test('a flood of keys counts as one, frequent keys stay, and no request is lost', () => {
  const tally = new Tally([]);
  for (let i = 0; i < 20_000; i++) {
    tally.add(`junk-${i}`, false);
    if (i % 10 === 0) tally.add('home', true);
  }
  const counts = new Map(tally.changes());
  tally.written();
  assert.ok(tally.keys <= KEYS_MAX + 1);
  assert.deepEqual(counts.get('home'), { requests: 2_000, errors: 2_000 });
  const kept = [...counts.values()].filter((found) => found !== null);
  assert.equal(kept.length, tally.keys);
  assert.equal(
    kept.reduce((sum, { requests }) => sum + requests, 0),
    22_000,
  );
  assert.ok(counts.get(OTHER)!.requests > 19_000);
});

test('requests count once in each list, over restarts, and the rows of an hour are bounded', (t) => {
  using files = temporaryStore();
  // The clock stands still, so that all requests fall into one hour.
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  let breakdowns = new Breakdowns(files.store, DAYS);
  for (let round = 0; round < 5; round++) {
    const junk = Array.from({ length: 300 }, (_, i) => ({
      path: `/junk-of-${String.fromCharCode(97 + round)}-${'x'.repeat((i % 40) + 1)}${'y'.repeat(Math.floor(i / 40))}`,
      status: 500,
    }));
    breakdowns.take(taken([...junk, { path: '/home' }, { path: '/home' }]));
    breakdowns.flush();
    breakdowns = new Breakdowns(files.reopen(), DAYS);
  }
  for (const hours of [1, 48, 49, 720]) {
    const { items, next } = breakdowns.answers.paths(all(hours));
    assert.equal(next, null);
    assert.ok(items.length <= KEYS_MAX + 1);
    const requests = items.reduce((sum, item) => sum + item.requests, 0);
    const errors = items.reduce((sum, item) => sum + item.errors, 0);
    assert.deepEqual([requests, errors], [1_510, 1_500]);
    assert.equal(items[0]!.path, null);
  }
});

test('referrers are hosts, and the app’s own host and a missing referrer are marked as such', () => {
  using files = temporaryStore();
  const breakdowns = new Breakdowns(files.store, DAYS);
  const referrers = [
    'https://News.example/item',
    'https://news.example:8443/other',
    'https://alice:secret@news.example/',
    'http://app.localhost:8787/page',
    'android-app://com.example',
    'nonsense',
    undefined,
  ];
  breakdowns.take(taken(referrers.map((referrer) => ({ referrer }))));
  const { items } = breakdowns.answers.refs({ ...all(), own: ['app.localhost'] });
  assert.deepEqual(
    items.map(({ referrer, source, requests }) => [referrer, source, requests]),
    [
      ['news.example', 'site', 3],
      [null, 'none', 2],
      ['app.localhost', 'own', 1],
      ['com.example', 'site', 1],
    ],
  );
});

test('a list has pages', () => {
  using files = temporaryStore();
  const breakdowns = new Breakdowns(files.store, DAYS);
  breakdowns.take(taken(['/a', '/b', '/b', '/c', '/c', '/c'].map((path) => ({ path }))));
  const page = (offset: number) => breakdowns.answers.paths({ ...all(), limit: 2, offset });
  assert.deepEqual(page(0), {
    items: [
      { path: '/c', requests: 3, errors: 0 },
      { path: '/b', requests: 2, errors: 0 },
    ],
    next: 2,
  });
  assert.deepEqual(page(2), { items: [{ path: '/a', requests: 1, errors: 0 }], next: null });
});

test('old hours and days are deleted, and a forgotten app too', () => {
  using files = temporaryStore();
  let breakdowns = new Breakdowns(files.store, DAYS);
  const now = Date.now();
  breakdowns.take(taken([{ endedAt: now }, { endedAt: now - 60 * 3_600_000 }]));
  breakdowns.flush();
  while (breakdowns.prune(now));
  const requests = (hours: number) =>
    breakdowns.answers.paths(all(hours)).items.reduce((sum, item) => sum + item.requests, 0);
  assert.equal(requests(720), 2);
  while (breakdowns.prune(now + 32 * 86_400_000));
  assert.equal(requests(720), 0);
  breakdowns = new Breakdowns(files.reopen(), DAYS);
  breakdowns.take(taken([{}]));
  assert.deepEqual([requests(24), breakdowns.apps()], [1, [APP]]);
  while (breakdowns.forget(APP));
  assert.deepEqual([requests(24), breakdowns.apps()], [0, []]);
});

test('countries are counted, and unknown ones together', () => {
  using files = temporaryStore();
  const breakdowns = new Breakdowns(files.store, { retentionDays: 30 });
  breakdowns.take(
    taken([{ country: 'DE' }, { country: 'DE', status: 500 }, { status: 503, refused: 'maintenance' }]),
  );
  const { items } = breakdowns.answers.countries({ appId: APP, hours: 24, limit: 10, offset: 0 });
  assert.deepEqual(items, [
    { country: 'DE', requests: 2, errors: 1 },
    { country: null, requests: 1, errors: 0 },
  ]);
});
