// Errors and requests: stacks, the lines around a source position, the stages of a request.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type GroupedError, mergeErrors } from '../../../ui/models/telemetry/errors.ts';
import { around, hintIn, parseStack } from '../../../ui/models/telemetry/stack.ts';
import { type Span, stagesOf } from '../../../ui/models/telemetry/traces.ts';

test('a parsed stack marks the frames of the project', () => {
  const frames = parseStack(`TypeError: no user
    at loadUser (src/user.ts:12:5)
    at async Object.fetch (./src/index.ts:3:1)
    at src/top.ts:1:1
    at dispatch (node_modules/hono/dist/compose.js:22:17)
    at node:internal/process:1:2
    at <anonymous>`);
  assert.deepEqual(
    frames.map(({ call, path, line }) => [call, path, line]),
    [
      ['loadUser', 'src/user.ts', 12],
      ['async Object.fetch', 'src/index.ts', 3],
      [null, 'src/top.ts', 1],
      ['dispatch', null, 22],
      [null, null, 1],
    ],
  );
});

test('the context of a line is two lines before and two after, within the file', () => {
  const text = ['a', 'b', 'c', 'd', 'e', 'f'].join('\n');
  assert.deepEqual(
    around(text, 4).map(({ number, text, isNamed }) => [number, text, isNamed]),
    [
      [2, 'b', false],
      [3, 'c', false],
      [4, 'd', true],
      [5, 'e', false],
      [6, 'f', false],
    ],
  );
  assert.deepEqual(
    around(text, 1).map(({ number }) => number),
    [1, 2, 3],
  );
  assert.deepEqual(around(text, 9), []);
});

test('an error group that is seen again comes first, one with another status is removed', () => {
  const group = (fingerprint: string, last_seen_at: string, status = 'open') =>
    ({ fingerprint, last_seen_at, status }) as GroupedError;
  const list = [group('a', '2026-01-02'), group('b', '2026-01-01')];
  const merged = mergeErrors(list, [group('b', '2026-01-03'), group('a', '2026-01-02', 'resolved')], 'open');
  assert.deepEqual(
    merged.map(({ fingerprint, last_seen_at }) => [fingerprint, last_seen_at]),
    [['b', '2026-01-03']],
  );
});

test('the time of a request is split into gateway, start and app', () => {
  const span = { duration_ms: 100, held_ms: 60, wake_ms: 50, refused: null } as Span;
  assert.deepEqual(
    stagesOf(span).map(({ kind, from, ms }) => [kind, from, ms]),
    [
      ['wait', 0, 10],
      ['wake', 10, 50],
      ['app', 60, 40],
    ],
  );
  assert.deepEqual(
    stagesOf({ ...span, held_ms: 0, wake_ms: 0 }).map(({ kind }) => kind),
    ['app'],
  );
});

test('the hint about a missing binding is separated from the frames and from the app’s message', () => {
  const hint = 'The app has no binding, variable or secret DB: add it';
  const stack = (second: string) =>
    `TypeError: nothing (The app is odd)\n${second}\n    at fetch (main.ts:1:2)`;
  assert.equal(hintIn(stack(`    (${hint})`)), hint);
  assert.equal(hintIn(stack('    at (The app)')), null);
  assert.equal(parseStack(stack(`    (${hint})`)).length, 1);
});
