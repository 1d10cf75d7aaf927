// The host's side of telemetry with its real thread. Records are counted, also after a restart of the thread.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { TelemetryError } from '../../runtime/telemetry/questions.ts';
import { Telemetry } from '../../runtime/telemetry/telemetry.ts';
import { eventually } from '../support/processes.ts';
import { threadOptions } from '../support/telemetry/options.ts';
import { record } from '../support/telemetry/records.ts';

const APP = '0123456789abcdef';

function directory(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'cellar-telemetry-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

function started(path: string): Telemetry & AsyncDisposable {
  const telemetry = new Telemetry(threadOptions(join(path, 'telemetry')));
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

test('each request counts once, also just before a query and before the end', async () => {
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

test('a query while the thread is down is refused at once', async () => {
  using files = directory();
  const telemetry = new Telemetry(threadOptions(join(files.path, 'telemetry')));
  await assert.rejects(telemetry.ask('metrics', { appId: APP, hours: 1 }), TelemetryError);
  await telemetry.close();
});

test('many queries about one app do not block queries about others', async () => {
  using files = directory();
  await using telemetry = started(files.path);
  const asked = Array.from({ length: 200 }, () => telemetry.ask('metrics', { appId: APP, hours: 1 }));
  const other = telemetry.ask('metrics', { appId: 'other', hours: 1 });
  const stats = telemetry.stats();
  const answered = (await Promise.allSettled(asked)).filter(({ status }) => status === 'fulfilled');
  assert.equal(answered.length, 20);
  assert.equal((await other).items.length, 60);
  assert.notEqual((await stats).files, null);
});

test('a forgotten app has no figures', async () => {
  using files = directory();
  await using telemetry = started(files.path);
  telemetry.record(record({ site: APP }));
  assert.deepEqual(await sum(telemetry), { requests: 1, errors: 0 });
  telemetry.forget(APP);
  await eventually(async () => (await sum(telemetry)).requests === 0, 'the app has no figures');
  assert.deepEqual(await telemetry.ask('metrics/version', { appId: APP }), { schema: 1, watermark: null });
});

test('a thread that dies is restarted, and records that wait meanwhile are counted', async () => {
  using files = directory();
  const path = join(files.path, 'telemetry');
  // The thread cannot start, because a file is in the place of its directory.
  writeFileSync(path, '');
  await using telemetry = started(files.path);
  telemetry.record(record({ site: APP }));
  await assert.rejects(telemetry.ask('metrics', { appId: APP, hours: 1 }), TelemetryError);
  rmSync(path);
  const answers = () => sum(telemetry).then(Boolean, () => false);
  await eventually(answers, 'the thread that was started again answers');
  telemetry.record(record({ site: APP }));
  assert.ok((await telemetry.stats()).restarts > 0);
  const all = async () => (await sum(telemetry)).requests + (await telemetry.stats()).dropped.requests!;
  await eventually(
    async () => (await all()) === 2,
    'each was either counted or is said to have been dropped',
  );
});

test('drops count from the host’s start, even when the thread is restarted', async () => {
  using files = directory();
  await using telemetry = started(files.path);
  telemetry.outputOf(APP, 'r1').write('stdout', Buffer.from('line\n'.repeat(20_000)), null);
  const dropped = async () => (await telemetry.stats()).dropped.log_lines ?? 0;
  await eventually(async () => (await dropped()) > 0, 'lines are dropped');
  const before = await dropped();
  assert.ok(before > 10_000, `${before}`);
  // This invalid message, which the host never sends, ends the thread.
  telemetry.keepOnly(1 as unknown as string[]);
  await eventually(async () => (await telemetry.stats()).restarts === 1, 'the thread has ended');
  assert.equal(await dropped(), before, 'while there is no thread');
  await eventually(async () => (await telemetry.stats()).files !== null, 'the next thread answers');
  assert.equal(await dropped(), before);
});

test('process exits over the queue limit are dropped and counted', async () => {
  using files = directory();
  const telemetry = new Telemetry(threadOptions(join(files.path, 'telemetry')));
  const failure = { at: Date.now(), deployId: null, mechanism: 'crash', reason: 'x'.repeat(5_000) } as const;
  for (let n = 0; n < 1_000; n++) telemetry.failed(APP, failure);
  assert.ok((await telemetry.stats()).dropped.failures! > 700);
  telemetry.start();
  const asked = { appId: APP, status: 'open', limit: 50 } as const;
  const counted = async () =>
    (await telemetry.ask('errors', asked)).items.reduce((sum, { count }) => sum + count, 0);
  const taken = 1_000 - (await telemetry.stats()).dropped.failures!;
  await eventually(async () => (await counted()) === taken, 'the others are errors of the app');
  await telemetry.close();
});

test('a file that is no database is moved aside, and counting starts again', async () => {
  using files = directory();
  {
    await using telemetry = started(files.path);
    telemetry.record(record({ site: APP }));
    assert.equal((await sum(telemetry)).requests, 1);
  }
  const database = join(files.path, 'telemetry', 'metrics.sqlite');
  writeFileSync(database, 'this is no database, and never was one '.repeat(1_000));
  await using telemetry = started(files.path);
  telemetry.record(record({ site: APP }));
  assert.equal((await sum(telemetry)).requests, 1);
  assert.ok(existsSync(`${database}.broken`));
});

test('records over the queue limit are dropped and counted, and apps deleted meanwhile are forgotten', async () => {
  using files = directory();
  const telemetry = new Telemetry(threadOptions(join(files.path, 'telemetry')));
  const path = '/'.repeat(512);
  const flood = 80_000;
  for (let i = 0; i < flood; i++) telemetry.record(record({ site: APP, path }));
  const { dropped, waiting } = await telemetry.stats();
  assert.ok(dropped.requests! > 0 && waiting.requests! <= 32 * 1024 * 1024);
  telemetry.start();
  assert.equal((await sum(telemetry)).requests, flood - dropped.requests!);
  telemetry.keepOnly([]);
  await eventually(async () => (await sum(telemetry)).requests === 0, 'the app has no figures');
  await telemetry.close();
});
