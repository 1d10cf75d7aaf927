// What the command line takes from standard input and from variables: values, addresses and tokens.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run } from '../../cli/cli.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('a value from standard input ends before its last line end, also before that of Windows', async (t) => {
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
