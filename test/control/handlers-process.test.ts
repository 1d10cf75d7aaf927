// The process of the handlers: runs them, and restarts when it ends; and the errors that callers get when it cannot.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { controlSocket } from '../../runtime/control/config.ts';
import { HandlersProcess } from '../../runtime/control/handlers-process.ts';
import type { HandlersOptions } from '../../runtime/control/miniflare.ts';
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const handlers = (answer: string) => `
  import { DurableObject } from 'cloudflare:workers';
  export class AppObject extends DurableObject {}
  export default { fetch: () => new Response('${answer}') };
`;

function handlersProcess(t: TestContext, workerd = workerdPath()) {
  const directory = join(temporaryDirectory(t), 'control');
  mkdirSync(directory);
  let restarted = Promise.withResolvers<void>();
  const running = new HandlersProcess({ directory, workerd, onRestart: () => restarted.resolve() });
  t.after(() => running.end());
  return {
    running,
    run: (script: string) => running.run(optionsOf(script, directory)),
    answer: () => answerOf(controlSocket(directory)),
    config: join(directory, 'tmp/workerd.bin'),
    /** Kills the process, and waits for the restart. */
    killed: async () => {
      restarted = Promise.withResolvers();
      process.kill(running.pid!, 'SIGKILL');
      await restarted.promise;
    },
  };
}

function optionsOf(script: string, directory: string): HandlersOptions {
  return { script, directory, hostSocket: join(directory, 'host.sock'), secret: 'secret', variables: {} };
}

async function answerOf(socketPath: string): Promise<string> {
  const [response] = await once(request({ socketPath }).end(), 'response');
  return (await response.toArray()).join('');
}

test('handlers run, are replaced, and restart when their process is killed', async (t) => {
  const { running, run, answer, killed } = handlersProcess(t);
  await run(handlers('first'));
  assert.equal(await answer(), 'first');
  await run(handlers('second'));
  assert.equal(await answer(), 'second');
  const { pid } = running;
  await killed();
  assert.equal(await answer(), 'second');
  assert.notEqual(running.pid, pid);
  await running.end();
  assert.equal(running.pid, null);
});

test('a config is made again only for other handlers, or when it is damaged', async (t) => {
  const { run, answer, config } = handlersProcess(t);
  await run(handlers('first'));
  const { mtimeMs } = statSync(config);
  await run(handlers('first'));
  assert.equal(statSync(config).mtimeMs, mtimeMs);
  writeFileSync(config, 'damaged');
  await run(handlers('first'));
  assert.equal(await answer(), 'first');
  await run(handlers('second'));
  assert.equal(await answer(), 'second');
});

test('a process that ended restarts although its config is damaged', async (t) => {
  const { run, answer, config, killed } = handlersProcess(t);
  await run(handlers('yes'));
  writeFileSync(config, 'damaged');
  await killed();
  assert.equal(await answer(), 'yes');
});

test('handlers that do not start are an error with the reason, and later ones run', async (t) => {
  const { running, run, answer } = handlersProcess(t);
  await assert.rejects(run('this is no module'), /workerd ended: .*(Unexpected|SyntaxError)/);
  assert.equal(running.pid, null);
  await run(handlers('yes'));
  assert.equal(await answer(), 'yes');
});

test('a program that cannot be run is an error with the reason', async (t) => {
  const { run } = handlersProcess(t, '/nonexistent/workerd');
  await assert.rejects(run(handlers('never')), /\/nonexistent\/workerd/);
});

test('a config that Miniflare cannot make is an error with the reason', async (t) => {
  const { running, run } = handlersProcess(t);
  const options = optionsOf(handlers('never'), join(temporaryDirectory(t), 'control'));
  mkdirSync(options.directory);
  await assert.rejects(
    running.run({ ...options, variables: { A: 1 as unknown as string } }),
    /Miniflare failed: .*value/s,
  );
  await run(handlers('yes'));
});

test('a start ends with the process', async (t) => {
  const { running, run } = handlersProcess(t);
  const starting = assert.rejects(run(handlers('never')), /the host is stopping/);
  await running.end();
  await starting;
});
