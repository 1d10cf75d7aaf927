// The view of the machine: memory use and warnings.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { browserOf } from '../../../ui/models/account/account.ts';
import {
  attention,
  bucketCost,
  changesOf,
  type HostStats,
  memoryParts,
  type Stats,
} from '../../../ui/models/machine.ts';

const MB = 2 ** 20;
const app = (slug: string, memory: number | null) => ({
  id: '0000000000000000',
  slug,
  memory_bytes: memory,
  disk_bytes: null,
});
const host = (changes: Partial<HostStats> = {}): HostStats => ({
  started_at: '2026-01-01T00:00:00.000Z',
  rss_bytes: 100 * MB,
  event_loop_delay: { p50_ms: 0, p99_ms: 0, max_ms: 0, over_s: 60 },
  cells: { running: 2, memory_bytes: 50 * MB, open_streams: 0 },
  apps: [app('large', 30 * MB), app('small', 20 * MB), app('asleep', null)],
  wakes: { count: 0, failed: 0, p50_ms: null, p99_ms: null },
  memory: { used_bytes: 400 * MB, limit_bytes: 1000 * MB, over: false },
  disk: { free_bytes: 1, floor_bytes: 1, short: false },
  queues: { deploys_running: 0, deploys_waiting: 0, starts_waiting: 0, outbox: 0, outbox_refused: 0 },
  telemetry: { waiting: {}, dropped: {}, files: {}, restarts: 0 },
  control_plane: { answers: true, restarts: 0 },
  snapshots: {
    ...{ last_at: null, last_written_bytes: null, last_bytes: null, problem: null, under_way: null },
    verified: { at: null, snapshots: 0, packs: 0, bytes: 0, objects: [], damaged: [] },
    newest_damaged: false,
  },
  bucket: null,
  ...changes,
});
const stats = (changes: Partial<HostStats> | null): Stats => ({
  apps: { total: 3, by_status: {} },
  accounts: 1,
  domains: 0,
  deploys: { total: 0, unfinished: 0 },
  host: changes === null ? null : host(changes),
  other_hosts: [],
});

test('the parts of the bar add up to the used memory, and the bar shows the threshold', () => {
  const { parts, total } = memoryParts(host());
  assert.deepEqual(
    parts.map(({ name, bytes }) => [name, bytes / MB]),
    [
      ['large', 30],
      ['small', 20],
      ['Cellar', 100],
      ['everything else', 250],
    ],
  );
  assert.ok(total > 1000 * MB);
});

test('beyond a number of apps the others share one part, and memory above the limit makes the bar longer', () => {
  const apps = Array.from({ length: 12 }, (_, i) => app(`app-${i}`, 10 * MB));
  const cells = { running: 12, memory_bytes: 120 * MB, open_streams: 0 };
  const memory = { used_bytes: 3000 * MB, limit_bytes: 1000 * MB, over: true };
  const { parts, total } = memoryParts(host({ apps, cells, memory }));
  assert.deepEqual(
    parts.slice(-3).map(({ name, bytes }) => [name, bytes / MB]),
    [
      ['other apps', 40],
      ['Cellar', 100],
      ['everything else', 2780],
    ],
  );
  assert.equal(total, 3000 * MB);
});

test('lists the problems of the machine, and nothing without problems', () => {
  assert.deepEqual(attention(stats({})), []);
  assert.equal(attention(stats(null)).length, 1);
  assert.match(
    attention(stats({ disk: { free_bytes: 0, floor_bytes: 1, short: true } })).join(),
    /Disk space is low/,
  );
  const snapshots = { ...host().snapshots, problem: 'the store does not answer' };
  assert.match(attention(stats({ snapshots })).join(), /the store does not answer/);
  const damaged = { ...host().snapshots, newest_damaged: true };
  assert.match(attention(stats({ snapshots: damaged })).join(), /The newest snapshot is damaged/);
});

test('names browsers from their user agents', () => {
  const linux = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
  const mac =
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';
  assert.equal(browserOf(linux), 'Firefox on Linux');
  assert.equal(browserOf(mac), 'Chrome on macOS');
  assert.equal(browserOf(null), 'Unknown');
});

test('says what the bucket costs, or why there is no estimate', () => {
  const bucket = { problem: null, code_bytes: null, apps: [], monthly_usd: 1234.5 };
  assert.equal(bucketCost(bucket), 'About $1,234.50 a month, with the control plane');
  assert.match(bucketCost({ ...bucket, monthly_usd: null }), /^No estimate/);
});

test('what a restore would change is said in sentences', () => {
  const none = { bytes: 0, now_bytes: 0, lost_bytes: 0, same: 1, replaced: 0, removed: 0, returned: 0 };
  const answer = (changes: Partial<typeof none>[], problem: string | null = null) => ({
    ...{ snapshot: 'key', created_at: '2026-01-01T00:00:00.000Z', app: 'a', database: null, before: null },
    changes: changes.map((each) => ({ ...none, kind: 'class' as const, name: 'Counter', ...each })),
    problem,
  });
  assert.deepEqual(changesOf(answer([{ replaced: 2, removed: 1, lost_bytes: 2 * MB }, {}])), [
    'objects of Counter: 2 replaced, 1 removed, 2\u00a0MiB written since are lost',
  ]);
  assert.deepEqual(changesOf(answer([{}])), ['The storage is as in the snapshot: nothing would change.']);
  assert.deepEqual(changesOf(answer([], 'no')), ['Cellar cannot tell which data would be lost: no']);
});
