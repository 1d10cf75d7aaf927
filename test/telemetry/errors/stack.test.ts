// Stacks mapped to a project's own files, and error fingerprints, with real bundles and source maps.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { fingerprintOf, normalized } from '../../../runtime/telemetry/errors/fingerprint.ts';
import { toSourcePlaces, toSources } from '../../../runtime/telemetry/errors/source-places.ts';
import { placesIn, type SourceStack, withSources } from '../../../runtime/telemetry/errors/stack.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

/** Returns a project with a function that fails in a file of its own. @param before code above it in both files */
const PROJECT = (before: string): Record<string, string> => ({
  'src/index.js': `import { loadUser } from './users.js';
${before}
export class Accounts { open(user) { return loadUser(user).name; } }
export function fetchHandler(user) { return new Accounts().open(user); }
`,
  'src/users.js': `${before}import { parse } from 'parser';
export function loadUser(user) {
  if (user === null) throw new TypeError('no user ' + Math.random());
  if (user === 'parse') return parse(user);
  return user;
}
`,
  'node_modules/parser/index.js': `export function parse(text) { throw new SyntaxError('bad ' + text); }`,
  'node_modules/parser/package.json': '{"name":"parser","main":"index.js"}',
});

/** Returns the mapped stack of a bundle's error. */
async function thrown(
  t: TestContext,
  user: string | null,
  minify: boolean,
  files: Record<string, string>,
): Promise<SourceStack> {
  const root = temporaryDirectory(t);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(`${root}/${path}`.replace(/\/[^/]*$/, ''), { recursive: true });
    writeFileSync(`${root}/${path}`, text);
  }
  await build({
    entryPoints: [`${root}/src/index.js`],
    outfile: `${root}/modules/index.js`,
    absWorkingDir: root,
    bundle: true,
    format: 'esm',
    sourcemap: 'external',
    sourcesContent: false,
    minify,
  });
  const { fetchHandler } = await import(pathToFileURL(`${root}/modules/index.js`).href);
  try {
    fetchHandler(user);
  } catch (error) {
    // Renames modules as workerd names them, and removes the stack frames of this test.
    const lines = (error as Error).stack!.replaceAll(`file://${root}/modules/`, '').split('\n');
    const stack = lines.filter((line) => !line.includes('/')).join('\n');
    const places = placesIn(stack);
    const found = await toSources(root, places);
    return withSources(stack, new Map(places.map((place, index) => [place, found[index]!])));
  }
  throw new Error('it did not fail');
}

test('a stack names the project’s files, and its fingerprint survives added lines and minifying', async (t) => {
  const plain = await thrown(t, null, false, PROJECT(''));
  assert.match(
    plain.text,
    /^TypeError: no user [\d.]+\n {4}at loadUser \(\.\.\/src\/users\.js:3:28\)\n {4}at Accounts\.open \(\.\.\/src\/index\.js:3:/,
  );
  assert.equal(plain.place, '../src/users.js:3:28');
  const fingerprint = (stack: SourceStack) => fingerprintOf('TypeError', 'x', stack.frames);
  const moved = await thrown(t, null, false, PROJECT('// a comment\nconsole.log;\n'));
  assert.equal(moved.place, '../src/users.js:5:28');
  assert.equal(fingerprint(moved), fingerprint(plain));
  const small = await thrown(t, null, true, PROJECT(''));
  assert.match(small.text, /at loadUser \(\.\.\/src\/users\.js:3:\d+\)\n {4}at open \(/);
  assert.equal(fingerprint(small), fingerprint(plain));
  assert.equal(fingerprint(await thrown(t, null, true, PROJECT('// more\n'))), fingerprint(plain));
});

test('frames of packages do not distinguish errors, unless there are no others', async (t) => {
  const stack = await thrown(t, 'parse', false, PROJECT(''));
  assert.match(stack.text, /at parse \(\.\.\/node_modules\/parser\/index\.js:1:/);
  assert.match(stack.place!, /src\/users\.js:4/);
  assert.equal(stack.frames[0], '../src/users.js loadUser');
});

test('frames of the entry are left out, and a stack without a map is unchanged', () => {
  const stack = `Error: no
    at Object.fetch (app.js:4:11)
    at async Room.alarm (app.js:9:1)
    at begin (cellar-capture.js:80:20)
    at enter (cellar-capture.js:70:1)
    at wrong line (`;
  const { text, place, frames } = withSources(stack, new Map());
  assert.equal(
    text,
    'Error: no\n    at fetch (app.js:4:11)\n    at async Room.alarm (app.js:9:1)\n    at wrong line (',
  );
  assert.equal(place, 'app.js:4:11');
  assert.deepEqual(frames, ['app.js fetch', 'app.js alarm']);
});

test('a message distinguishes errors without ids, numbers, dates and addresses', () => {
  const same = [
    ['no user 17 at 2026-11-22T04:00:00.123Z', 'no user 4 at 2025-01-02T03:04:05Z'],
    ['missing 0189d9d0-7d8b-7c3a-9d2e-1a2b3c4d5e6f', 'missing 00000000-7d8b-4c3a-8d2e-1a2b3c4d5e6f'],
    ['key deadbeef01234567', 'key 0123456789abcdef'],
    ['mail to a.b@example.org failed', 'mail to x@y.example failed'],
    ['took 1.5 ms', 'took 200 ms'],
  ];
  for (const [a, b] of same) assert.equal(fingerprintOf('E', a!, []), fingerprintOf('E', b!, []), a!);
  assert.notEqual(fingerprintOf('E', 'no user', []), fingerprintOf('E', 'no room', []));
  assert.notEqual(fingerprintOf('E', 'no user', []), fingerprintOf('F', 'no user', []));
  assert.equal(normalized('cannot read name of undefined'), 'cannot read name of undefined');
});

test('hostile stacks and messages are parsed in time', () => {
  const begun = performance.now();
  const lines = [
    ' at '.repeat(5_000),
    `    at ${'('.repeat(8_000)}`,
    `    at ${'a b'.repeat(2_000)} (x:1:1`,
    '1-'.repeat(4_000),
    'a@'.repeat(4_000),
    'Mon'.repeat(2_000),
  ];
  for (const line of lines) {
    const stack = `Error\n${`${line}\n`.repeat(20)}`;
    placesIn(stack);
    withSources(stack, new Map());
    fingerprintOf('E', line, []);
  }
  assert.ok(performance.now() - begun < 10_000, `${performance.now() - begun} ms`);
});

test('two errors with different messages from one function are two, however small the bundle is', async (t) => {
  const project = (first: string) => `export function fails(first) {
  if (first) throw new Error(${first} + Math.random());
  throw new Error(\`second \${Math.random()}\`);
}
export function fetchHandler(user) { return fails(user !== null); }
`;
  const keys = new Set<string>();
  for (const minify of [false, true]) {
    for (const user of ['x', null]) {
      const { frames } = await thrown(t, user, minify, { 'src/index.js': project("'first '") });
      keys.add(fingerprintOf('Error', 'x', frames));
    }
  }
  assert.equal(keys.size, 2);
});

test('a read of a binding that the release lacks gets a hint, and nothing else does', async (t) => {
  const release = {
    vars: { WORD: 'a' },
    databases: [{ binding: 'DB', storageId: 'a', migrations: [] }],
    namespaces: [],
    durableObjects: [],
  };
  const text = async (code: string) => {
    const index = `export function fetchHandler(env) { const process = { env }; return ${code}; }`;
    return (await thrown(t, '', false, { 'release.json': JSON.stringify(release), 'src/index.js': index }))
      .text;
  };
  assert.match(
    await text('env.FILES.get("a")'),
    /^TypeError: .* \(reading 'get'\)\n {4}\(The app has no binding, variable or secret FILES: add it .*\)\n {4}at fetchHandler \(/,
  );
  assert.match(await text('({ env }).env.CACHE.max'), /no binding, variable or secret CACHE/);
  for (const code of [
    'env.DB.prepare("a")',
    'env.WORD.nothing',
    'process.env.FILES.nothing',
    'env.FILES()',
    'env.at.there.is',
  ])
    assert.doesNotMatch(await text(code), /The app has no/, code);
});

test('names in a source map are cut, however long they are', async (t) => {
  const root = temporaryDirectory(t);
  mkdirSync(`${root}/modules`);
  const long = 'x'.repeat(1_000_000);
  const map = { version: 3, sources: [`${long}.ts`], names: [long], mappings: 'AAAAA' };
  writeFileSync(`${root}/modules/index.js.map`, JSON.stringify(map));
  const [place] = await toSources(root, ['index.js:1:1']);
  assert.deepEqual([place!.file.length, place!.name!.length], [501, 501]);
  assert.ok((await toSourcePlaces(root, 'at index.js:1:1')).length < 600);
});
