// Deploy keys in the formats of OpenSSH.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fingerprints, makeDeployKey } from '../../runtime/sources/keys.ts';
import { temporaryDirectory } from '../support/temporary.ts';

/** Whether this user has a name. OpenSSH refuses to run as a user without one. */
function hasName(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}

test('OpenSSH reads a deploy key, finds its public part, and signs with it', {
  skip: hasName() ? false : 'this user has no name',
}, (t) => {
  const directory = temporaryDirectory(t);
  for (const comment of ['cellar-a', 'cellar-shop', 'cellar-a-longer-name']) {
    const { publicKey, privateKey } = makeDeployKey(comment);
    const file = join(directory, comment);
    writeFileSync(file, privateKey, { mode: 0o600 });
    assert.equal(execFileSync('ssh-keygen', ['-y', '-f', file], { encoding: 'utf8' }).trim(), publicKey);
    const words = ['-Y', 'sign', '-n', 'test', '-f', file];
    assert.match(execFileSync('ssh-keygen', words, { input: 'x', encoding: 'utf8' }), /BEGIN SSH SIGNATURE/);
    const listed = execFileSync('ssh-keygen', ['-l', '-f', file], { encoding: 'utf8' });
    const [shown] = fingerprints([`host ${publicKey}`]);
    assert.equal(shown!.type, 'ssh-ed25519');
    assert.ok(listed.includes(shown!.fingerprint), `${listed} has ${shown!.fingerprint}`);
  }
});
