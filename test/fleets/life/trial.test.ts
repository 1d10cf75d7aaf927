// Runs as root too.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import type { Release } from '../../../bundler/release.ts';
import { trashTrials, tryRelease } from '../../../runtime/fleets/life/trial.ts';
import { CellFilesCache } from '../../../runtime/fleets/process/cell-files.ts';
import { call, entry, makeRelease, startRelease, workerd } from '../../support/fleets/release.ts';
import { temporaryDirectory } from '../../support/temporary.ts';
import { NEEDS_USERS } from '../../support/users.ts';

/** Runs the trial of a release with its scratch directory beside it. */
async function tried(directory: string): Promise<string[]> {
  const root = dirname(directory);
  const directories = { run: `${root}/run/app`, data: `${root}/data` };
  const { trialConfig } = await new CellFilesCache(directories.run, 512).of(directory);
  return tryRelease(
    { workerd, user: null, memoryMb: 512, directories },
    { directory, config: trialConfig, environment: {} },
  );
}

test('a release that loads passes its trial and leaves nothing behind', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, `export default { fetch: () => new Response('') }`);
  await tried(directory);
  assert.deepEqual(readdirSync(directory).sort(), ['app.js', 'release.json']);
  assert.deepEqual(readdirSync(root).sort(), ['r', 'run']);
  assert.deepEqual(readdirSync(`${root}/run`), ['app']);
});

test(
  "a trial under its own user removes that user's files and follows none of its links",
  NEEDS_USERS,
  async (t) => {
    const root = temporaryDirectory(t);
    chmodSync(root, 0o711);
    const { directory } = await makeRelease(`${root}/r`, `export default { fetch: () => new Response('') }`);
    mkdirSync(`${root}/run`);
    chmodSync(`${root}/run`, 0o711);
    mkdirSync(`${root}/others`, { mode: 0o777 });
    chmodSync(`${root}/others`, 0o777);
    writeFileSync(`${root}/others/file`, '');
    writeFileSync(
      `${root}/workerd`,
      `#!/bin/sh
    for word; do case $word in --directory-path=do=*) disk=\${word#*=*=};; esac; done
    mkdir -p "$disk/deep/er" && echo > "$disk/deep/er/file" && ln -s ${root}/others "$disk/link"
    exec ${workerd} "$@"`,
      { mode: 0o755 },
    );
    const user = { uid: 32_000_001, gid: 32_000_001 };
    const place = {
      workerd: `${root}/workerd`,
      user,
      memoryMb: 512,
      directories: { run: `${root}/run/app`, data: `${root}/data` },
    };
    const { trialConfig } = await new CellFilesCache(place.directories.run, 512).of(directory);
    await tryRelease(place, { directory, config: trialConfig, environment: {} });
    assert.deepEqual(readdirSync(`${root}/run`), ['app']);
    assert.deepEqual(readdirSync(`${root}/others`), ['file']);
  },
);

test('trials that a killed host left are removed, and nothing else', (t) => {
  const root = temporaryDirectory(t);
  const [runs, trash] = [`${root}/run`, `${root}/trash`];
  trashTrials({ runs, trash });
  for (const path of ['trial-abcdef/do', 'app']) mkdirSync(`${runs}/${path}`, { recursive: true });
  trashTrials({ runs, trash });
  assert.deepEqual(readdirSync(runs), ['app']);
  assert.match(readdirSync(trash).join(), /^trial-abcdef-\d+$/);
});

const broken: Record<string, [code: string, message: string]> = {
  'a syntax error': [
    'export default {\n  fetch() { return new Response( } }',
    "Uncaught SyntaxError: Unexpected token '}' at app.js:2:33",
  ],
  'an exception at the top level': [
    'throw new Error("top\\nlevel"); export default {}',
    'Uncaught Error: top level at app.js:1:7',
  ],
  'a missing module': [
    'import "./nope.js"; export default {}',
    'Uncaught Error: No such module "nope.js". imported from "app.js"',
  ],
  'a wait that never ends': [
    'await new Promise(() => {}); export default {}',
    'Uncaught Error: Top-level await in module is unsettled.',
  ],
};

for (const [what, [code, message]] of Object.entries(broken)) {
  test(`${what} fails the trial with the error of workerd`, async (t) => {
    const { directory } = await makeRelease(`${temporaryDirectory(t)}/r`, code);
    await assert.rejects(tried(directory), (error: Error) => {
      assert.equal(error.message, message);
      return true;
    });
  });
}

test('a Durable Object class that the entry module does not export fails the trial by name', async (t) => {
  const code = `export default { fetch: () => new Response('') }`;
  const classes = [{ className: 'Room', storageId: 'room', sql: true }];
  const { directory } = await makeRelease(`${temporaryDirectory(t)}/r`, code, { classes });
  await assert.rejects(tried(directory), /^Error: Durable Object class Room is not exported/);
});

const called = {
  triggers: {
    crons: ['* * * * *'],
    producers: [{ binding: 'JOBS', queue: 'jobs' }],
    consumers: [{ queue: 'jobs' }],
  },
};

test('a Worker that crons or queues call needs the handlers for them, in any form', async (t) => {
  const root = temporaryDirectory(t);
  const workerClass = (methods: string) =>
    `import { WorkerEntrypoint } from 'cloudflare:workers'; export default class extends WorkerEntrypoint { ${methods} }`;
  const good = [
    'export default { scheduled() {}, queue() {} }',
    'class App { scheduled() {} queue() {} } export default new App()',
    workerClass('scheduled() {} queue() {}'),
  ];
  for (const [i, code] of good.entries())
    await tried((await makeRelease(`${root}/good-${i}`, code, called)).directory);
  const bad = ['export default { fetch() {} }', workerClass('fetch() {}')];
  for (const [i, code] of bad.entries()) {
    const { directory } = await makeRelease(`${root}/bad-${i}`, code, called);
    await assert.rejects(tried(directory), {
      message:
        'app.js: the default export has no handler scheduled(), which triggers.crons needs; app.js: the default export has no handler queue(), which queues.consumers needs',
    });
  }
});

const IMPORT = `import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';`;
const ADVICE = ': write `export default { fetch(request) {…} }`';

test('a Worker that nothing would call fails the trial, which names its file and what to write', async (t) => {
  const root = temporaryDirectory(t);
  const useless: [code: string, why: string][] = [
    ['export default {}', 'has no handler, so it would answer nothing'],
    ['export default Object.freeze({ featch() {}, words: 1 })', 'has no handler (it has featch, words), so'],
    ['export default { fetch: "text" }; export const words = {}', 'has no handler (it has fetch), so'],
    ['class App { get() {} } export default new App(); export function helper() {}', 'has no handler, so'],
    ['export default (request) => new Response("")', 'is a function, and nothing calls it'],
    [
      'export default class { fetch() {} }',
      'is a class that does not extend WorkerEntrypoint, and nothing calls it',
    ],
    ['export default "text"', 'is not an object with handlers'],
    ['export default null', 'is not an object with handlers'],
    ['export default Promise.resolve({ fetch() {} })', 'has no handler, so'],
    ['export function helper() {} export class Plain {}', 'is missing, and no exported class extends'],
  ];
  for (const [i, [code, why]] of useless.entries()) {
    const worker = { ...entry('app.js'), main: 'src/index.ts' };
    const { directory } = await makeRelease(`${root}/${i}`, code, { worker });
    await assert.rejects(tried(directory), ({ message }: Error) => {
      assert.ok(message.startsWith(`src/index.ts: the default export ${why}`), `${code}: ${message}`);
      assert.ok(message.endsWith(ADVICE), message);
      return true;
    });
  }
});

test('a Worker without fetch() passes its trial with a note if something else of it is called', async (t) => {
  const root = temporaryDirectory(t);
  const classes = [{ className: 'Room', storageId: 'room', sql: true }];
  const useful: [code: string, fields?: Partial<Release>][] = [
    ['export default { scheduled() {} }'],
    ['export default Object.freeze({ email() {} })'],
    [`${IMPORT} export default class extends WorkerEntrypoint { add(a, b) { return a + b; } }`],
    [`${IMPORT} class Base extends WorkerEntrypoint { add() {} } export default class extends Base {}`],
    ['export default {}; export class Room {}', { classes }],
    [`${IMPORT} export default {}; export class Other extends DurableObject {}`],
    ['export class Room {}', { classes, exports: ['Room'] }],
    [`${IMPORT} export class Other extends WorkerEntrypoint {}`, { exports: ['Other'] }],
    ['export default {}; export const admin = { fetch() {} }'],
    [`${IMPORT} export default class Room extends DurableObject {}; export { Room }`, { classes }],
  ];
  for (const [i, [code, fields]] of useful.entries()) {
    const { directory } = await makeRelease(`${root}/${i}`, code, fields);
    const note = 'app.js: no fetch() in the default export: requests to the app are answered 404';
    assert.deepEqual(await tried(directory), [note], code);
    const lines: string[] = [];
    const cell = await startRelease(`${root}/of-${i}`, directory, (line) => lines.push(line));
    const { status, text } = await call(cell.socketPath('http'), '/');
    assert.deepEqual(
      [status, text],
      [404, 'This app answers no requests: its Worker has no fetch() handler.\n'],
      code,
    );
    await cell.stop();
    const errors = lines.filter((line) => line.includes('error'));
    assert.deepEqual(errors, [], 'a visitor is no error');
  }
  const answering = [
    'export default { fetch: () => new Response("yes") }',
    `${IMPORT} export default class extends WorkerEntrypoint { fetch = () => new Response("yes"); }`,
  ];
  for (const [i, code] of answering.entries()) {
    const { directory } = await makeRelease(`${root}/answers-${i}`, code);
    assert.deepEqual(await tried(directory), [], code);
    const cell = await startRelease(`${root}/of-answers-${i}`, directory);
    assert.equal((await call(cell.socketPath('http'), '/')).text, 'yes');
    await cell.stop();
  }
});

test('a cron expression that workerd does not understand fails the trial by name', async (t) => {
  const triggers = { ...called.triggers, crons: ['0 25 * * *'] };
  const code = 'export default { scheduled() {}, queue() {} }';
  const { directory } = await makeRelease(`${temporaryDirectory(t)}/r`, code, { triggers });
  await assert.rejects(tried(directory), {
    message: 'cron trigger "0 25 * * *": hour field has 25 outside 0-23',
  });
});

test('crons do not run during a trial', async (t) => {
  const code = 'export default { scheduled() {}, queue() {} }';
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, code, called);
  const { config, trialConfig } = await new CellFilesCache(`${root}/run`, 512).of(directory);
  const target = (path: string) =>
    /name = "\* \* \* \* \*", service = "(\w+)"/.exec(readFileSync(path, 'utf8'))?.[1];
  assert.equal(target(config), 'app');
  assert.equal(target(trialConfig), 'do', 'a disk, which runs nothing');
});
