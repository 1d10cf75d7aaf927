import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { tryRelease } from '../../runtime/fleets/trial.ts';
import { temporaryDirectory } from '../temporary.ts';
import { makeRelease, workerd } from './release.ts';

test('a release that loads passes its trial and leaves nothing behind', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, `export default { fetch: () => new Response('') }`);
  const before = process.env.TMPDIR;
  process.env.TMPDIR = root;
  await tryRelease(workerd, directory);
  if (before === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = before;
  assert.deepEqual(readdirSync(directory).sort(), [
    'app.js',
    'cell.capnp',
    'cellar-entry.js',
    'release.json',
  ]);
  assert.deepEqual(readdirSync(root), ['r']);
});

const broken: Record<string, [code: string, message: string]> = {
  'a syntax error': [
    'export default {\n  fetch() { return new Response( } }',
    "service app: Uncaught SyntaxError: Unexpected token '}' at app.js:2:33",
  ],
  'an exception at the top level': [
    'throw new Error("top\\nlevel"); export default {}',
    'service app: Uncaught Error: top level at app.js:1:7',
  ],
  'a missing module': [
    'import "./nope.js"; export default {}',
    'service app: Uncaught Error: No such module "nope.js". imported from "app.js"',
  ],
  'a wait that never ends': [
    'await new Promise(() => {}); export default {}',
    'service app: Uncaught Error: Top-level await in module is unsettled.',
  ],
};

for (const [what, [code, message]] of Object.entries(broken)) {
  test(`${what} fails the trial with workerd's own words`, async (t) => {
    const { directory } = await makeRelease(`${temporaryDirectory(t)}/r`, code);
    await assert.rejects(tryRelease(workerd, directory), (error: Error) => {
      assert.equal(error.message, message);
      return true;
    });
  });
}

test('a Durable Object class that the entry module does not export fails the trial by name', async (t) => {
  const code = `export default { fetch: () => new Response('') }`;
  const classes = [{ className: 'Room', storageId: 'room', sql: true }];
  const { directory } = await makeRelease(`${temporaryDirectory(t)}/r`, code, { classes });
  await assert.rejects(tryRelease(workerd, directory), /^Error: Durable Object class Room is not exported/);
});
