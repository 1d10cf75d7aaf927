// What apps report through their binding to the service `cellar`: from a line of output to the control plane.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { format } from 'node:util';
import type { AppReport } from '../../handlers/contract/host/host-calls.ts';
import { AppReports } from '../../runtime/telemetry/app-reports.ts';
import { readLine } from '../../runtime/telemetry/logs/log-lines.ts';
import { ReportIntake } from '../../runtime/telemetry/logs/report-intake.ts';
import { eventually } from '../support/processes.ts';

const NOW = 1_800_000_000_000;
const input = { channel: 'a', event: 'b' };
const text = JSON.stringify(input);
const reportOf = (app_id: string, event: string): AppReport => ({
  app_id,
  at: new Date(NOW).toISOString(),
  kind: 'log',
  input: JSON.stringify({ event }),
});

function lineOf(report: unknown): string {
  const message = `\u001ecellar ${JSON.stringify({ report })}\u001e`;
  return JSON.stringify({ timestamp: NOW, level: 'log', message });
}

test('a line with a report is read, and what is no report is not', () => {
  const read = (report: unknown) => readLine(lineOf(report), 'stdout', NOW).report;
  assert.deepEqual(read({ kind: 'log', input, app_id: 'other' }), { kind: 'log', input: text });
  for (const wrong of [null, 'log', { kind: 'log' }, { kind: 'log', input: [] }, { kind: 'delete', input }])
    assert.equal(read(wrong), null);
});

test('the largest report fits into a line, whatever it contains', async (t) => {
  const printed: string[] = [];
  t.mock.method(console, 'log', (...values: unknown[]) => printed.push(format(...values)));
  // The path is in a variable, because TypeScript would refuse an import of this module without types.
  const path = '../../runtime/fleets/config/modules/cellar-module.js';
  const { default: make } = (await import(path)) as {
    default: () => Record<string, (given: object) => unknown>;
  };
  for (const [character, most] of [
    ['%', 19_900],
    ['"', 9_900],
    ['\u0000', 3_300],
  ] as const) {
    const given = { channel: 'a', event: character.repeat(most) };
    await make().log!(given);
    const line = JSON.stringify({ timestamp: NOW, level: 'log', message: printed.pop() });
    assert.ok(Buffer.byteLength(line) < 64 * 1024, `${line.length} bytes`);
    assert.deepEqual(readLine(line, 'stdout', NOW).report, { kind: 'log', input: JSON.stringify(given) });
  }
});

test('a report may be as large as its error says', async (t) => {
  t.mock.method(console, 'log', () => {});
  const path = '../../runtime/fleets/config/modules/cellar-module.js';
  const { default: make } = (await import(path)) as {
    default: () => Record<string, (given: object) => Promise<void>>;
  };
  const sized = (bytes: number) => ({ event: 'x'.repeat(bytes - '{"event":""}'.length) });
  await make().insight!(sized(20_000));
  await assert.rejects(make().insight!(sized(20_001)), /the argument must have at most 20000 bytes as JSON/);
});

test('values that cannot be passed on are left out, and no line stops the next one', () => {
  const line = (member: string) =>
    JSON.stringify({ timestamp: NOW, level: 'log', message: `\u001ecellar {${member}}\u001etext` });
  const nested = `${'{"0":'.repeat(8_000)}1${'}'.repeat(8_000)}`;
  assert.equal(readLine(line(`"values":[${nested}]`), 'stdout', NOW).record.text, 'text');
  for (const wrong of [nested, `{"a":[${'1e20,'.repeat(5_000)}1]}`])
    assert.equal(readLine(line(`"report":{"kind":"log","input":${wrong}}`), 'stdout', NOW).report, null);
});

test('an app that reports too often loses reports, and others do not', () => {
  const passed: [AppReport[], [string, number][]][] = [];
  const intake = new ReportIntake((...values) => passed.push(values));
  for (let n = 0; n < 10_000; n++) intake.report('loud', NOW, { kind: 'log', input: text });
  intake.report('quiet', NOW, { kind: 'log', input: text });
  intake.flush();
  intake.flush();
  assert.equal(passed.length, 1);
  const [reports, dropped] = passed[0]!;
  const ofLoud = reports.filter(({ app_id }) => app_id === 'loud').length;
  assert.ok(ofLoud >= 500 && ofLoud < 1_000, `${ofLoud} reports`);
  assert.deepEqual(dropped, [['loud', 10_000 - ofLoud]]);
  assert.equal(reports.length, ofLoud + 1);
});

test('reports are delivered in order, again after a failure, and those of previews are only logged', async () => {
  const sent: string[] = [];
  const said: string[] = [];
  let failures = 1;
  const reports = new AppReports({
    send: async (batch) => {
      if (failures-- > 0) throw new Error('the control plane is down');
      assert.ok(batch.filter(({ app_id }) => app_id === 'a').length <= 10);
      sent.push(
        ...batch.map(({ app_id, input }) => `${app_id} ${(JSON.parse(input) as { event: string }).event}`),
      );
      return { refused: batch.length === 1 ? [] : [{ app_id: 'a', text: 'refused' }] };
    },
    say: (appId, level, text) => said.push(`${appId} ${level} ${text}`),
    isPreview: (appId) => appId === 'preview',
  });
  const ofA = Array.from({ length: 1_050 }, (_, n) => reportOf('a', String(n)));
  reports.take([...ofA, reportOf('b', 'one'), reportOf('preview', 'one')], [['b', 3]]);
  await eventually(() => sent.length === 1_001, 'the deliveries');
  assert.deepEqual(
    sent.filter((each) => each.startsWith('a ')),
    Array.from({ length: 1_000 }, (_, n) => `a ${n}`),
  );
  assert.ok(sent.indexOf('b one') < 100, 'the other app does not wait');
  assert.ok(said.includes('preview info log: {"event":"one"} (not stored, because this is a preview)'));
  assert.ok(
    said.includes('a warn 50 calls of the service cellar were dropped, because the app makes too many'),
  );
  assert.ok(
    said.includes('b warn 3 calls of the service cellar were dropped, because the app makes too many'),
  );
  assert.ok(said.includes('a warn refused'));
  await reports.stop();
});

test('reports that wait for the control plane have a bound in memory', async () => {
  const said: string[] = [];
  const reports = new AppReports({
    send: () => Promise.reject(new Error('the control plane is down')),
    say: (appId, level, text) => said.push(`${appId} ${level} ${text}`),
    isPreview: () => false,
  });
  const large = JSON.stringify({ event: 'x'.repeat(2 ** 20 - 100) });
  for (const app of ['a', 'b', 'c', 'd'])
    reports.take(
      Array.from({ length: 10 }, () => ({ ...reportOf(app, ''), input: large })),
      [],
    );
  assert.deepEqual(said, [
    'd warn 8 calls of the service cellar were dropped, because the app makes too many',
  ]);
  await reports.stop();
});
