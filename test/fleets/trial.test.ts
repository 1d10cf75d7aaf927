import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { tryRelease } from '../../runtime/fleets/trial.ts';
import { temporaryDirectory } from '../temporary.ts';
import { makeRelease, workerd } from './release.ts';

test('a release that loads passes its trial and leaves nothing behind', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, `export default { fetch: () => new Response('') }`);
  const before = process.env.TMPDIR;
  process.env.TMPDIR = root;
  await tryRelease({ workerd, user: null }, directory);
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
    await assert.rejects(tryRelease({ workerd, user: null }, directory), (error: Error) => {
      assert.equal(error.message, message);
      return true;
    });
  });
}

test('a Durable Object class that the entry module does not export fails the trial by name', async (t) => {
  const code = `export default { fetch: () => new Response('') }`;
  const classes = [{ className: 'Room', storageId: 'room', sql: true }];
  const { directory } = await makeRelease(`${temporaryDirectory(t)}/r`, code, { classes });
  await assert.rejects(
    tryRelease({ workerd, user: null }, directory),
    /^Error: Durable Object class Room is not exported/,
  );
});

const called = {
  triggers: {
    crons: ['* * * * *'],
    producers: [{ binding: 'JOBS', queue: 'jobs' }],
    consumers: [{ queue: 'jobs' }],
  },
};

test('a Worker that crons or queues are to call needs the handlers for that, however it is written', async (t) => {
  const root = temporaryDirectory(t);
  const workerClass = (methods: string) =>
    `import { WorkerEntrypoint } from 'cloudflare:workers'; export default class extends WorkerEntrypoint { ${methods} }`;
  const good = [
    'export default { scheduled() {}, queue() {} }',
    'class App { scheduled() {} queue() {} } export default new App()',
    workerClass('scheduled() {} queue() {}'),
  ];
  for (const [i, code] of good.entries())
    await tryRelease(
      { workerd, user: null },
      (await makeRelease(`${root}/good-${i}`, code, called)).directory,
    );
  const bad = ['export default { fetch() {} }', workerClass('fetch() {}')];
  for (const [i, code] of bad.entries()) {
    const { directory } = await makeRelease(`${root}/bad-${i}`, code, called);
    await assert.rejects(tryRelease({ workerd, user: null }, directory), {
      message:
        "The Worker's default export has no handler scheduled(), which triggers.crons needs; The Worker's default export has no handler queue(), which queues.consumers needs",
    });
  }
});

test('a cron expression that workerd does not understand fails the trial by name', async (t) => {
  const triggers = { ...called.triggers, crons: ['0 25 * * *'] };
  const code = 'export default { scheduled() {}, queue() {} }';
  const { directory } = await makeRelease(`${temporaryDirectory(t)}/r`, code, { triggers });
  await assert.rejects(tryRelease({ workerd, user: null }, directory), {
    message: 'cron trigger "0 25 * * *": hour field has 25 outside 0-23',
  });
});

test('no cron calls a Worker on trial', async (t) => {
  const code = 'export default { scheduled() {}, queue() {} }';
  const { directory } = await makeRelease(`${temporaryDirectory(t)}/r`, code, called);
  const target = (config: string) =>
    /name = "\* \* \* \* \*", service = "(\w+)"/.exec(readFileSync(`${directory}/${config}`, 'utf8'))?.[1];
  assert.equal(target('cell.capnp'), 'app');
  assert.equal(target('trial.capnp'), 'do', 'a disk, which runs nothing');
});
