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
