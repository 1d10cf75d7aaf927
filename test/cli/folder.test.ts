// What the command line reads from a project's folder: git's repository, and the name in the Wrangler configuration.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CONFIG_FILES } from '../../bundler/project/project.ts';
import { Stopped } from '../../cli/exit.ts';
import { CONFIGURATIONS, isRepository, namedByProject } from '../../cli/git/folder.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('a repository that git refuses is not treated as a folder without a repository', (t) => {
  const top = temporaryDirectory(t);
  const inner = join(top, 'inner');
  mkdirSync(inner);
  assert.equal(isRepository(inner), false);
  execFileSync('git', ['init', '--quiet'], { cwd: top });
  assert.equal(isRepository(inner), true);
  const refused = (message: RegExp, next: RegExp) =>
    assert.throws(
      () => isRepository(inner),
      (error: Stopped) => {
        assert.ok(error instanceof Stopped);
        assert.equal(error.exit, 'usage');
        assert.match(error.message, message);
        assert.match(String(error.next), next);
        return true;
      },
    );
  process.env.GIT_TEST_ASSUME_DIFFERENT_OWNER = '1';
  t.after(() => delete process.env.GIT_TEST_ASSUME_DIFFERENT_OWNER);
  refused(/dubious ownership/, new RegExp(`^git config --global --add safe\\.directory ${top}$`));
  writeFileSync(join(top, '.git', 'HEAD'), 'damaged');
  refused(/not a git repository/, /^cellar deploy --upload$/);
});

test('a missing git is named, with and without a repository', (t) => {
  const folder = temporaryDirectory(t);
  const { PATH } = process.env;
  t.after(() => Object.assign(process.env, { PATH }));
  process.env.PATH = folder;
  const missing = { exit: 'failed', message: 'git is not installed.' };
  assert.throws(() => isRepository(folder), missing);
  mkdirSync(join(folder, '.git'));
  assert.throws(() => isRepository(folder), missing);
});

test('the name of a project is the one at the top level of its configuration', (t) => {
  const named = (file: string, text: string) => {
    const folder = temporaryDirectory(t);
    writeFileSync(join(folder, file), text);
    return namedByProject(folder);
  };
  const nested = '"workflows": [{ "name": "orders" }],\n"name": "shop"';
  assert.equal(named('wrangler.json', `{ ${nested} }`), 'shop');
  assert.equal(named('wrangler.jsonc', '{ "$schema": "x", "name": "shop" }'), 'shop');
  assert.equal(named('wrangler.jsonc', `{ // "name": "other"\n ${nested}, }`), 'shop');
  assert.equal(named('wrangler.toml', 'main = "a.js"\nname = "shop" # its name\n'), 'shop');
  assert.equal(named('wrangler.toml', '[[workflows]]\nname = "orders"\n'), null);
  for (const text of ['{}', 'null', '{ "name": 5 }']) assert.equal(named('wrangler.json', text), null, text);
  for (const [file, text] of [
    ['wrangler.jsonc', '{ "name": "shop"'],
    ['wrangler.toml', 'name = shop'],
  ] as const)
    assert.throws(
      () => named(file, text),
      (error) => error instanceof Stopped && error.exit === 'usage' && error.message.includes(file),
    );
});

test('of several configurations, the name comes from the one that is deployed', () => {
  assert.deepEqual(CONFIGURATIONS, CONFIG_FILES);
});
