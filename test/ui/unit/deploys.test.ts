// Parsing of deploys: the steps of a log, source positions in a failure, a diff.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { joinLines, linesOf, parseLog } from '../../../ui/models/deploys/deploy-log.ts';
import { type Deploy, hasCommits, mergeDeploys, tookMs } from '../../../ui/models/deploys/deploys.ts';
import { findPlaces } from '../../../ui/models/places.ts';
import { parseDiff } from '../../../ui/models/source/diff.ts';

const LOG = `▸ queued: behind deploy x
▸ checkout: 8b6300707412
  checkout took 35 ms
reading the project's configuration
▸ install: skipped, no dependencies
▸ build: npm run build
building
  left alone
  build failed after 4.4 s
deploy failed: src/index.ts:8:15: Expected ";"
  const url == 1;
deploy a stays live
`;

test('a log is split into its steps and its end, without their markers', () => {
  const { before, steps, end } = parseLog(linesOf(LOG));
  assert.deepEqual(before, []);
  assert.deepEqual(
    steps.map(({ name, detail, lines }) => [name, detail, lines]),
    [
      ['queued', 'behind deploy x', []],
      ['checkout', '8b6300707412', ["reading the project's configuration"]],
      ['install', 'skipped, no dependencies', []],
      ['build', 'npm run build', ['building', '  left alone']],
    ],
  );
  assert.equal(end.length, 3);
  assert.deepEqual(parseLog(['… (earlier lines are not kept)', 'x']).before.length, 2);
});

test('lines of a stream are merged with a log that has some of them', () => {
  assert.deepEqual(joinLines(['a', 'b', 'c'], ['b', 'c', 'd']), ['a', 'b', 'c', 'd']);
  assert.deepEqual(joinLines(['a', 'b'], ['c']), ['a', 'b', 'c']);
  assert.deepEqual(joinLines([], ['c']), ['c']);
  assert.deepEqual(joinLines(['a'], ['a']), ['a']);
});

test('a text is split at the source positions that it names', () => {
  const places = (text: string) =>
    findPlaces(text)
      .filter(({ path }) => path)
      .map(({ path, line }) => [path, line]);
  assert.deepEqual(places('src/index.ts:8:15: Expected ";"'), [['src/index.ts', 8]]);
  assert.deepEqual(places('at fetch (./src/a-b.tsx:12)'), [['src/a-b.tsx', 12]]);
  assert.deepEqual(places('src/price.ts(5,10): error TS2322'), [['src/price.ts', 5]]);
  assert.deepEqual(places('/data/builds/x/project/src/a.ts:3:1'), [['src/a.ts', 3]]);
  assert.deepEqual(places('at x (node_modules/hono/index.js:3:1) https://a.example/b.js:4'), []);
  assert.equal(
    findPlaces('in src/a.ts:3, then')
      .map(({ text }) => text)
      .join(''),
    'in src/a.ts:3, then',
  );
});

test('a diff is parsed with its line numbers', () => {
  const [one, two] = parseDiff(`diff --git a/src/a.ts b/src/a.ts
index 1..2 100644
--- a/src/a.ts
+++ b/src/a.ts
@@ -3,3 +3,3 @@ function x() {
 same
-old
+new
 same
\\ No newline at end of file
diff --git a/b.png b/b.png
Binary files a/b.png and b/b.png differ
`);
  assert.deepEqual(
    one!.lines.map(({ kind, before, after, text }) => [kind, before, after, text]),
    [
      ['hunk', null, null, 'function x() {'],
      ['same', 3, 3, 'same'],
      ['removed', 4, null, 'old'],
      ['added', null, 4, 'new'],
      ['same', 5, 5, 'same'],
    ],
  );
  assert.deepEqual([one!.path, two!.path, two!.isBinary], ['src/a.ts', 'b.png', true]);
});

const deploy = (id: string, more: Partial<Deploy> = {}) => ({ id, status: 'building', ...more }) as Deploy;

test('a deploy from a stream is merged into the list, newest first', () => {
  const all = mergeDeploys([deploy('b'), deploy('a')], [deploy('c'), deploy('b', { status: 'live' })]);
  assert.deepEqual(
    all.map(({ id, status }) => [id, status]),
    [
      ['c', 'building'],
      ['b', 'live'],
      ['a', 'building'],
    ],
  );
});

test('the duration of a deploy is from its start until its end, or until now', () => {
  const started_at = '2026-11-22T07:00:00.000Z';
  assert.equal(tookMs(deploy('a', { started_at: null, finished_at: null }), 0), null);
  assert.equal(tookMs(deploy('a', { started_at, finished_at: '2026-11-22T07:00:02.000Z' }), 0), 2_000);
  assert.equal(tookMs(deploy('a', { started_at, finished_at: null }), Date.parse(started_at) + 5), 5);
});

test('an app whose deploys are all uploads has no main to deploy again', () => {
  const [upload, push] = [{ ref: '' }, { ref: 'refs/heads/main' }];
  assert.deepEqual([hasCommits([], false), hasCommits([upload], false)], [false, false]);
  assert.deepEqual([hasCommits([upload, push], false), hasCommits([upload], true)], [true, true]);
});
