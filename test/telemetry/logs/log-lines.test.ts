// The output of an app's process, also hostile output, as log records.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { LineReader } from '../../../runtime/processes/lines.ts';
import { readLine, shownText, TEXT_LENGTH } from '../../../runtime/telemetry/logs/log-lines.ts';
import { randomCases } from '../../support/random.ts';

const NOW = 1_795_000_000_000;
const logged = (message: unknown, level: unknown = 'log', timestamp: unknown = NOW) =>
  JSON.stringify({ timestamp, level, message });
const read = (line: string, pipe: 'stdout' | 'stderr' = 'stdout') => readLine(line, pipe, NOW);
/** Reads a line as an app's entry module prints it. */
const marked = (said: unknown, text = 'a') =>
  read(logged(`\u001ecellar ${JSON.stringify(said)}\u001e${text}`));
const TRACE = '0af7651916cd43dd8448eb211c80319c';

test('a line of workerd’s log has its level, its time and its text', () => {
  const { record, error } = read(logged('hello\n  there', 'warn', NOW - 5));
  assert.deepEqual(record, {
    ...{ at: NOW - 5, level: 'warn', source: 'app', text: 'hello\n  there' },
    ...{ fields: null, traceId: null },
  });
  assert.equal(error, null);
  for (const [level, shown] of [
    ['log', 'info'],
    ['info', 'info'],
    ['debug', 'debug'],
    ['error', 'error'],
    ['fatal', 'info'],
  ])
    assert.equal(read(logged('x', level)).record.level, shown);
});

test('workerd’s own lines are distinguished from the app’s', () => {
  const line = `{"timestamp":"${NOW}","level":"error","source":"workerd/server.c++:1","message":"Uncaught exception","context_depth":0}`;
  assert.equal(read(line).record.source, 'workerd');
  assert.equal(read(line).record.text, 'Uncaught exception');
  const stack = line.replace(
    'exception',
    'exception\\nstack: /opt/cellar/workerd@2b5edc0 /opt/cellar/workerd@3fe4230',
  );
  assert.equal(read(stack).record.text, 'Uncaught exception');
  assert.equal(read(logged(line)).record.source, 'app');
  assert.equal(read(logged(line)).record.text, line);
});

test('plain lines are kept as they are, and on stderr they are errors', () => {
  assert.deepEqual([read('plain').record.text, read('plain').record.level], ['plain', 'info']);
  assert.equal(read('plain', 'stderr').record.level, 'error');
  for (const line of [
    '{"a":1}',
    '{"timestamp":1,"level":2,"message":"x"}',
    '{"level":"error","message":"x"}',
    '{"',
    '[1]',
    'null',
    '{"timestamp":1,"level":"log"}',
  ])
    assert.deepEqual([read(line).record.text, read(line).record.level], [line, 'info']);
});

test('workerd’s own crash report is left out: addresses in the host’s files do not help an app’s owner', () => {
  for (const line of [
    '<--- Last few GCs --->',
    '[18954:0x10a77fa00000]      513 ms: Mark-Compact (reduce) 389.7 (390.8) -> 389.7 (390.8) MB',
    '*** Received signal #6: Aborted',
    'stack: /lib/x86_64-linux-gnu/libc.so.6@0x8aeeb /srv/cellar/node_modules/workerd/bin/workerd@0x47b6284',
  ])
    assert.equal(read(line, 'stderr').record.text, '', line);
  for (const line of ['stack: full', '[1:2] ms', logged('*** Received signal #6: Aborted')])
    assert.notEqual(read(line, 'stderr').record.text, '', line);
});

test('an impossible time is ignored', () => {
  for (const time of [0, -1, 1e300, NOW + 1, NOW - 60_000, null, 'x', ''])
    assert.equal(read(logged('x', 'log', time)).record.at, NOW);
});

test('the entry’s envelope has fields, a trace and an error, each validated', () => {
  const given = {
    trace_id: TRACE,
    fields: { user: 7, ok: true, none: null, nested: { a: [1] }, text: '\u001b[31mred' },
    error: { type: 'TypeError', message: 'no', stack: 'at x', mechanism: 'fetch', method: 'GET', path: '/a' },
  };
  const said = marked(given, 'failed');
  assert.equal(said.record.text, 'failed');
  assert.equal(said.record.traceId, TRACE);
  assert.deepEqual(said.record.fields, { user: 7, ok: true, none: null, nested: '{"a":[1]}', text: 'red' });
  assert.deepEqual(said.error, {
    ...{ type: 'TypeError', message: 'no', stack: 'at x', mechanism: 'fetch', handler: null },
    ...{ method: 'GET', path: '/a', id: null, untold: 0 },
  });
});

test('text that only resembles the entry’s envelope is harmless', () => {
  for (const trace_id of ['x', TRACE.toUpperCase(), '0'.repeat(32), `${TRACE}\n`, 5, {}, `${TRACE}0`])
    assert.equal(marked({ trace_id }).record.traceId, null);
  assert.equal(read(logged('\u001ecellar not json\u001e')).record.text, 'cellar not json');
  assert.equal(read(logged('\u001ecellar [1]\u001e')).record.text, 'cellar [1]');
  for (const said of [
    {},
    { text: 5 },
    { text: 'a', fields: 'x' },
    { text: 'a', fields: [] },
    { error: 5 },
    { error: { message: {} } },
  ])
    assert.equal(typeof marked(said).record.text, 'string');
  assert.deepEqual(
    marked(JSON.parse('{"fields":{"__proto__":"x"}}')).record.fields,
    JSON.parse('{"__proto__":"x"}'),
  );
  const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`field ${i}`, 'x'.repeat(50)]));
  assert.ok(JSON.stringify(marked({ fields: many }).record.fields).length < 8_192);
  const deep = `{"fields":{"deep":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`;
  assert.ok(read(logged(`\u001ecellar ${deep}\u001ea`)).record.text.length <= TEXT_LENGTH + 2);
});

test('escape sequences, control characters and half surrogate pairs are removed', () => {
  const { text } = read(logged('\u001b[31mred\u001b[0m\u0000\u0007\u009b1m \ud800 €😀\r\nnext\ttab')).record;
  assert.equal(text, 'red \ufffd €😀\nnext  tab');
  assert.equal(shownText('\u001b]8;;http://x\u0007link\u001b]8;;\u0007'), 'link');
});

test('a line that is too long is cut, and still parsed as workerd’s log', () => {
  for (const unit of ['x', '€', '😀', '\n', '\u001b', '"', '\\', '\u0000']) {
    const lines: string[] = [];
    const reader = new LineReader((line) => lines.push(line));
    reader.write(Buffer.from(`${logged(`begin ${unit.repeat(1_000_000)}`, 'warn')}\nnext\n`));
    const { record } = read(lines[0]!);
    assert.match(record.text, /^begin/);
    assert.equal(record.level, 'warn');
    assert.ok(
      record.text.length <= TEXT_LENGTH + 2 && record.text.endsWith('…') && record.text.isWellFormed(),
      unit,
    );
    assert.equal(lines[1], 'next');
  }
});

test('any bytes become lines of well-formed, bounded text', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 })), (chunks) => {
      const reader = new LineReader((line) => {
        for (const pipe of ['stdout', 'stderr'] as const) {
          const { text } = readLine(line, pipe, NOW).record;
          assert.ok(text.isWellFormed() && !/[^\P{Cc}\n]/u.test(text));
        }
      });
      for (const chunk of chunks) reader.write(Buffer.from(chunk));
      reader.end();
    }),
    randomCases(),
  );
  fc.assert(
    fc.property(fc.json(), (json) => {
      const { record } = readLine(json, 'stdout', NOW);
      const again = read(logged(`\u001ecellar ${json}\u001ea`));
      for (const { text } of [record, again.record])
        assert.ok(text.isWellFormed() && text.length <= TEXT_LENGTH + 2);
    }),
    randomCases(),
  );
});

test('a run whose times are no numbers is read, so that no line stops those of other apps', () => {
  for (const odd of [{ toString: 1, valueOf: 1 }, JSON.parse('['.repeat(9_000) + ']'.repeat(9_000))]) {
    const { run } = marked({ run: { cron: '* * * * *', started_at: odd, duration_ms: odd } });
    assert.deepEqual([run?.startedAt, run?.durationMs], [NOW, 0]);
  }
});
