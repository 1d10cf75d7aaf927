// How git reaches a remote repository, and the explanation when it cannot.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseRemote } from '../../../handlers/contract/source/remote.ts';
import { explanation, settingsFor } from '../../../runtime/builds/source/remote.ts';

test('a fetch by SSH that a user without a name started says what to change', () => {
  const said = ['No user exists for uid 54321', 'fatal: Could not read from remote repository.'];
  assert.match(explanation(said, parseRemote('git@example.com:a/b')!)!, /\/etc\/passwd.*HTTPS/);
});

test('the user that goes with a token is the one that the host expects', () => {
  const userOf = (host: string) => {
    const url = `https://${host}/ada/shop.git`;
    const { [`http.${url}.extraHeader`]: header } = settingsFor(
      { kind: 'https', url, host, port: 443 },
      [],
      'secret',
    );
    return Buffer.from(header!.split(' ').at(-1)!, 'base64').toString();
  };
  assert.equal(userOf('bitbucket.org'), 'x-token-auth:secret');
  assert.equal(userOf('github.com'), 'oauth2:secret');
});
