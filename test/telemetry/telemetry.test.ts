// The host's side of telemetry with its real thread: what is handed over is counted, also by a thread that was started again.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Telemetry, TelemetryError } from '../../runtime/telemetry/telemetry.ts';
import { record } from '../support/telemetry/records.ts';

const APP = '0123456789abcdef';

function directory(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'cellar-telemetry-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

function started(path: string): Telemetry & AsyncDisposable {
  const telemetry = new Telemetry({
    directory: join(path, 'telemetry'),
    retentionDays: 30,
    otlp: null,
    fleetLog: 'error',
  });
  telemetry.start();
  return Object.assign(telemetry, { [Symbol.asyncDispose]: () => telemetry.close() });
}

async function sum(telemetry: Telemetry): Promise<{ requests: number; errors: number }> {
  const { items } = await telemetry.ask('metrics', { appId: APP, hours: 1 });
  return items.reduce(
    (all, { requests, errors }) => ({ requests: all.requests + requests, errors: all.errors + errors }),
    { requests: 0, errors: 0 },
  );
}

test('each request counts once, also those that were handed over just before a question and before the end', async () => {
  using files = directory();
  {
    await using telemetry = started(files.path);
    for (let i = 0; i < 1_000; i++) telemetry.record(record({ site: APP, status: i % 10 === 0 ? 500 : 200 }));
    assert.deepEqual(await sum(telemetry), { requests: 1_000, errors: 100 });
    telemetry.record(record({ site: APP }));
  }
  await using telemetry = started(files.path);
  assert.deepEqual(await sum(telemetry), { requests: 1_001, errors: 100 });
});

test('a question to a thread that is not there is refused at once', async () => {
  using files = directory();
  const telemetry = new Telemetry({
    directory: files.path,
    retentionDays: 30,
    otlp: null,
    fleetLog: 'error',
  });
  await assert.rejects(telemetry.ask('metrics', { appId: APP, hours: 1 }), TelemetryError);
  await telemetry.close();
});

test('an app that is forgotten has no figures', async () => {
  using files = directory();
  await using telemetry = started(files.path);
  telemetry.record(record({ site: APP }));
  assert.deepEqual(await sum(telemetry), { requests: 1, errors: 0 });
  telemetry.forget(APP);
  const deadline = AbortSignal.timeout(10_000);
  while ((await sum(telemetry)).requests > 0) deadline.throwIfAborted();
  assert.deepEqual(await telemetry.ask('metrics/version', { appId: APP }), { schema: 1, watermark: null });
});
