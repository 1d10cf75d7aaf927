import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { call, makeRelease, startRelease } from '../../support/fleets/release.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

test('workerd reads back every string unchanged', async (t) => {
  const root = temporaryDirectory(t);
  const hostile = [
    '"',
    '\\',
    '\\"',
    '") , (name = "x',
    '#',
    '\n',
    '\r\n',
    '\0',
    '\x7f',
    'é',
    '😀',
    '\u2028',
    '',
    "'",
  ];
  const unit = fc.oneof(fc.constantFrom(...hostile), fc.string({ unit: 'binary' }));
  const strings = fc.sample(fc.array(unit, { maxLength: 8 }), 300).map((parts) => parts.join(''));
  const expected: Record<string, unknown> = {};
  for (const [index, text] of [...hostile, ...strings].entries()) {
    expected[`text ${index} ${text}`] = text;
    expected[`json ${index}`] = { [text]: [text, index, null, true] };
  }
  const code = `export default { fetch: (request, env) => Response.json(env) }`;
  const { directory } = await makeRelease(`${root}/r`, code, { vars: expected });

  const cell = await startRelease(root, directory);
  t.after(() => cell.stop());
  const { text } = await call(cell.socketPath('http'), '/');
  const actual = JSON.parse(text);
  assert.deepEqual(Object.keys(actual).sort(), Object.keys(expected).sort());
  for (const [name, value] of Object.entries(expected)) assert.deepEqual(actual[name], value);
});
