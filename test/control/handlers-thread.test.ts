// Miniflare in its thread: running handlers, and the errors that callers get when it cannot.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { HandlersThread } from '../../runtime/control/handlers-thread.ts';
import type { HandlersOptions } from '../../runtime/control/miniflare.ts';
import { controlSocket, runtimePid, writeRuntimeProgram } from '../../runtime/control/runtime-program.ts';
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { until } from '../../runtime/threads/until.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const DEADLINE_MS = 60_000;

const handlers = (answer: string) => `
  import { DurableObject } from 'cloudflare:workers';
  export class AppObject extends DurableObject {}
  export default { fetch: () => new Response('${answer}') };
`;

/** Makes a thread, and the options of a run in it. `program` replaces workerd. */
function threadOf(t: TestContext, program?: string, onRestart = () => {}) {
  const directory = join(temporaryDirectory(t), 'control');
  mkdirSync(directory);
  const ended = Promise.withResolvers<void>();
  const thread = new HandlersThread({
    program: program ?? writeRuntimeProgram(directory, workerdPath()),
    temporary: join(directory, 'tmp'),
    onRestart,
    onEnd: ended.resolve,
  });
  t.after(() => thread.end());
  const options = (script: string): HandlersOptions => ({
    script,
    directory,
    hostSocket: join(directory, 'host.sock'),
    secret: 'secret',
    variables: {},
  });
  return { thread, options, directory, ended: ended.promise };
}

async function answerOf(socketPath: string): Promise<string> {
  const [response] = await once(request({ socketPath }).end(), 'response');
  return (await response.toArray()).join('');
}

test('handlers run, are replaced, and end with their thread, and Miniflare is loaded nowhere else', async (t) => {
  const { thread, options, directory, ended } = threadOf(t);
  const socket = controlSocket(directory);
  await thread.run(options(handlers('first')));
  assert.equal(await answerOf(socket), 'first');
  await thread.run(options(handlers('second')));
  assert.equal(await answerOf(socket), 'second');
  assert.notEqual(runtimePid(), null);
  const loaded = Object.keys(createRequire(import.meta.url).cache);
  assert.deepEqual(
    loaded.filter((path) => path.includes('/miniflare/')),
    [],
  );
  await thread.end();
  await ended;
  assert.equal(runtimePid(), null);
});

test('callers that wait for handlers get an error when their process or thread ends', async (t) => {
  const directory = temporaryDirectory(t);
  const program = join(directory, 'program');
  const started = join(directory, 'started');
  writeFileSync(program, '#!/bin/sh\nexit 1\n', { mode: 0o700 });
  const { thread, options } = threadOf(t, program);
  await assert.rejects(
    thread.run(options(handlers('never'))),
    /ended before it had read its configuration|EPIPE/,
  );
  writeFileSync(
    program,
    `#!/bin/sh\necho $$ > ${started}.new\nmv ${started}.new ${started}\nexec sleep 60\n`,
    { mode: 0o700 },
  );
  const waiting = thread.run(options(handlers('never')));
  const refused = assert.rejects(waiting, /thread|disposed|ended/);
  assert.ok(await until(() => existsSync(started), { everyMs: 5, timeoutMs: DEADLINE_MS }));
  const pid = Number(readFileSync(started, 'utf8'));
  await thread.end();
  process.kill(pid, 'SIGKILL');
  await refused;
  assert.ok(thread.ended);
  await assert.rejects(thread.run(options(handlers('never'))), /its thread has ended/);
});

test('handlers that Miniflare is restarting are not started a second time, however long that takes', async (t) => {
  const directory = temporaryDirectory(t);
  const [program, runs, go] = ['program', 'runs', 'go'].map((name) => join(directory, name)) as [
    string,
    string,
    string,
  ];
  const real = writeRuntimeProgram(directory, workerdPath());
  const wait = `echo run >> ${runs}; until [ -e ${go} ]; do sleep 0.02; done`;
  writeFileSync(program, `#!/bin/sh\n${wait}; exec ${real} "$@"\n`, { mode: 0o700 });
  writeFileSync(go, '');
  let restarts = 0;
  const { thread, options } = threadOf(t, program, () => {
    restarts++;
  });
  const answering = options(handlers('yes'));
  await thread.run(answering);
  rmSync(go);
  process.kill(runtimePid()!, 'SIGKILL');
  const started = () => readFileSync(runs, 'utf8').trim().split('\n').length;
  assert.ok(await until(() => started() === 2, { everyMs: 5, timeoutMs: DEADLINE_MS }));
  const again = thread.run(answering, true);
  writeFileSync(go, '');
  await again;
  assert.equal(await answerOf(controlSocket(directory)), 'yes');
  assert.deepEqual([started(), restarts], [2, 1]);
});
