// The file permissions and owners that the host sets when it is root.
// Runs as root too.
import assert from 'node:assert/strict';
import { lstatSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  allowReading,
  changeOwner,
  giveSocket,
  makeOwnDirectory,
  removeOwnDirectories,
} from '../../runtime/isolation/rights.ts';
import { temporaryDirectory } from '../support/temporary.ts';
import { NEEDS_USERS } from '../support/users.ts';

const USER = { uid: 32_000_002, gid: 32_000_002 };
const owner = (path: string) => [lstatSync(path).uid, lstatSync(path).gid];
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

test(
  'files that were written without a user are handed over when there is one again',
  NEEDS_USERS,
  async (t) => {
    const root = temporaryDirectory(t);
    makeOwnDirectory(`${root}/data/do`, USER);
    assert.deepEqual(owner(`${root}/data/do`), [USER.uid, USER.gid]);
    assert.deepEqual([owner(`${root}/data`), mode(`${root}/data`)], [[0, USER.gid], '710']);
    makeOwnDirectory(`${root}/data/do`, null);
    writeFileSync(`${root}/data/do/one`, '');
    symlinkSync('/etc/passwd', `${root}/data/do/link`);
    makeOwnDirectory(`${root}/data/do`, USER);
    await changeOwner([`${root}/data/do`], USER, 10_000);
    for (const path of ['', '/one', '/link'])
      assert.deepEqual(owner(`${root}/data/do${path}`), [USER.uid, USER.gid]);
    assert.equal(statSync('/etc/passwd').uid, 0);
  },
);

test('a socket is given to its user alone', NEEDS_USERS, (t) => {
  const path = `${temporaryDirectory(t)}/apps.sock`;
  writeFileSync(path, '', { mode: 0o666 });
  giveSocket(path, USER);
  assert.deepEqual([owner(path), mode(path)], [[USER.uid, USER.gid], '600']);
});

test('readable files still belong to the host, and links are not followed', NEEDS_USERS, async (t) => {
  const root = temporaryDirectory(t);
  mkdirSync(`${root}/app/release/deep`, { recursive: true, mode: 0o700 });
  for (const path of ['one', 'deep/two']) writeFileSync(`${root}/app/release/${path}`, '', { mode: 0o600 });
  writeFileSync(`${root}/outside`, '', { mode: 0o600 });
  symlinkSync(`${root}/outside`, `${root}/app/release/link`);
  await allowReading(`${root}/app/release`, USER);
  for (const path of ['', '/one', '/deep', '/deep/two']) {
    assert.deepEqual(owner(`${root}/app/release${path}`), [0, USER.gid], path);
    assert.equal(mode(`${root}/app/release${path}`), /one|two/.test(path) ? '640' : '750', path);
  }
  assert.deepEqual([owner(`${root}/outside`), mode(`${root}/outside`)], [[0, 0], '600']);
});

test('removing missing directories is no error', NEEDS_USERS, async (t) => {
  const root = temporaryDirectory(t);
  await removeOwnDirectories([`${root}/a`], USER);
  await removeOwnDirectories([`${root}/a`], null);
});
