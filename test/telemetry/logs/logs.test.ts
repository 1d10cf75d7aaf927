// The part of the telemetry thread that stores logs, with a real database.
import assert from 'node:assert/strict';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { SourceStacks } from '../../../runtime/telemetry/errors/source-stacks.ts';
import type { ReportedError } from '../../../runtime/telemetry/logs/log-lines.ts';
import type { LogFollow } from '../../../runtime/telemetry/logs/log-listener.ts';
import { LINES_PER_S, Logs } from '../../../runtime/telemetry/logs/logs.ts';
import type { Asks, OutputPiece, StreamPiece } from '../../../runtime/telemetry/protocol.ts';
import { Store } from '../../../runtime/telemetry/store/store.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const APP = 'a'.repeat(16);
const OTHER = 'b'.repeat(16);
const TRACE = '0af7651916cd43dd8448eb211c80319c';

function open(
  t: TestContext,
  bounds: { appBytes?: number; allBytes?: number } = {},
  root = temporaryDirectory(t),
) {
  mkdirSync(root, { recursive: true });
  const store = new Store(root);
  t.after(() => store.close());
  const stacks = new SourceStacks(`${root}/releases`);
  const errors: ReportedError[] = [];
  const logs = new Logs(
    store,
    { fleetLog: 'error', stacks, ...bounds },
    {
      onError: ({ error }) => errors.push(error),
      onRun: () => {},
      onPoint: () => {},
      onCalls: () => {},
      onReport: () => {},
    },
  );
  const print = (appId: string, text: string, piece: Partial<OutputPiece> = {}) => {
    const bytes = new Uint8Array(Buffer.from(text));
    logs.take({
      said: [],
      output: [
        {
          appId,
          deployId: 'deploy1',
          at: Date.now(),
          pipe: 1,
          stream: 'stdout',
          bytes,
          dropped: null,
          isLast: false,
          ...piece,
        },
      ],
    });
  };
  const list = async (appId: string, params: Partial<Asks['logs']['params']> = {}) =>
    logs.answers.logs!({ appId, limit: 200, ...params });
  const texts = async (appId: string, params: Partial<Asks['logs']['params']> = {}) =>
    (await list(appId, params)).items.map(({ text }) => text).reverse();
  return { logs, store, root, print, list, texts, errors };
}

const logged = (message: string, level = 'log') =>
  `${JSON.stringify({ timestamp: Date.now(), level, message })}\n`;

test('lines are assembled from chunks cut anywhere, each pipe by itself, and apps are kept apart', async (t) => {
  const { print, texts, list } = open(t);
  print(APP, logged('first') + logged('seco').slice(0, -5));
  print(APP, 'plain error\n', { pipe: 2, stream: 'stderr' });
  print(OTHER, logged('another’s'), { pipe: 3 });
  print(APP, `${logged('seco').slice(-5)}last, with`);
  print(APP, ' no end', { isLast: true });
  assert.deepEqual(await texts(APP), ['first', 'plain error', 'seco', 'last, with no end']);
  const [line] = (await list(APP, { level: 'error' })).items;
  assert.deepEqual(
    [line!.level, line!.source, line!.release, line!.text],
    ['error', 'app', 'deploy1', 'plain error'],
  );
  assert.deepEqual(await texts(OTHER), ['another’s']);
});

test('workerd’s line about an exception is left out if the app reported the same error, and is an error otherwise', async (t) => {
  const { print, texts, errors } = open(t);
  const told = (message: string, type = 'TypeError') => {
    const error = { type, message, stack: null, mechanism: 'uncaught' };
    return logged(`\u001ecellar ${JSON.stringify({ error })}\u001e${message}`, 'error');
  };
  const uncaught = (message: string, timestamp: unknown = String(Date.now()), type = 'TypeError') => {
    const text = `Uncaught exception: workerd/jsg/value.h:1456: failed: remote.jsg.${type}: ${message}`;
    return `${JSON.stringify({ timestamp, level: 'error', source: 'workerd/x.rs:1', message: text })}\n`;
  };
  const long = 'x'.repeat(5_000);
  print(APP, told('no user 7') + uncaught('no user 7') + uncaught('no user 8'));
  print(APP, told(`${long.slice(0, 4_000)}…`) + uncaught(long), { pipe: 2 });
  // An error class that the app defined, and an error without a message.
  print(APP, told('mine', 'MyError') + uncaught('MyError: mine', undefined, 'Error'), { pipe: 2 });
  print(APP, told('') + uncaught('').replace('TypeError: ', 'TypeError'), { pipe: 2 });
  print(APP, uncaught('aborted', undefined, 'DOMException(AbortError)'), { pipe: 2 });
  print(APP, told('aborted', 'AbortError') + uncaught('aborted', undefined, 'DOMException(AbortError)'));
  print(APP, told('{"code":7}', 'object') + uncaught('#<Object>', undefined, 'Error'));
  // The same text printed by the app itself, and by another app.
  print(APP, uncaught('no user 7', Date.now()));
  print(OTHER, uncaught('no user 7'), { pipe: 3 });
  const ends = (lines: string[]) => lines.map((line) => line.slice(0, 200).split(': ').at(-1));
  assert.deepEqual(ends(await texts(APP)), [
    'no user 7',
    'no user 8',
    long.slice(0, 200),
    'mine',
    'aborted',
    'aborted',
    '{"code":7}',
    'no user 7',
  ]);
  assert.deepEqual(ends(await texts(OTHER)), ['no user 7']);
  const kinds = errors.map(({ type, message }) => [type, message.slice(0, 20)]);
  assert.deepEqual(kinds, [
    ['TypeError', 'no user 7'],
    ['TypeError', 'no user 8'],
    ['TypeError', 'x'.repeat(20)],
    ['MyError', 'mine'],
    ['TypeError', ''],
    ['AbortError', 'aborted'],
    ['AbortError', 'aborted'],
    ['object', '{"code":7}'],
    ['TypeError', 'no user 7'],
  ]);
});

test("an app that reports errors endlessly does not bring back workerd's line about another app's error", async (t) => {
  const { print, texts, errors } = open(t);
  const told = (message: string) => {
    const error = { type: 'TypeError', message, stack: null, mechanism: 'uncaught' };
    return logged(`\u001ecellar ${JSON.stringify({ error })}\u001e${message}`, 'error');
  };
  print(OTHER, told('no user'), { pipe: 3 });
  print(APP, Array.from({ length: 3_000 }, (_, n) => told(`${n}`)).join(''));
  const message = 'Uncaught exception: workerd/jsg/value.h:1: failed: remote.jsg.TypeError: no user';
  print(OTHER, `${JSON.stringify({ timestamp: '1', level: 'error', message })}\n`, { pipe: 3 });
  assert.deepEqual(await texts(OTHER), ['no user']);
  assert.equal(errors.length, 3_001);
});

test('an app’s line that is a JSON object has its members as fields, within limits', async (t) => {
  const { print, list } = open(t);
  const lines = [
    '{"level":"warn","user":7,"by":{"a":[1]},"__proto__":"x"}',
    '{broken',
    '[1]',
    '{}',
    '{"long":"',
  ];
  const huge = JSON.stringify({ a: 'x'.repeat(5_000), ...Object.fromEntries(lines.entries()) });
  print(
    APP,
    [...lines, huge, `{"a":${'['.repeat(9_000)}${']'.repeat(9_000)}}`].map((text) => logged(text)).join(''),
  );
  const shown = (await list(APP)).items.reverse();
  assert.deepEqual(
    shown.slice(0, 5).map(({ text, level, fields }) => [text, level, JSON.stringify(fields)]),
    lines.map((text, n) => [
      text,
      'info',
      n === 0 ? '{"level":"warn","user":7,"by":"{\\"a\\":[1]}","__proto__":"x"}' : 'null',
    ]),
  );
  for (const { fields } of shown.slice(5)) assert.ok(JSON.stringify(fields).length < 5_000);
});

test('a list is filtered, newest first, page by page, each line once', async (t) => {
  const { print, list, texts } = open(t);
  for (let i = 0; i < 500; i++)
    print(APP, logged(`line ${i}${i % 100 === 7 ? ' NEEDLE' : ''}`, i % 10 === 0 ? 'warn' : 'debug'));
  print(
    APP,
    logged(`\u001ecellar ${JSON.stringify({ trace_id: TRACE, fields: { user: 'Ada' } })}\u001etraced`),
  );
  const seen: string[] = [];
  for (let before: number | undefined; ; ) {
    const { items, next } = await list(APP, { limit: 64, ...(before === undefined ? {} : { before }) });
    seen.push(...items.map(({ text }) => text));
    if (next === null) break;
    before = next;
  }
  assert.deepEqual(seen.toReversed(), [
    ...Array.from({ length: 500 }, (_, i) => `line ${i}${i % 100 === 7 ? ' NEEDLE' : ''}`),
    'traced',
  ]);
  assert.deepEqual(
    await texts(APP, { search: 'needle' }),
    [7, 107, 207, 307, 407].map((i) => `line ${i} NEEDLE`),
  );
  assert.deepEqual(await texts(APP, { search: 'ADA' }), ['traced']);
  assert.deepEqual(await texts(APP, { search: '%' }), []);
  assert.equal((await texts(APP, { level: 'warn' })).length, 50);
  assert.deepEqual(await texts(APP, { traceId: TRACE }), ['traced']);
  assert.deepEqual(await texts(APP, { until: Date.now() - 3_600_000 }), []);
  assert.deepEqual(await texts(APP, { since: Date.now() + 3_600_000 }), []);
  assert.equal((await texts(APP, { since: Date.now() - 60_000, until: Date.now() + 1 })).length, 200);
});

test('lines survive the thread, and ids keep rising', async (t) => {
  const root = temporaryDirectory(t);
  const first = open(t, {}, root);
  first.print(APP, logged('before'));
  const [before] = (await first.list(APP)).items;
  first.store.close();
  const second = open(t, {}, root);
  second.print(APP, logged('after'));
  const { items } = await second.list(APP);
  assert.deepEqual(
    items.map(({ text }) => text),
    ['after', 'before'],
  );
  assert.ok(Number(items[0]!.id) > Number(before!.id));
});

test('an app that prints too many lines gets the number of dropped ones, and its neighbour loses none', async (t) => {
  const { logs, print, list } = open(t);
  const printed = 5 * LINES_PER_S;
  print(APP, 'flood\n'.repeat(printed));
  print(APP, 'half of a line\n', { dropped: 41 });
  print(OTHER, 'quiet\n', { pipe: 2 });
  logs.flush();
  const count = async (appId: string, search: string) => {
    let [lines, before] = [0, Number.MAX_SAFE_INTEGER];
    for (;;) {
      const { items, next } = await list(appId, { search, before });
      lines += items.length;
      if (next === null) return lines;
      before = next;
    }
  };
  const kept = await count(APP, 'flood');
  const told = (await list(APP, { search: 'were dropped' })).items;
  assert.ok(kept >= 4 * LINES_PER_S && kept < printed, `${kept}`);
  assert.equal(told.length, 1);
  assert.deepEqual([told[0]!.source, told[0]!.level], ['supervisor', 'warn']);
  assert.equal(Number.parseInt(told[0]!.text, 10), printed - kept + 42);
  assert.equal(logs.dropped.log_lines, printed - kept + 42);
  assert.deepEqual(
    (await list(OTHER)).items.map(({ text }) => text),
    ['quiet'],
  );
});

test('the host’s own lines, and those of workerd that the filter passes', async (t) => {
  const { logs, print, texts } = open(t);
  const workerd = (level: string) =>
    `{"timestamp":"${Date.now()}","level":"${level}","source":"x","message":"${level} of workerd"}\n`;
  print(APP, workerd('info') + workerd('error'));
  const said = {
    appId: APP,
    at: Date.now(),
    level: 'warn',
    source: 'build',
    text: 'a\u001b[1mb\n c',
    deployId: 'd',
  } as const;
  logs.take({ output: [], said: [said] });
  assert.deepEqual(await texts(APP), ['error of workerd', 'ab\n c']);
});

test('bytes are bounded for one app and for all: the oldest lines of the largest app are deleted', async (t) => {
  const { logs, print, texts, list } = open(t, { appBytes: 100_000, allBytes: 150_000 });
  for (let i = 0; i < 3_000; i++) print(APP, `${i} ${'x'.repeat(100)}\n`);
  for (let i = 0; i < 100; i++) print(OTHER, `${i} ${'y'.repeat(100)}\n`, { pipe: 2 });
  logs.flush();
  const counted = async () => {
    let [lines, before] = [0, Number.MAX_SAFE_INTEGER];
    for (;;) {
      const { items, next } = await list(APP, { before });
      lines += items.length;
      if (next === null) return lines;
      before = next;
    }
  };
  const kept = await counted();
  assert.ok(kept * 160 < 100_000 + 160, `${kept} are kept before anything is pruned`);
  while (logs.prune(Date.now()));
  assert.equal(logs.dropped.log_lines, 3_000 - (await counted()), 'what went is counted');
  assert.ok((await texts(APP)).at(-1)!.startsWith('2999 '));
  assert.equal((await texts(OTHER)).length, 100);
});

test('lines are deleted after 24 hours, and a deleted app’s at once, in small batches', async (t) => {
  const { logs, print, texts } = open(t);
  for (let i = 0; i < 5_000; i++) print(APP, `${i}\n`);
  print(OTHER, 'other\n', { pipe: 2 });
  logs.flush();
  assert.equal(logs.forget(APP), true);
  while (logs.forget(APP));
  assert.deepEqual(await texts(APP), []);
  assert.equal(logs.prune(Date.now() + 23 * 3_600_000), false);
  assert.deepEqual(await texts(OTHER), ['other']);
  while (logs.prune(Date.now() + 25 * 3_600_000));
  assert.deepEqual(await texts(OTHER), []);
});

test('lines written during a search move from the WAL to the file', async (t) => {
  const { logs, root, print, list } = open(t);
  print(APP, 'one of many\n'.repeat(8_000));
  logs.flush();
  const searched = list(APP, { search: 'nowhere' });
  for (let app = 0; app < 4; app++) {
    for (let i = 0; i < 64; i++)
      print(`${OTHER}${app}`, `${'y'.repeat(1_000)}\n`.repeat(100), { pipe: 2 + app });
    logs.flush();
  }
  const { size } = statSync(`${root}/logs.sqlite`);
  assert.ok(size > 100_000_000, `${size} bytes: lines of a kilobyte have pages of their own`);
  assert.ok(statSync(`${root}/logs.sqlite-wal`).size < size / 8, 'the WAL is bounded');
  assert.deepEqual((await searched).items, []);
});

const ALL: LogFollow = { level: null, search: null, after: null, rpcMethod: null, isTail: false };

/** Follows an app. Returns the ids and texts of the events that a listener gets. */
function following(logs: Logs, appId: string, follow: Partial<LogFollow>) {
  const pieces: StreamPiece[] = [];
  const end = logs.follow(appId, 'logs', { ...ALL, ...follow }, (items) =>
    pieces.push(...(items as StreamPiece[])),
  )!;
  const sent = () => pieces.map(({ text }) => text).join('');
  const texts = () => [...sent().matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!).text);
  return { pieces, end, sent, texts, settled: () => new Promise((resolve) => setImmediate(resolve)) };
}

test('a listener gets new lines that pass its filter, and nothing after it has left', async (t) => {
  const { logs, print } = open(t);
  print(APP, logged('before'));
  const all = following(logs, APP, {});
  const some = following(logs, APP, { level: 'warn', search: 'PAY', rpcMethod: 'logs.stream' });
  print(APP, logged('paid') + logged('pay failed', 'error') + logged('bad', 'error'));
  print(OTHER, logged('other'), { pipe: 2 });
  await all.settled();
  assert.deepEqual(all.texts(), ['paid', 'pay failed', 'bad']);
  assert.equal(all.pieces.length, 1, 'what comes together is sent together');
  const [{ jsonrpc, method, params }] = [JSON.parse(/^data: (.*)$/m.exec(some.sent())![1]!)];
  assert.deepEqual([jsonrpc, method, params.text], ['2.0', 'logs.stream', 'pay failed']);
  all.end();
  print(APP, logged('later'));
  await all.settled();
  assert.equal(all.texts().length, 3);
});

test('a listener that resumes gets what it missed, once and in order', async (t) => {
  const { logs, print } = open(t);
  const first = following(logs, APP, {});
  print(APP, logged('one') + logged('two'));
  await first.settled();
  first.end();
  print(APP, logged('three'));
  logs.flush();
  print(APP, logged('four'));
  const again = following(logs, APP, { after: first.pieces.at(-1)!.lastId });
  print(APP, logged('five'));
  await again.settled();
  assert.deepEqual(again.texts(), ['three', 'four', 'five']);
});

test('a listener that resumes is notified when the missed lines are deleted or too many', async (t) => {
  const { logs, print, list } = open(t);
  print(APP, logged('one'));
  const [one] = (await list(APP)).items;
  for (let i = 0; i < 2_100; i++) print(APP, logged(`line ${i}`));
  assert.match(following(logs, APP, { after: Number(one!.id) }).sent(), /^event: reset\n/);
  assert.match(following(logs, APP, { after: 5 }).sent(), /^event: reset\n/);
  while (logs.forget(APP));
  assert.match(following(logs, APP, { after: Number(one!.id) }).sent(), /^event: reset\n/);
});

test('the stream of a deleted app ends', async (t) => {
  const { logs } = open(t);
  const listener = following(logs, APP, {});
  logs.forget(APP);
  assert.equal(listener.pieces.at(-1)!.isLast, true);
});

test('stacks show the project’s files and none of Cellar’s, and later lines come after them', async (t) => {
  const { print, root, texts, logs } = open(t);
  const modules = `${root}/releases/${APP}/deploy1/modules`;
  mkdirSync(modules, { recursive: true });
  // Line 1 of the bundle is line 11 of the source.
  const map = { version: 3, sources: ['src/index.ts'], names: [], mappings: 'AAUA;AACA' };
  writeFileSync(`${modules}/index.js.map`, JSON.stringify(map));
  const stack = 'Error: no\n    at load (index.js:1:5)\n    at enter (cellar-capture.js:7:1)';
  print(APP, logged(`it failed: ${stack} 7`) + logged('after') + logged('a line\n    at x (nowhere.js:9:9)'));
  const wanted = [
    'it failed: Error: no\n    at load (src/index.ts:11:5) 7',
    'after',
    'a line\n    at x (nowhere.js:9:9)',
  ];
  await eventually(async () => (await texts(APP)).length === 3, 'all is there');
  assert.deepEqual(await texts(APP), wanted);
  // A stack in the cache is mapped at once. Lines whose stacks still wait at the end are stored, too.
  print(APP, logged(stack));
  assert.deepEqual((await texts(APP)).at(-1), 'Error: no\n    at load (src/index.ts:11:5)');
  print(
    APP,
    Array.from({ length: 300 }, (_, n) => logged(`Error ${n}\n    at y (index.js:${n + 50}:1)`)).join(''),
  );
  await logs.close();
  assert.equal((await texts(APP, { limit: 1_000, search: 'at y' })).length, 300);
});
