import assert from 'node:assert/strict';
import { existsSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { findLockFiles } from '../../../bundler/project/lock-files.ts';
import { readPackageJson } from '../../../bundler/project/project.ts';
import { packageManager } from '../../../runtime/builds/commands/package-manager.ts';
import { closeBundler } from '../../../runtime/builds/release/build.ts';
import { buildCommit, type Files, makeDirectory, writeFiles } from '../../support/builds/projects.ts';

const directory = makeDirectory();
after(() => {
  closeBundler();
  directory.remove();
});

function choose(files: Files) {
  const project = mkdtempSync(join(directory.path, 'project-'));
  writeFiles(project, files);
  const none = { packageManager: null, devManager: null, pnpmRange: null };
  const manifest = readPackageJson(project) ?? none;
  return packageManager({ ...manifest, lockFiles: findLockFiles(project, project) }, '/cache');
}

/** Returns the package manager of a project, its version and its lock file, in one line. */
const chosen = (files: Files) => {
  const { name, version, lockFile } = choose(files);
  return [name, version, lockFile].map(String).join(' ');
};

test('package.json names the package manager, else the lock file does, else it is npm', () => {
  const named = (packageManager: string) => ({ 'package.json': JSON.stringify({ packageManager }) });
  assert.equal(chosen({}), 'npm null null');
  assert.equal(chosen({ 'package-lock.json': '{}', 'yarn.lock': '' }), 'npm null package-lock.json');
  assert.equal(chosen({ 'yarn.lock': '# yarn lockfile v1\n' }), 'yarn 1.22.22 yarn.lock');
  assert.equal(chosen({ 'yarn.lock': '__metadata:\n  version: 8\n' }), 'yarn 4.18.1 yarn.lock');
  assert.equal(chosen({ 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" }), 'pnpm 10.34.8 pnpm-lock.yaml');
  assert.equal(chosen({ 'pnpm-lock.yaml': 'lockfileVersion: 5.4\n' }), 'pnpm 7.33.7 pnpm-lock.yaml');
  const both = { 'package-lock.json': '{}', 'pnpm-lock.yaml': "lockfileVersion: '6.0'\n" };
  assert.equal(chosen({ ...both, ...named('pnpm@9.1.2+sha512.abc') }), 'pnpm 9.1.2 pnpm-lock.yaml');
  assert.equal(chosen({ 'bun.lock': '{}' }), 'bun 1.4.5 bun.lock');
  assert.equal(chosen(named('bun@1.2.0')), 'bun 1.2.0 null');
  assert.equal(chosen(named('yarn@3.2.1')), 'yarn 3.2.1 null');
  for (const version of ['10', '^10.2.0', 'latest'])
    assert.equal(chosen(named(`npm@${version}`)), 'npm null null', version);
  const dev = (packageManager: object, more: object = {}) => ({
    'package.json': JSON.stringify({ devEngines: { packageManager }, ...more }),
  });
  assert.equal(chosen(dev({ name: 'pnpm', version: '^11.0.0' })), 'pnpm ^11.0.0 null');
  assert.equal(chosen({ ...both, ...dev({ name: 'pnpm' }) }), 'pnpm 8.15.9 pnpm-lock.yaml');
  assert.equal(chosen(dev({ name: 'pnpm', version: '>=9' })), 'pnpm 10.34.8 null');
  assert.equal(chosen(dev({ name: 'npm', version: '^10' })), 'npm null null');
  assert.equal(
    chosen(dev({ name: 'pnpm', version: '^9' }, { packageManager: 'pnpm@9.1.2' })),
    'pnpm 9.1.2 null',
  );
  assert.throws(
    () => choose(named('pnpm@https://example.com/x.tgz')),
    /must be npm, pnpm, yarn or bun with an exact/,
  );
  assert.throws(() => choose(named('pnpm@latest')), /not "pnpm@latest"/);
  assert.throws(
    () => choose(dev({ name: 'pnpm', version: 'https://example.com/x.tgz' })),
    /the version of pnpm in "engines" or "devEngines" must be a range/,
  );
  assert.throws(
    () => choose({ 'pnpm-lock.yaml': "lockfileVersion: '77.0'\n" }),
    /has format 77: name the version/,
  );
});

test('engines.pnpm chooses the version of pnpm when it excludes the one that reads the lock file', () => {
  const version = (pnpm: string, format = '9.0') => {
    const manifest = JSON.stringify({ engines: { pnpm } });
    const lock = `lockfileVersion: '${format}'\n`;
    return choose({ 'package.json': manifest, 'pnpm-lock.yaml': lock }).version;
  };
  for (const range of [
    '^9',
    '~9.15',
    '9',
    '9.x',
    '9.15.9',
    '>=11',
    '>10',
    '<10',
    '<=9.1',
    '^10.40.0',
    '~10.33.0',
  ])
    assert.equal(version(range), range);
  assert.equal(version('>= 8 < 10.34.8'), '>= 8 < 10.34.8');
  assert.equal(version('7 - 9'), '7 - 9');
  for (const range of [
    '*',
    '',
    '>=9',
    '>9',
    '^10',
    '^10.34.1',
    '~10.34',
    '10.x',
    '<=10',
    '<11.0.0',
    '^9 || ^10',
  ])
    assert.equal(version(range), '10.34.8', range);
  for (const range of ['v10', '9 - 10', '>= 8 <11', '=10.34.8', '>=10.0.0-rc.1'])
    assert.equal(version(range), '10.34.8', range);
  assert.equal(version('>=8', '6.0'), '8.15.9');
  assert.equal(version('>=12', '77.0'), '>=12');
  const yarn = { 'package.json': '{"engines": {"pnpm": "^9"}}', 'yarn.lock': '' };
  assert.equal(choose(yarn).version, '1.22.22');
});

test('a version range of more than 256 characters is refused', () => {
  const pnpm = '1 || '.repeat(40_000);
  for (const manifest of [
    { engines: { pnpm } },
    { devEngines: { packageManager: { name: 'pnpm', version: pnpm } } },
  ])
    assert.throws(
      () => choose({ 'package.json': JSON.stringify(manifest), 'pnpm-lock.yaml': '' }),
      /"engines" or "devEngines" has 200000 characters; at most 256 are allowed$/,
    );
});

test('beside another lock file, one of npm that lacks packages of package.json is not used', () => {
  const manifest = (dependency: string) =>
    JSON.stringify({ dependencies: { react: '19' }, devDependencies: { [dependency]: '1' } });
  const lock = JSON.stringify({ packages: { '': {}, 'node_modules/react': {}, 'node_modules/@a/b': {} } });
  const files = { 'package-lock.json': lock, 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" };
  const { name, unusedLockFiles } = choose({ ...files, 'package.json': manifest('motion') });
  assert.deepEqual([name, unusedLockFiles], ['pnpm', ['package-lock.json']]);
  assert.equal(choose({ ...files, 'package.json': manifest('@a/b') }).name, 'npm');
  assert.equal(choose({ 'package-lock.json': lock, 'package.json': manifest('motion') }).name, 'npm');
  const old = { ...files, 'package-lock.json': '{"dependencies": {"react": {}, "@a/b": {}}}' };
  assert.equal(choose({ ...old, 'package.json': manifest('@a/b') }).name, 'npm');
  assert.equal(choose({ ...old, 'package.json': manifest('motion') }).name, 'pnpm');
  const broken = { ...files, 'package-lock.json': '{', 'package.json': manifest('motion') };
  assert.equal(choose(broken).name, 'npm');
});

test('a lock file is installed exactly, with development dependencies whatever NODE_ENV is', () => {
  assert.deepEqual(choose({ 'package-lock.json': '{}' }).install.slice(0, 4), [
    'npm',
    'ci',
    '--prefer-offline',
    '--include=dev',
  ]);
  assert.deepEqual(choose({}).install.slice(0, 3), ['npm', 'install', '--include=dev']);
  assert.deepEqual(choose({ 'pnpm-lock.yaml': '' }).install.slice(3), [
    'pnpm@10.34.8',
    'pnpm',
    '--config.store-dir=/cache/pnpm',
    '--config.engine-strict=false',
    'install',
    '--frozen-lockfile',
    '--prod=false',
  ]);
});

test('a package is added by the package manager of the project, whatever lock files there are', () => {
  const last = (files: Files) =>
    choose(files).add.filter((word) => !/^(?:env$|YARN_|sh$|-c$|program=)/.test(word));
  assert.deepEqual(last({}), ['npm', 'install', '--no-save', '--legacy-peer-deps']);
  const named = { 'package.json': '{"packageManager": "pnpm@10.1.0"}', 'package-lock.json': '{}' };
  assert.deepEqual(last(named), [
    'pnpm@10.1.0',
    'pnpm',
    '--config.store-dir=/cache/pnpm',
    '--config.engine-strict=false',
    'add',
    '--save-dev',
    '--ignore-workspace-root-check',
  ]);
  assert.deepEqual(last({ 'yarn.lock': '' }), ['yarn@1.22.22', 'yarn', 'add', '--dev']);
});

test('unused lock files are named unless package.json names the package manager', async () => {
  const { unusedLockFiles } = choose({ 'yarn.lock': '', 'pnpm-lock.yaml': '', 'package-lock.json': '{}' });
  assert.deepEqual(unusedLockFiles, ['pnpm-lock.yaml', 'yarn.lock']);
  const named = JSON.stringify({ packageManager: 'yarn@1.22.22' });
  const both = { 'yarn.lock': '', 'package-lock.json': '{}' };
  assert.deepEqual(choose({ ...both, 'package.json': named }).unusedLockFiles, []);
});

const WORKER = "import { Hono } from 'hono';\nexport default new Hono();\n";

test('npm installs and builds a project whose engines exclude this Node, and that calls other package managers', async () => {
  const manifest = {
    dependencies: { hono: '4.13.19' },
    engines: { node: '22.x' },
    // A script may call other package managers.
    scripts: { build: 'pnpm --version && pnpx semver@7.7.3 -r 2.x 1.0.0 2.3.4 && bunx --version' },
  };
  const { lines, result } = await buildCommit(directory.path, {
    'package.json': JSON.stringify(manifest),
    '.npmrc': 'engine-strict=true\n',
    'index.js': WORKER,
  });
  await result.catch((error: unknown) => assert.fail(`${error}\n${lines.join('\n')}`));
  for (const line of ['10.34.8', '2.3.4', '1.4.5']) assert.ok(lines.includes(line), lines.join('\n'));
});

for (const [manager, version] of [
  ['pnpm', '10.34.8'],
  ['yarn', '1.22.22'],
  ['yarn', '4.18.1'],
  ['bun', '1.4.5'],
] as const) {
  test(`${manager} ${version} installs and builds with the registry and the app's own cache`, async () => {
    // A build may add packages for itself.
    const add = `${manager} add ${manager === 'pnpm' ? '--save-dev' : '--dev'} semver@7.7.3`;
    // A build may run other programs of the registry. npx refuses a project that names another package manager in `devEngines`.
    const other = `${manager === 'pnpm' ? 'pnpm dlx' : 'npx --yes'} semver@7.7.3 -r 2.x 1.0.0 2.3.4`;
    const manifest = {
      dependencies: { hono: '4.13.19' },
      engines: { node: '22.x' },
      scripts: { build: `echo built by $npm_config_user_agent && ${other} && ${add} && echo added` },
      ...(manager === 'pnpm'
        ? { devEngines: { packageManager: { name: manager, version, onFail: 'download' } } }
        : { packageManager: `${manager}@${version}` }),
    };
    const { input, lines, result } = await buildCommit(directory.path, {
      'package.json': JSON.stringify(manifest),
      '.npmrc': 'engine-strict=true\n',
      'index.js': WORKER,
    });
    await result.catch((error: unknown) => assert.fail(`${error}\n${lines.join('\n')}`));
    assert.ok(
      lines.includes(`▸ install: ${manager} install, ${version}, without a lock file`),
      lines.join('\n'),
    );
    assert.ok(existsSync(join(input.releaseDirectory, 'modules', 'index.js')));
    assert.ok(existsSync(join(input.cacheDirectory, manager)), 'it cached what it fetched');
    const says = manager === 'bun' ? `bun install v${version}` : `built by ${manager}/${version}`;
    assert.ok(
      lines.some((line) => line.includes(says)),
      lines.join('\n'),
    );
    for (const line of ['2.3.4', 'added']) assert.ok(lines.includes(line), lines.join('\n'));
  });
}
