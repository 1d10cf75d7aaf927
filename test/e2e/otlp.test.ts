// Telemetry that is sent by OTLP/HTTP.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';
import { OtlpReceiver } from '../support/telemetry/otlp.ts';

test('each request is a span of its app, linked to its caller and its process, and counts in the metrics', async () => {
  await using receiver = await OtlpReceiver.start();
  await using cellar = await new Cellar({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20abc',
  }).start();
  const id = await cellar.deploy('traced', 'hello', {
    'index.js': `export default { fetch: (request) => console.log('asked for', request.url) ?? new Response(request.headers.get('traceparent'), {
      status: request.url.includes('/broken') ? 500 : 200 }) };`,
  });
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const { text: forwarded } = await cellar.get('traced', '/broken?secret=1', { headers: { traceparent } });
  for (let i = 0; i < 9; i++) assert.match((await cellar.get('traced')).text, /^00-\w{32}-\w{16}-01$/);
  await eventually(() => receiver.spans().length === 10, 'all spans have arrived');
  assert.equal(receiver.headers.authorization, 'Bearer abc');

  const [span] = receiver.spans().filter(({ attributes }) => attributes['url.path'] === '/broken');
  assert.equal(span.traceId, '0af7651916cd43dd8448eb211c80319c');
  assert.equal(span.parentSpanId, 'b7ad6b7169203331');
  assert.equal(forwarded, `00-${span.traceId}-${span.spanId}-01`);
  assert.equal(span.name, 'GET');
  assert.equal(span.status.code, 2);
  assert.equal(span.attributes['http.response.status_code'], 500);
  assert.deepEqual(span.service, {
    'service.name': 'traced',
    'service.namespace': 'cellar',
    'cellar.app.id': id,
  });
  assert.ok(BigInt(span.endTimeUnixNano) > BigInt(span.startTimeUnixNano));
  assert.doesNotMatch(JSON.stringify(receiver.spans()), /secret=1|127\.0\.0\.1/);

  const used = async () =>
    JSON.stringify((await cellar.call('GET', `/v1/apps/${id}/metrics?hours=1`)).body).match(
      /"memory_bytes":[1-9]/,
    );
  await eventually(async () => (await used()) !== null, 'the memory of the app was looked at');
  await eventually(
    () => receiver.logs().some(({ body }) => body.stringValue.includes('/broken')),
    'the log arrives',
  );
  const line = receiver.logs().find(({ body }) => body.stringValue.includes('/broken'));
  assert.equal(line.service['service.name'], 'traced');
  assert.equal(line.traceId, '0af7651916cd43dd8448eb211c80319c');
  // A log record has a trace id, but no span id, because its span is not known.
  assert.equal(line.spanId ?? '', '');
  assert.equal(line.severityText, 'info');
  assert.equal(line.attributes['cellar.source'], 'app');

  await cellar.stop();
  const requests = receiver.points('http.server.request.duration');
  const sum = requests.reduce((total, { count }) => total + Number(count), 0);
  assert.equal(sum, 10);
  assert.deepEqual(
    new Set(requests.map(({ attributes }) => attributes['cellar.app.slug'])),
    new Set(['traced']),
  );
  assert.ok(receiver.points('cellar.app.memory.usage').length > 0);
});

test('an endpoint that refuses or is down does not affect apps, and dropped records are counted', async () => {
  const receiver = await OtlpReceiver.start();
  receiver.status = 400;
  await using cellar = await new Cellar({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url }).start();
  await cellar.deploy('traced', 'hello');
  assert.equal((await cellar.get('traced')).status, 200);
  const dropped = async () => {
    const { body } = await cellar.call('GET', '/v1/admin/stats');
    return JSON.stringify(body.host).match(/"otlp_spans":(\d+)/)?.[1];
  };
  await eventually(async () => (await dropped()) === '1', 'the span is counted as dropped');
  await receiver[Symbol.asyncDispose]();
  assert.equal((await cellar.get('traced')).status, 200);
  const from = performance.now();
  await cellar.stop();
  assert.ok(performance.now() - from < 60_000);
});
