// Reported errors of apps whose output exceeds the limit.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { finished } from 'node:stream/promises';
import { test } from 'node:test';
import { CellOutput, lineSink } from '../../../runtime/fleets/process/cell-output.ts';
import { ReportedErrors } from '../../../runtime/fleets/process/reported-errors.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { readLine } from '../../../runtime/telemetry/logs/log-lines.ts';
import { call, cellOptions, makeRelease } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const line = (message: string) => `${JSON.stringify({ timestamp: 1, level: 'error', message })}\n`;
const told = (message: string) =>
  line(`\u001ecellar ${JSON.stringify({ error: { message } })}\u001eError: ${message}`);
const FLOOD = line('x'.repeat(100)).repeat(1_000);

/** Returns the lines that pass, and the number of dropped lines, of an app that has exceeded its limit before `pieces`. */
async function printed(pieces: string[]) {
  const lines: string[] = [];
  let lost = 0;
  const sink = lineSink((text) => lines.push(text));
  const output = new CellOutput(
    {
      ...sink,
      isCrowded: false,
      write: (pipe, piece, dropped) => {
        // As telemetry counts: the line that ends with the piece is lost too.
        if (dropped !== null) lost += dropped + Number(piece.includes('\n'));
        sink.write(pipe, piece, dropped);
      },
    },
    512,
  );
  const stream = new PassThrough({ highWaterMark: 16 * 1024 * 1024 });
  output.read('stdout', stream);
  for (const piece of [FLOOD.repeat(100), ...pieces]) {
    stream.write(piece);
    // The pause has each piece read separately.
    await new Promise((resolve) => setImmediate(resolve));
  }
  stream.end();
  await finished(stream);
  return { lines: lines.slice(100_000), lost };
}

test('an error amid dropped output is passed on whole, and each line around it is counted', async () => {
  const [one, two] = [told('one'), told('two')];
  const { lines, lost } = await printed([FLOOD + one + FLOOD + two, FLOOD + one, FLOOD]);
  assert.deepEqual(
    lines,
    [one, two, one].map((text) => text.trimEnd()),
  );
  assert.equal(lost, 4_000);
});

test('an error split between two reads, and text that only looks like one, are dropped', async () => {
  const error = told('cut');
  const quoted = line(error);
  const { lines, lost } = await printed([
    FLOOD + error.slice(0, -20),
    error.slice(-20) + FLOOD + quoted + FLOOD,
  ]);
  assert.deepEqual([lines, lost], [[], 3_002]);
});

test('errors amid dropped output have a byte limit', () => {
  const errors = new ReportedErrors();
  const piece = Buffer.from(`\n${told('e'.repeat(1_000)).repeat(2_000)}`);
  const [found, again] = [errors.in(piece), errors.in(piece)];
  assert.ok(found.length > 50 && found.length < 300, `${found.length} are passed on`);
  assert.ok(again.length < found.length / 10);
});

test('what a real app throws while it floods its log is reported', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(
    `${root}/r`,
    `export default { async fetch(request) {
      const { search } = new URL(request.url);
      for (let i = 0; i < 1_000; i++) console.log('x'.repeat(1_000));
      if (search !== '') throw new Error('thrown' + search);
      return new Response('ok');
    } }`,
  );
  const messages = new Set<string>();
  const output = lineSink((text, pipe) => {
    const { error } = readLine(text, pipe, Date.now());
    if (error !== null) messages.add(error.message);
  });
  const cell = await startCell({ ...(await cellOptions(root, directory)), output });
  t.after(() => cell.kill());
  for (let i = 0; i < 10; i++) await call(cell.socketPath('http'), '/');
  for (let i = 0; i < 20; i++) await call(cell.socketPath('http'), `/?${i}`).catch(() => null);
  await eventually(() => messages.size >= 15, 'most errors are told').catch(() => {});
  t.diagnostic(`${messages.size} of 20 are told`);
  assert.ok(messages.size >= 15, `${messages.size} of 20 are told`);
});
