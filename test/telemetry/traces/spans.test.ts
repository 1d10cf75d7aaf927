// Which requests have a span, and the limit on spans.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Spans } from '../../../runtime/telemetry/traces/spans.ts';
import { APP, taken, temporaryStore } from '../../support/telemetry/parts.ts';

const DAYS = { retentionDays: 30 };

function list(spans: Spans, limit = 200, before?: number) {
  return spans.answers.spans({ appId: APP, hours: 24, limit, before });
}

test('a slow or failed request has a span, newest first; a WebSocket is not slow', () => {
  using files = temporaryStore();
  const spans = new Spans(files.store, DAYS);
  const endedAt = Date.now();
  spans.take(
    taken([
      { path: '/fast' },
      { path: '/missing', status: 404 },
      {
        path: '/slow',
        durationMs: 1_500,
        heldMs: 300,
        wakeMs: 200,
        cellStart: 'cold',
        endedAt,
        method: 'PUT',
      },
      { path: '/socket', durationMs: 900_000, status: 101, upgraded: true },
      { path: '/boom', status: 502 },
      { path: '/closed', status: 503, refused: 'maintenance' },
    ]),
  );
  const { items, next } = list(spans);
  assert.equal(next, null);
  assert.deepEqual(
    items.map(({ path }) => path),
    ['/boom', '/slow'],
  );
  assert.deepEqual(items[1], {
    trace_id: '0af7651916cd43dd8448eb211c80319c',
    span_id: 'b7ad6b7169203331',
    parent_span_id: null,
    kind: 'fleet.fetch',
    name: 'PUT /slow',
    method: 'PUT',
    path: '/slow',
    status: 200,
    refused: null,
    started_at: new Date(endedAt - 1_500).toISOString(),
    duration_ms: 1_500,
    held_ms: 300,
    wake_ms: 200,
    bytes_in: 0,
    bytes_out: 100,
    cell_start: 'cold',
    release: 'release0000000000',
  });
});

test('a flood of failures is dropped and counted, and the number of spans is bounded', () => {
  using files = temporaryStore();
  const spans = new Spans(files.store, DAYS);
  const flood = Array.from({ length: 100 }, (_, i) => ({ status: 500, path: `/${i}` }));
  for (let i = 0; i < 110; i++) {
    spans.take(taken(flood));
    spans.flush();
  }
  assert.equal(spans.dropped.spans, 110 * 80);
  let kept = 0;
  for (let before: number | null = Number.MAX_SAFE_INTEGER; before !== null; ) {
    const { items, next } = list(spans, 200, before);
    kept += items.length;
    before = next;
  }
  assert.equal(kept, 2_000);
  while (spans.prune(Date.now() + 31 * 86_400_000));
  assert.deepEqual(list(spans).items, []);
  spans.take(taken([{ status: 500 }]));
  assert.equal(list(spans).items.length, 1);
  while (spans.forget(APP));
  assert.deepEqual(list(spans).items, []);
});
