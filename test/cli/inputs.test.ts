// What the command line takes from standard input and from variables: values, addresses and tokens.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run } from '../../cli/cli.ts';
import { CellarClient } from '../../client/index.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('a value from standard input loses its last line end, also one of Windows', async (t) => {
  const home = temporaryDirectory(t);
  const stored = async (input: string) => {
    let value: unknown;
    const place = {
      ...{ folder: home, root: home, env: { CELLAR_URL: 'http://a.test', CELLAR_TOKEN: 'x', HOME: home } },
      ...{ isTerminal: false, out() {}, say() {}, input: async () => input },
      signal: new AbortController().signal,
    };
    const call = async (_: string, params: object) => {
      ({ value } = params as { value: unknown });
      return { name: 'TOKEN' };
    };
    await run(['secrets', 'set', 'TOKEN', '--app', 'shop'], place, () => ({ call }) as never);
    return value;
  };
  for (const [input, value] of [
    ['a\n', 'a'],
    ['a\r\n', 'a'],
    ['a\nb\n\n', 'a\nb\n'],
    ['a\r', 'a\r'],
  ])
    assert.equal(await stored(input!), value);
});

test('an address or a token that cannot be sent is refused, and the error shows no stack trace and no password', async (t) => {
  const home = temporaryDirectory(t);
  const cli = async (words: string[], variables: Record<string, string>, input = '') => {
    let said = '';
    const place = {
      ...{ folder: home, root: home, env: { HOME: home, ...variables }, isTerminal: false, out() {} },
      say: (text: string) => {
        said += text;
      },
      input: async () => input,
      signal: AbortSignal.timeout(60_000),
    };
    const code = await run(words, place, (login) => new CellarClient(login));
    return { code, said };
  };
  const url = 'http://127.0.0.1:1';
  for (const wrong of [
    'https://ada:hunter2@a.test',
    'ada:hunter2@a.test',
    'https:///ada:hunter2@a.test',
    'https://ada:hunter2@a test',
    'hunter2@a.test',
    'ada:1/hunter2@a.test',
  ])
    for (const words of [['list'], ['login']]) {
      const { code, said } = await cli(words, { CELLAR_URL: wrong, CELLAR_TOKEN: 'x' });
      assert.equal(code, 2, said);
      assert.match(said, /^cellar: CELLAR_URL has a user name or a password/);
      assert.doesNotMatch(said, /hunter2/);
    }
  const withoutScheme = await cli(['list'], { CELLAR_URL: 'a.test/@team', CELLAR_TOKEN: 'x' });
  assert.match(withoutScheme.said, /needs a scheme, as in https:\/\/a\.test\/@team\.$/m);
  const token = 'cellar_\u200bhunter2';
  for (const { code, said } of [
    await cli(['list'], { CELLAR_URL: url, CELLAR_TOKEN: token }),
    await cli(['login', url], { CELLAR_TOKEN: token }),
    await cli(['login', url], {}, token),
  ]) {
    assert.equal(code, 3, said);
    assert.match(said, /^cellar: The token .*\nNext: cellar login\n$/);
    assert.doesNotMatch(said, /hunter2/);
  }
  const unreached = await cli(['list'], { CELLAR_URL: url, CELLAR_TOKEN: 'x\r\n' });
  assert.equal(unreached.code, 7, 'a line end after a token is not a part of it');
  // A token of spaces is none.
  const blank = await cli(['list'], { CELLAR_URL: url, CELLAR_TOKEN: ' ' });
  assert.equal(blank.code, 3, blank.said);
  assert.match(blank.said, /CELLAR_TOKEN is not set/);
  assert.equal(
    (await cli(['login', url], { CELLAR_TOKEN: ' ' }, 'x')).code,
    7,
    'the token is read from the input',
  );
});
