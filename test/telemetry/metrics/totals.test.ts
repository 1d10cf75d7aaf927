// The metrics for Prometheus, of apps with and without requests.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostStats } from '../../../handlers/contract/admin.ts';
import { Totals } from '../../../runtime/telemetry/metrics/totals.ts';
import { APP, taken } from '../../support/telemetry/parts.ts';

const STATS: HostStats = {
  started_at: new Date(0).toISOString(),
  rss_bytes: 0,
  event_loop_delay: { p50_ms: 0, p99_ms: 0, max_ms: 0, over_s: 0 },
  cells: { running: 0, memory_bytes: 0, open_streams: 0 },
  apps: [],
  wakes: { count: 0, failed: 0, p50_ms: null, p99_ms: null },
  memory: { used_bytes: 0, limit_bytes: 0, over: false },
  disk: { free_bytes: 0, floor_bytes: 0, short: false },
  queues: { deploys_running: 0, deploys_waiting: 0, starts_waiting: 0, outbox: 0, outbox_refused: 0 },
  telemetry: { waiting: {}, dropped: { log_lines: 3 }, files: {}, restarts: 0 },
  control_plane: { answers: true, restarts: 0 },
  snapshots: {
    ...{ last_at: null, last_written_bytes: null, last_bytes: null, problem: null, under_way: null },
    verified: { at: null, snapshots: 0, packs: 0, bytes: 0, objects: [], damaged: [] },
    newest_damaged: false,
  },
  bucket: null,
};

test('an app without requests is listed with zero by its slug until it is deleted', () => {
  const names = new Map([
    [APP, 'asked'],
    ['other', 'a "quiet" one'],
  ]);
  const totals = new Totals(names);
  totals.take(taken([{ status: 200, durationMs: 30 }]));
  const lines = () =>
    Buffer.from(totals.answers.prometheus({ stats: STATS }))
      .toString()
      .split('\n');
  const of = (app: string) => lines().filter((line) => line.includes(`app="${app}"`));
  assert.ok(of('asked').includes('cellar_app_requests_total{app="asked",status="2xx"} 1'));
  assert.ok(of('asked').includes('cellar_app_request_duration_seconds_bucket{app="asked",le="0.05"} 1'));
  assert.ok(of('asked').includes('cellar_app_request_duration_seconds_sum{app="asked"} 0.03'));
  const quiet = of('a \\"quiet\\" one');
  assert.ok(quiet.length > 0);
  for (const line of quiet) assert.match(line, /^cellar_app_requests_total\{.*\} 0$/);
  assert.ok(lines().includes('cellar_telemetry_dropped_total{what="log_lines"} 3'));

  const used = { appId: APP, at: 0, cpuMs: 0, memoryBytes: 1_000, processes: 1, wakes: 0 };
  totals.take({ requests: [], usage: [used] });
  assert.ok(of('asked').includes('cellar_app_memory_bytes{app="asked"} 1000'));
  // The batch in which the app went idle still has the largest memory of its time.
  totals.take({ requests: [], usage: [{ ...used, processes: 0 }] });
  assert.ok(of('asked').includes('cellar_app_memory_bytes{app="asked"} 0'));
  assert.ok(of('asked').includes('cellar_app_processes{app="asked"} 0'));

  names.delete('other');
  names.delete(APP);
  while (totals.forget(APP));
  assert.deepEqual(
    lines().filter((line) => line.includes('app=')),
    [],
  );
});
