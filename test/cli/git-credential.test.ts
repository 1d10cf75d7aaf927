// The credential helper that `cellar login` installs for git.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gitBeside, installHelper } from '../../cli/git/git-credential.ts';
import { keepLogin } from '../../cli/login-file.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

test('git gets the key of the login for its own server, and for no other one', (t) => {
  const home = join(temporaryDirectory(t), "it's home");
  mkdirSync(home);
  const env = { HOME: home, PATH: process.env.PATH };
  const git = 'https://git.apps.example.com';
  keepLogin(env, { url: 'https://api.apps.example.com', token: 'cellar_key', git });
  const signal = new AbortController().signal;
  const place = {
    folder: home,
    root: ROOT,
    env,
    isTerminal: false,
    out() {},
    say() {},
    input: async () => '',
    signal,
  };
  assert.ok(installHelper(place, git));
  assert.ok(installHelper(place, git), 'again');
  const fill = (host: string) =>
    execFileSync('git', ['credential', 'fill'], {
      env: { ...env, GIT_TERMINAL_PROMPT: '0', GIT_ASKPASS: '/bin/true' },
      input: `protocol=https\nhost=${host}\n\n`,
      encoding: 'utf8',
      timeout: 30_000,
      cwd: home,
    });
  assert.match(fill('git.apps.example.com'), /username=git\npassword=cellar_key\n/);
  assert.doesNotMatch(fill('git.example.com'), /cellar_key/);
  const helpers = execFileSync('git', ['config', '--global', '--get-all', `credential.${git}.helper`], {
    env,
  });
  assert.equal(helpers.toString().trim().split('\n').length, 1, 'it is installed once');
});

test('the server of git is beside an API with a name of its own', () => {
  assert.equal(gitBeside('https://api.apps.example.com'), 'https://git.apps.example.com');
  assert.equal(gitBeside('http://api.localhost:8787'), 'http://git.localhost:8787');
  assert.equal(gitBeside('http://127.0.0.1:8080'), null);
});
