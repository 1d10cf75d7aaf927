// The explanation for the user when git cannot fetch a remote repository.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseRemote } from '../../../handlers/contract/source/remote.ts';
import { explanation } from '../../../runtime/builds/source/remote.ts';

test('a fetch by SSH that a user without a name started says what to change', () => {
  const said = ['No user exists for uid 54321', 'fatal: Could not read from remote repository.'];
  assert.match(explanation(said, parseRemote('git@example.com:a/b')!)!, /\/etc\/passwd.*HTTPS/);
});
