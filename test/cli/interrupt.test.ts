// A signal, such as that of Ctrl-C, ends a command line wherever it waits, and a closed standard error does not.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { COMPILE_CACHE_ENV } from '../support/compiled.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const PROGRAM = fileURLToPath(new URL('../../cli/main.mjs', import.meta.url));
/** More bytes than a pipe holds. */
const MANY_BYTES = 8 * 2 ** 20;

/** Writes to standard output fail as after the terminal was closed. */
const CLOSED_TERMINAL = `data:text/javascript,process.stdout.write = () => {
  process.stdout.emit('error', Object.assign(new Error('write EIO'), { code: 'EIO' }));
}`;

/** Starts a command line against a server that never answers. @param flags those of Node */
async function start(t: TestContext, words: string, flags: string[] = []) {
  const server = createServer(() => {}).listen(0, '127.0.0.1');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const home = temporaryDirectory(t);
  const child = spawn(process.execPath, [...flags, PROGRAM, ...words.split(' ')], {
    cwd: home,
    env: {
      ...COMPILE_CACHE_ENV,
      PATH: process.env.PATH,
      HOME: home,
      CELLAR_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      CELLAR_TOKEN: 'x',
    },
  });
  t.after(() => child.kill('SIGKILL'));
  return { child, server };
}

/** Sends a signal to a command line and waits for its end. @returns its exit code, and its output after the signal */
async function interrupt({ child }: Awaited<ReturnType<typeof start>>, signal: NodeJS.Signals = 'SIGINT') {
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
  child.kill(signal);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, printed };
}

for (const [signal, code] of [
  ['SIGINT', 1],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const)
  test(`${signal} ends a command line that waits for the API`, async (t) => {
    const started = await start(t, 'list');
    await once(started.server, 'request');
    assert.deepEqual(await interrupt(started, signal), { code, printed: '' });
  });

test('a command line goes on when its standard error is closed', async (t) => {
  const { child, server } = await start(t, 'list');
  child.stderr.destroy();
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
  response.end('not of Cellar');
  const [code] = await once(child, 'close');
  assert.equal(code, 7);
});

test('a closed terminal ends a command line in order, also without a signal', async (t) => {
  const { child, server } = await start(t, 'logs -f --app shop', ['--import', CLOSED_TERMINAL]);
  const line = { id: '1', at: '2026-10-01T00:00:00.000Z', level: 'info', source: 'app', text: 'hello' };
  const items = [{ ...line, fields: null, trace_id: null, release: null }];
  // The stream is not answered.
  server.on('request', ({ url }, response) => {
    if (!url!.includes('/stream')) response.end(JSON.stringify({ items, next_cursor: null }));
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const [code] = await once(child, 'close');
  assert.deepEqual([code, said], [0, '']);
});

test('an interrupt ends a command line that reads standard input', async (t) => {
  const started = await start(t, 'call apps.list -');
  const { stdin } = started.child;
  stdin.on('error', () => {});
  // Once all bytes have left, the program has read the first ones.
  await new Promise((resolve) => stdin.write(' '.repeat(MANY_BYTES), resolve));
  assert.deepEqual(await interrupt(started), { code: 1, printed: '' });
});
