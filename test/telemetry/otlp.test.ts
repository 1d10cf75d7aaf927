// What the telemetry thread sends by OTLP.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Otlp } from '../../runtime/telemetry/otlp/otlp.ts';
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
