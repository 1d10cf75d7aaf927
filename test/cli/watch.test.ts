// Which changes of a folder `cellar dev` notices.
import assert from 'node:assert/strict';
import fs, {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Watch } from '../../runtime/dev/project/watch.ts';
import { eventually } from '../support/processes.ts';

interface Watched {
  /** Creates or changes a file, and the folders above it. */
  write: (path: string, text?: string) => void;
  at: (path: string) => string;
  /** Starts to watch. @param project returns the project's folder if it has a build, else null */
  start: (project?: () => string | null, onError?: (error: Error) => void) => void;
  /** Saves a file that is not ignored, waits for its report, and returns the other paths reported until then. */
  reported: () => Promise<string[]>;
}

function watched(t: TestContext): Watched {
  const folder = mkdtempSync(join(tmpdir(), 'cellar-watch-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const seen: string[] = [];
  let saves = 0;
  const at = (path: string) => join(folder, path);
  const write = (path: string, text = path) => {
    mkdirSync(dirname(at(path)), { recursive: true });
    writeFileSync(at(path), text);
  };
  return {
    write,
    at,
    start: (project = () => null, onError = assert.fail) => {
      const watch = new Watch(folder, (paths) => seen.push(...paths), onError, project);
      t.after(() => watch.close());
    },
    reported: async () => {
      const last = `last-${++saves}`;
      write(last);
      await eventually(() => seen.includes(last), 'the last save', 10_000);
      return seen.splice(0).filter((path) => path !== last);
    },
  };
}

/** Replaces a function of `node:fs` until the test ends. */
function mockFs<Name extends 'lstatSync' | 'watch'>(
  t: TestContext,
  name: Name,
  replacement: (typeof fs)[Name],
) {
  const mocked = t.mock.method(fs, name, replacement as never);
  syncBuiltinESMExports();
  t.after(() => {
    mocked.mock.restore();
    syncBuiltinESMExports();
  });
  return mocked;
}

test('the output of a build is ignored in each package, and sources with the same names are not', async (t) => {
  const { write, start, reported } = watched(t);
  const outputs = [
    'dist/a.js',
    'web/dist/a.js',
    'packages/ui/dist/deep/a.js',
    'packages/ui/coverage/a.html',
    'site/docs/.vitepress/dist/a.html',
    'site/docs/.vitepress/.temp/a.js',
    'site/src/.next/a.js',
    'site/.nx/cache/a',
    'native/target/debug/a',
    'packages/ui/tsconfig.tsbuildinfo',
    'packages/ui/test-results/a.json',
    'site/vite.config.ts.timestamp-1700000000000-0a1b2c.mjs',
  ];
  const sources = [
    'web/src/build/a.js',
    'packages/ui/src/dist/a.js',
    'packages/ui/src/coverage/a.js',
    'site/docs/.vitepress/config.ts',
    'site/public/.well-known/a',
  ];
  for (const path of ['packages/ui/package.json', 'native/Cargo.toml', ...outputs, ...sources]) write(path);
  start(() => 'web');
  for (const path of [...outputs, ...sources]) write(path, 'changed');
  assert.deepEqual((await reported()).sort(), sources.sort());
});

test('without a build, the files that it would write are sources', async (t) => {
  const { write, start, reported } = watched(t);
  write('dist/a.js');
  write('coverage/a.html');
  start();
  write('dist/a.js', 'changed');
  write('coverage/a.html', 'changed');
  assert.deepEqual(await reported(), ['dist/a.js']);
});

test('a folder that another one replaces at once is still watched', async (t) => {
  const { write, at, start, reported } = watched(t);
  for (const path of ['src/lib/a.js', 'src/lib/deep/a.js', 'src/ready/a.js', 'src/same.js']) write(path);
  start();
  assert.deepEqual(await reported(), []);
  rmSync(at('src/lib'), { recursive: true });
  write('src/lib/b.js');
  write('src/lib/deep/b.js');
  assert.deepEqual((await reported()).sort(), [
    'src/lib/a.js',
    'src/lib/b.js',
    'src/lib/deep/a.js',
    'src/lib/deep/b.js',
  ]);
  write('src/lib/b.js', 'second');
  write('src/lib/deep/c.js');
  assert.deepEqual((await reported()).sort(), ['src/lib/b.js', 'src/lib/deep/c.js']);
  // A generator that replaces its output: the new file has the name of the old one.
  write('src/next/b.js', 'third');
  renameSync(at('src/lib'), at('src/old'));
  renameSync(at('src/next'), at('src/lib'));
  rmSync(at('src/old'), { recursive: true });
  assert.ok((await reported()).includes('src/lib/b.js'));
  write('src/lib/b.js', 'fourth');
  assert.deepEqual(await reported(), ['src/lib/b.js']);
});

test('a save does not look at each folder that the build writes', async (t) => {
  const { write, start, reported } = watched(t);
  for (const path of ['src/a.js', 'dist/a.js', 'native/Cargo.toml', 'native/target/debug/a']) write(path);
  // Known once the first version is made.
  let project: string | null = null;
  start(() => project);
  project = '';
  await reported();
  const looked = mockFs(t, 'lstatSync', lstatSync);
  await reported();
  const paths = looked.mock.calls.map(({ arguments: [path] }) => String(path));
  assert.ok(paths.some((path) => path.endsWith('/src')));
  assert.deepEqual(
    paths.filter((path) => /\/(dist|target)(\/|$)/.test(path)),
    [],
  );
});

test('a folder that could not be watched again is watched at the next save', async (t) => {
  const { write, at, start, reported } = watched(t);
  const errors: string[] = [];
  write('src/lib/a.js');
  start(
    () => null,
    ({ message }) => errors.push(message),
  );
  assert.deepEqual(await reported(), []);
  const watching = mockFs(t, 'watch', () => {
    throw new Error('too many are watched');
  });
  rmSync(at('src/lib'), { recursive: true });
  write('src/lib/b.js');
  await reported();
  assert.deepEqual(errors, ['too many are watched']);
  watching.mock.restore();
  syncBuiltinESMExports();
  await reported();
  write('src/lib/b.js', 'second');
  assert.deepEqual(await reported(), ['src/lib/b.js']);
});

test('links that lead nowhere, in a circle or to a folder do not stop it', async (t) => {
  const { write, at, start, reported } = watched(t);
  write('shared/a.js');
  symlinkSync('loop', at('loop'));
  symlinkSync('nowhere', at('dangling'));
  symlinkSync('shared', at('linked'));
  symlinkSync('..', at('shared/up'));
  start();
  write('linked/a.js', 'changed');
  assert.deepEqual(await reported(), ['shared/a.js']);
  symlinkSync('loop2', at('loop2'));
  write('shared/a.js', 'second');
  assert.deepEqual(await reported(), ['shared/a.js']);
});
