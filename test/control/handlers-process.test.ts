// The process of the handlers: it restarts when it ends, and callers get an error when it cannot start.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { CONFIG, controlSocket } from '../../runtime/control/config.ts';
import { type Handlers, HandlersProcess } from '../../runtime/control/handlers-process.ts';
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const handlers = (answer: string) => `
  import { DurableObject } from 'cloudflare:workers';
  export class AppObject extends DurableObject {}
  export class HostsObject extends DurableObject {}
  export default { fetch: () => new Response('${answer}') };
`;

function handlersProcess(t: TestContext, workerd = workerdPath()) {
  const root = temporaryDirectory(t);
  const directory = join(root, 'control');
  mkdirSync(directory);
  let restarted = Promise.withResolvers<void>();
  const running = new HandlersProcess({
    directory,
    workerd,
    trash: join(root, 'trash'),
    cluster: null,
    onRestart: () => restarted.resolve(),
  });
  t.after(() => running.end());
  return {
    running,
    run: (script: string) => running.run(handlersOf(script, directory)),
    answer: () => answerOf(controlSocket(directory)),
    config: join(directory, CONFIG),
    /** Kills the process, and waits for the restart. */
    killed: async () => {
      restarted = Promise.withResolvers();
      process.kill(running.pid!, 'SIGKILL');
      await restarted.promise;
    },
  };
}

function handlersOf(script: string, directory: string): Handlers {
  return { script, hostSocket: join(directory, 'host.sock'), variables: { HOST_SECRET: 'secret' } };
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

test('a process that ended restarts although its config is damaged', async (t) => {
  const { run, answer, config, killed } = handlersProcess(t);
  await run(handlers('yes'));
  writeFileSync(config, 'damaged');
  await killed();
  assert.equal(await answer(), 'yes');
});

test('handlers that do not start are an error with the reason, and later ones run', async (t) => {
  const { running, run, answer } = handlersProcess(t);
  await assert.rejects(run('this is no module'), /Unexpected|SyntaxError/);
  assert.equal(running.pid, null);
  await run(handlers('yes'));
  assert.equal(await answer(), 'yes');
});

test('a program that cannot be run is an error with the reason', async (t) => {
  const { run } = handlersProcess(t, '/nonexistent/workerd');
  await assert.rejects(run(handlers('never')), /\/nonexistent\/workerd/);
});

test('a start ends with the process', async (t) => {
  const { running, run } = handlersProcess(t);
  const starting = assert.rejects(run(handlers('never')), /the host is stopping/);
  await running.end();
  await starting;
});
