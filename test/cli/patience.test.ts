// Requests of the command line that may take longer than Node's `fetch` waits for an answer.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { run } from '../../cli/cli.ts';
import { COMPILE_CACHE_ENV } from '../support/compiled.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const APP = { id: 'a', slug: 'shop', owner: 'o' };
const BUILDS = { root_directory: null, install_command: null, build_command: null, output_directory: null };

/** Runs a command line against a server that answers after the timeout of `fetch`, which is short here. */
async function withSlowServer(t: TestContext, words: string[], status: number, answer: object) {
  const before = getGlobalDispatcher();
  setGlobalDispatcher(new Agent({ headersTimeout: 50 }));
  t.after(() => setGlobalDispatcher(before));
  let sent = '';
  const server = createServer(async (request, response) => {
    if (request.url === '/never') return;
    sent += `${request.method} ${request.url}\n`;
    for await (const part of request) sent += part;
    await assert.rejects(fetch(`${url}/never`), { message: 'fetch failed' });
    response.writeHead(status).end(JSON.stringify(answer));
  }).listen(0, '127.0.0.1');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const folder = temporaryDirectory(t);
  writeFileSync(join(folder, 'index.js'), 'export default { fetch: () => new Response("x") };');
  const config = { name: 'shop', main: 'index.js', compatibility_date: '2026-10-01' };
  writeFileSync(join(folder, 'wrangler.json'), JSON.stringify(config));
  let said = '';
  const code = await run(
    words,
    {
      ...{ folder, root: ROOT, isTerminal: false, out() {}, input: async () => '' },
      env: {
        ...{ ...COMPILE_CACHE_ENV, PATH: process.env.PATH, HOME: folder },
        ...{ CELLAR_URL: url, CELLAR_TOKEN: 'x' },
      },
      say: (text) => {
        said += text;
      },
      signal: AbortSignal.timeout(60_000),
    },
    () => ({ call: async (name: string) => (name === 'builds.get' ? BUILDS : APP) }) as never,
  );
  return { code, said, sent };
}

test('an upload waits until the deploy has ended', async (t) => {
  const answer = { success: false, errors: [{ message: 'It did not start.' }] };
  const { code, said, sent } = await withSlowServer(t, ['deploy', '--upload'], 400, answer);
  assert.match(said, /\ncellar: It did not start\.\n/);
  assert.equal(code, 1);
  assert.match(sent, /^PUT \/client\/v4\/accounts\/o\/workers\/scripts\/shop\n/);
  assert.match(sent, /name="metadata"\r\n\r\n\{"cellar_bundle"/);
  assert.match(sent, /name="modules\/index\.js"; filename="index\.js"/);
});

test('a copy of the data waits until Cellar has made it', async (t) => {
  const problem = { status: 403, code: 'forbidden', detail: 'You may not.' };
  const { code, said } = await withSlowServer(t, ['dev', '--remote-data'], 403, problem);
  assert.match(said, /^Copying the data of shop\ncellar: You may not\.\n/);
  assert.equal(code, 5);
});

test('a long call uses the proxy that Node’s variables name', async (t) => {
  const problem = { status: 403, code: 'forbidden', detail: 'You may not.' };
  const proxy = createServer((_, response) => {
    response.writeHead(403, { connection: 'close' }).end(JSON.stringify(problem));
  });
  proxy.on('connect', (_, socket) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    proxy.emit('connection', socket);
  });
  proxy.listen(0, '127.0.0.1');
  t.after(() => proxy.close());
  await once(proxy, 'listening');
  const child = spawn(process.execPath, [join(ROOT, 'cli', 'main.mjs'), 'call', 'admin.snapshot', '{}'], {
    env: {
      ...{ ...COMPILE_CACHE_ENV, HOME: temporaryDirectory(t), NODE_USE_ENV_PROXY: '1' },
      http_proxy: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
      ...{ CELLAR_URL: 'http://cellar.invalid', CELLAR_TOKEN: 'x' },
    },
  });
  t.after(() => child.kill('SIGKILL'));
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  await once(child, 'close');
  assert.match(said, /^cellar: You may not\.\n/);
});
