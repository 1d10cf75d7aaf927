// What a package manager prints when it fails: its first error sentence becomes the deploy's error.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ShownOutput } from '../../../runtime/builds/commands/shown-output.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

test('the error sentence of each package manager is found, and that of other programs is not', (t) => {
  const directory = temporaryDirectory(t);
  const errorOf = (...lines: string[]) => {
    const output = new ShownOutput(directory, directory);
    for (const line of lines) output.shown(line);
    return output.error;
  };
  const missing = 'https://registry.npmjs.org/a/-/a-1.0.0.tgz';
  assert.equal(
    errorOf('npm error code E404', `npm error 404 Not Found - GET ${missing}`),
    `404 Not Found - GET ${missing}`,
  );
  // Versions up to 8 print spaces, versions 9 and 10 thin spaces.
  for (const start of [' ERR_PNPM_FETCH_404  ', '\u2009ERR_PNPM_FETCH_404\u2009 ', '[ERR_PNPM_FETCH_404] '])
    assert.equal(errorOf(`${start}GET ${missing}: Not Found - 404`), `GET ${missing}: Not Found - 404`);
  // Version 12 prints the sentence over several lines.
  assert.equal(errorOf('Error: ERR_PNPM_FETCH_404', '', '  × installing'), 'ERR_PNPM_FETCH_404');
  assert.equal(errorOf('info x', `error Error: ${missing}: ESOCKETTIMEDOUT`), `${missing}: ESOCKETTIMEDOUT`);
  assert.equal(errorOf('error Error: getaddrinfo ENOTFOUND a.example'), 'getaddrinfo ENOTFOUND a.example');
  const unknown = 'Couldn\'t find package "a" on the "npm" registry.';
  assert.equal(errorOf(`error ${unknown}`), unknown);
  assert.equal(
    errorOf('➤ YN0000: ┌ Resolution step', '➤ YN0035: │ a@npm:^1: Package not found'),
    'a@npm:^1: Package not found',
  );
  assert.equal(errorOf(`error: GET ${missing} - 404`), `GET ${missing} - 404`);
  assert.equal(errorOf('error: a@^1 failed to resolve'), 'a@^1 failed to resolve');
  assert.equal(errorOf('error during build:', 'error: expected one of `;`', '➤ YN0000: · Done'), null);
});

test('a command that fails for lack of a Cloudflare account is told by the variables that it names', (t) => {
  const directory = temporaryDirectory(t);
  const asks = (line: string) => {
    const output = new ShownOutput(directory, directory);
    output.shown(line);
    return output.wantsAccount;
  };
  const wrangler = "it's necessary to set a CLOUDFLARE_API_TOKEN environment variable for wrangler to work.";
  assert.equal(asks(wrangler), true);
  assert.equal(asks('Error: Please set env var CLOUDFLARE_ACCOUNT_ID'), true);
  assert.equal(asks('Error: Please set env var MY_CLOUDFLARE_API_TOKENS'), false);
  assert.equal(asks('CLOUDFLARE_ACCOUNT_ID is not set, so nothing is sent'), false);
});
