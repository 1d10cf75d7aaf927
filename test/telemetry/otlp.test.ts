// What the telemetry thread sends by OTLP.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Otlp } from '../../runtime/telemetry/otlp/otlp.ts';
import { eventually } from '../support/processes.ts';
import { OtlpReceiver } from '../support/telemetry/otlp.ts';
import { APP, taken } from '../support/telemetry/parts.ts';

test('the span of a maintenance page is no error', async () => {
  await using receiver = await OtlpReceiver.start();
  const otlp = new Otlp({ endpoint: receiver.url, headers: {} }, () => 'shop');
  otlp.take(taken([{ status: 503 }, { status: 503, refused: 'maintenance' }]));
  await otlp.close();
  assert.deepEqual(
    receiver.spans().map(({ status }) => status.code),
    [2, 0],
  );
});

test('the memory of an app that has gone idle is 0', async () => {
  await using receiver = await OtlpReceiver.start();
  const otlp = new Otlp({ endpoint: receiver.url, headers: {} }, () => 'shop');
  const used = { appId: APP, at: 0, cpuMs: 0, memoryBytes: 1_000, processes: 1, wakes: 0 };
  otlp.take(taken([], { usage: [used] }));
  otlp.take(taken([], { usage: [{ ...used, processes: 0 }] }));
  await otlp.close();
  const [point] = receiver.points('cellar.app.memory.usage');
  assert.equal(point.asDouble ?? Number(point.asInt), 0);
});

test('the duration of a WebSocket is no latency', async () => {
  await using receiver = await OtlpReceiver.start();
  const otlp = new Otlp({ endpoint: receiver.url, headers: {} }, () => 'shop');
  otlp.take(taken([{ durationMs: 20 }, { durationMs: 7_200_000, status: 101, upgraded: true }]));
  await otlp.close();
  const points = receiver.points('http.server.request.duration');
  assert.deepEqual(
    points.map(({ count, sum }) => [Number(count), sum]),
    [[1, 0.02]],
  );
  assert.equal(receiver.spans().length, 2);
});

const HOUR_MS = 3_600_000;
const WAKE = { at: 0, cpuMs: 0, memoryBytes: 0, processes: 1, wakes: 1 };

test('series of deleted and renamed apps end within an hour, and the others begin again', async () => {
  await using receiver = await OtlpReceiver.start();
  const slugs: Record<string, string> = { a: 'shop', b: 'old', c: 'blog' };
  const otlp = new Otlp({ endpoint: receiver.url, headers: {} }, (appId) => slugs[appId]!);
  const wake = (...appIds: string[]) =>
    otlp.take(taken([], { usage: appIds.map((appId) => ({ ...WAKE, appId })) }));
  const sent = () =>
    receiver
      .points('cellar.app.wakes')
      .map((point) => [point.attributes['cellar.app.slug'], point.asDouble ?? Number(point.asInt)]);
  wake('a', 'b', 'c', 'c');
  otlp.prune(Date.now() + 2 * HOUR_MS);
  slugs.b = 'new';
  wake('b');
  otlp.forget('a');
  otlp.prune(Date.now());
  otlp.prune(Date.now() + HOUR_MS);
  await eventually(() => sent().length > 0, 'the last figures of the old series arrive');
  assert.deepEqual(sent(), [
    ['shop', 1],
    ['old', 1],
    ['blog', 2],
    ['new', 1],
  ]);
  receiver.got.clear();
  wake('b', 'c');
  await otlp.close();
  assert.deepEqual(sent(), [
    ['new', 1],
    ['blog', 1],
  ]);
});

test('the number of series has a bound, which 3,000 apps with ten series each do not reach', async (t) => {
  await using receiver = await OtlpReceiver.start();
  t.mock.timers.enable({ apis: ['setInterval'] });
  const otlp = new Otlp({ endpoint: receiver.url, headers: {} }, () => 'shop');
  const sizes = () =>
    (receiver.got.get('/otlp/v1/metrics') ?? []).map(
      ({ resourceMetrics }) => resourceMetrics[0].scopeMetrics[0].metrics[0].sum.dataPoints.length,
    );
  for (let round = 0; round < 6; round++) {
    const usage = Array.from({ length: 9_000 }, (_, n) => ({ ...WAKE, appId: `${round} ${n}` }));
    otlp.take(taken([], { usage }));
    const before = sizes().length;
    await eventually(() => {
      if (sizes().length > before) return true;
      t.mock.timers.tick(60_000);
      return false;
    }, 'metrics arrive');
    otlp.prune(Date.now());
  }
  await otlp.close();
  assert.equal(Math.max(...sizes()), 45_000, 'all begin again after the export that exceeds 40,000');
});

test('an app can invent statuses only for spans', async () => {
  await using receiver = await OtlpReceiver.start();
  const otlp = new Otlp({ endpoint: receiver.url, headers: {} }, () => 'shop');
  otlp.take(taken([200, 299, 404, 418, 471, 499, 599].map((status) => ({ status }))));
  await otlp.close();
  const statuses = (items: { attributes: Record<string, unknown> }[]) =>
    items.map(({ attributes }) => Number(attributes['http.response.status_code']));
  assert.deepEqual(statuses(receiver.points('http.server.request.duration')), [200, 404, 418, 400, 499, 500]);
  assert.deepEqual(statuses(receiver.spans()), [200, 299, 404, 418, 471, 499, 599]);
});
