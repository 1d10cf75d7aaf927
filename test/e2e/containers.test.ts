// A pushed app whose Durable Objects have containers, by a real Podman.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { bundled } from '../support/browser/bundled.ts';
import { noEngine, TestEngine } from '../support/containers/engine.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';

/** An address of this machine that the operator opens to apps. */
const ALLOWED = '127.0.0.2';
const CALL_MS = 60_000;

/** The program that runs in the container. */
const PROGRAM = `
const { createServer } = require('node:http');
const { readFileSync, writeFileSync } = require('node:fs');
const answers = {
  '/hello': () => 'hello from ' + process.env.NAME,
  '/words': () => JSON.stringify(process.argv.slice(2)),
  '/status': () => readFileSync('/proc/self/status', 'utf8'),
  '/networks': () => JSON.stringify(Object.keys(require('node:os').networkInterfaces())),
  '/processes': () => JSON.stringify(require('node:fs').readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))),
  '/mounts': () => readFileSync('/proc/mounts', 'utf8'),
  '/write': (path) => { writeFileSync(path, 'x'); return 'written'; },
  '/leave': (code) => { setTimeout(() => process.exit(Number(code)), 50); return 'ends'; },
  '/get': async (url) => (await fetch(url)).text(),
  '/connect': (address) => new Promise((resolve) => {
    const [host, port] = address.split(' ');
    require('node:net').connect({ host, port }, () => resolve('connected')).on('error', ({ code }) => resolve(code));
  }),
  '/proxy': (target) => new Promise((resolve) => {
    const asked = require('node:http').request({ host: '127.0.0.1', port: 39001, method: 'CONNECT', path: target });
    asked.on('connect', ({ statusCode }) => resolve(String(statusCode))).end();
  }),
  '/fork': () => new Promise((resolve) => {
    const more = () => {
      const child = require('node:child_process').spawn('/bin/sleep', ['60'], { stdio: 'ignore' });
      child.on('error', ({ code }) => resolve(code)).on('spawn', more);
    };
    more();
  }),
  '/eat': () => { const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1)); },
};
// The first process of a container ignores signals without a handler.
process.on('SIGTERM', () => process.exit());
createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://x');
  try {
    response.end(await answers[pathname](searchParams.get('value')));
  } catch (error) {
    response.writeHead(500).end(String(error.cause ?? error.message ?? error));
  }
}).on('upgrade', (request, socket) => {
  const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = require('node:crypto').createHash('sha1').update(key).digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nupgrade: websocket\\r\\nconnection: upgrade\\r\\nsec-websocket-accept: ' + accept + '\\r\\n\\r\\n');
  // Answers a short message with itself in capitals.
  socket.on('data', (frame) => {
    const text = frame.subarray(6).map((byte, n) => byte ^ frame[2 + (n % 4)]).toString().toUpperCase();
    if (frame[0] === 0x81) socket.write(Buffer.concat([Buffer.of(0x81, text.length), Buffer.from(text)]));
    else socket.end();
  });
}).listen(8080, '127.0.0.1');
`;
const RUN = { entrypoint: ['/bin/node', '/server.js', 'a b'], env: { NAME: 'the container' } };

describe('containers of Durable Objects', { skip: noEngine }, () => {
  const engine = new TestEngine();
  let cellar: Cellar;
  let boxes = '';
  let shop = '';
  const answer: RequestListener = (request, response) => response.end(`page for ${request.headers.host}`);
  const pages = createServer(answer);
  const port = () => (pages.address() as AddressInfo).port;
  const tlsPages = createTlsServer(answer);
  const tlsPort = () => (tlsPages.address() as AddressInfo).port;

  before(async () => {
    const [key, cert] = [join(engine.directory, 'key'), join(engine.directory, 'cert')];
    const made = ['-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=pages', '-keyout', key, '-out', cert];
    execFileSync('openssl', ['req', '-x509', ...made], { stdio: 'ignore' });
    tlsPages.setSecureContext({ key: readFileSync(key), cert: readFileSync(cert) });
    for (const server of [pages, tlsPages]) {
      server.listen(0);
      await once(server, 'listening');
    }
    await engine.start(PROGRAM);
    cellar = new Cellar({ RUNNER_CONTAINER_ENGINE: engine.url, RUNNER_EGRESS_ALLOW: ALLOWED });
    await cellar.start();
    boxes = await cellar.deploy('boxes', 'container');
    shop = await cellar.deploy('shop', 'container-package', await bundled('container-package'));
  });
  after(async () => {
    await cellar?.[Symbol.asyncDispose]();
    await engine.close();
    for (const server of [pages, tlsPages]) server.close();
  });

  const open = async (path: string, { body, box = 'one' }: { body?: object; box?: string } = {}) => {
    const response = await cellar.open('boxes', path, {
      signal: AbortSignal.timeout(CALL_MS),
      headers: { box },
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
    });
    return response.text();
  };
  const start = (options: object = {}, box?: string) =>
    open('/start', { body: { ...RUN, ...options }, ...(box !== undefined && { box }) });
  const ask = (path: string, value = '', box?: string) =>
    open(`${path}?value=${encodeURIComponent(value)}`, box === undefined ? {} : { box });
  const visit = async (path: string) =>
    (await cellar.open('shop', path, { signal: AbortSignal.timeout(CALL_MS) })).text();
  const logged = (words: RegExp) =>
    eventually(async () => {
      const { body } = await cellar.call('GET', `/v1/apps/${boxes}/logs?level=warn`);
      return body.items.some(({ text }: { text: string }) => words.test(text));
    }, `${words} in the log of the app`);
  const none = () => eventually(() => engine.running().length === 0, 'the end of all containers');

  test('start, answer at their ports, and end', async () => {
    assert.equal(await open('/running'), 'false');
    assert.equal(await start(), 'started');
    assert.equal(await ask('/hello'), 'hello from the container');
    assert.deepEqual(JSON.parse(await ask('/words')), ['a b']);
    assert.equal(await open('/running'), 'true');
    assert.match(await open('/hello?port=8081'), /not listening/);
    const socket = cellar.webSocket('boxes', '/socket');
    socket.addEventListener('open', () => socket.send('words'));
    const [{ data }] = await once(socket, 'message', { signal: AbortSignal.timeout(CALL_MS) });
    assert.equal(data, 'WORDS');
    socket.close();
    assert.equal(await ask('/leave', '3'), 'ends');
    assert.equal(await open('/exit'), 'exit 3');
    assert.equal(await open('/running'), 'false');
    // A new container takes the place of the ended one.
    await start({ env: { NAME: 'another' } });
    assert.equal(await ask('/hello'), 'hello from another');
    assert.equal(await open('/destroy'), 'destroyed');
    await none();
  });

  test('have few rights, and only what their class says', async () => {
    await start();
    const status = await ask('/status');
    assert.match(status, /NoNewPrivs:\s+1/);
    assert.match(status, /Seccomp:\s+2/);
    assert.match(status, /CapBnd:\s+00000000000004fb/);
    assert.deepEqual(JSON.parse(await ask('/networks')), ['lo']);
    assert.deepEqual(JSON.parse(await ask('/processes')), ['1']);
    assert.match(await ask('/write', '/file'), /EROFS/);
    assert.equal(await ask('/write', '/tmp/file'), 'written');
    assert.doesNotMatch(await ask('/mounts'), /sockets|podman\.sock|cellar-e2e/);
    await ask('/eat');
    assert.equal(await open('/exit'), 'exit 137');
    await open('/destroy');
  });

  test('reach only what their app may, and only when it says so', async () => {
    const page = `http://${ALLOWED}:${port()}/`;
    await start();
    assert.match(await ask('/get', page), /not open to containers/);
    await open('/destroy');
    const env = { ...RUN.env, NODE_TLS_REJECT_UNAUTHORIZED: '0' };
    await start({ enableInternet: true, env });
    assert.equal(await ask('/get', page), `page for ${ALLOWED}:${port()}`);
    assert.equal(await ask('/get', `https://${ALLOWED}:${tlsPort()}/`), `page for ${ALLOWED}:${tlsPort()}`);
    for (const closed of [
      `http://127.0.0.3:${port()}/`,
      `https://127.0.0.3:${tlsPort()}/`,
      'http://169.254.169.254/',
      `${cellar.api}/api/v1/apps`,
    ])
      assert.doesNotMatch(await ask('/get', closed), /page for|slug/, closed);
    await open('/destroy');
  });

  test('cannot leave their network, nor take the machine, by attacks', async () => {
    await start({ enableInternet: true });
    // The only way out is the proxy, which refuses this machine, metadata and Cellar's own ports.
    const apiPort = new URL(cellar.api).port;
    assert.equal(await ask('/connect', `${ALLOWED} ${port()}`), 'ECONNREFUSED');
    assert.equal(await ask('/connect', '192.0.2.1 80'), 'ENETUNREACH');
    assert.equal(await ask('/proxy', `${ALLOWED}:${port()}`), '200');
    for (const closed of [
      `127.0.0.1:${apiPort}`,
      `localhost:${apiPort}`,
      '[::1]:80',
      '169.254.169.254:80',
      '[::ffff:127.0.0.1]:80',
      'x',
      '',
    ])
      assert.equal(await ask('/proxy', closed), '403', closed);
    assert.equal(await ask('/fork'), 'EAGAIN');
    await open('/destroy');
    await none();
    // Too long a command line or too many variables fail the start. A later start works.
    await start({ entrypoint: ['/bin/node', 'x'.repeat(70_000)] });
    assert.match(await open('/exit'), /failed to start/);
    await logged(/may have at most 65536 bytes/);
    await start({ env: Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`V${n}`, ''])) });
    assert.match(await open('/exit'), /failed to start/);
    await none();
    assert.equal(await start(), 'started');
    assert.equal(await ask('/hello'), 'hello from the container');
    await open('/destroy');
  });

  test('work by the class of @cloudflare/containers, which calls hooks and lets them sleep', async () => {
    assert.equal(await visit('/hello'), 'hello from the package');
    assert.equal(await visit('/state'), 'healthy');
    assert.equal(engine.running().length, 2);
    await none();
    await eventually(async () => /^ start stop \d+$/.test(await visit('/hooks')), 'the hook onStop');
    assert.equal(await visit('/hello'), 'hello from the package');
    await none();
  });

  test('are refused beyond the limits of their class, and with other calls', async () => {
    const names = ['first', 'second', 'third', 'fourth'];
    await Promise.all(names.map((box) => start({}, box)));
    const running = () => Promise.all(names.map((box) => open('/running', { box })));
    const count = async () => (await running()).filter((each) => each === 'true').length;
    await eventually(async () => (await count()) === 2, 'two containers run');
    await logged(/2 containers of this class run already: stop one, or raise max_instances/);
    const left = names[(await running()).indexOf('true')]!;
    assert.equal(await ask('/hello', '', left), 'hello from the container');
    for (const box of names) await open('/destroy', { box });
    await none();
    await start({ image: 'localhost/missing:1' });
    assert.match(await open('/exit'), /failed to start/);
    await logged(/no image localhost\/missing:1/);
  });

  test('end with the process of their app, and with Cellar', async () => {
    await start();
    assert.equal(await ask('/hello'), 'hello from the container');
    await cellar.deployAgain('boxes', 'container');
    await none();
    await start();
    assert.equal(await ask('/hello'), 'hello from the container');
    assert.equal(engine.running().length, 2);
    await open('/abort');
    await none();
    await start();
    assert.equal(await ask('/hello'), 'hello from the container');
    await cellar.call('PATCH', `/v1/apps/${boxes}`, { desired_state: 'stopped' });
    await none();
    await cellar.call('PATCH', `/v1/apps/${boxes}`, { desired_state: 'running' });
    assert.equal(await visit('/hello'), 'hello from the package');
    assert.equal((await cellar.call('DELETE', `/v1/apps/${shop}`)).status, 204);
    await none();
    await start();
    assert.equal(await ask('/hello'), 'hello from the container');
    await cellar.stop('SIGKILL');
    await cellar.start();
    // Cellar's start removes the old containers before an app wakes.
    await none();
    await start();
    assert.equal(await ask('/hello'), 'hello from the container');
    assert.equal(engine.running().length, 2);
    await cellar.stop();
    assert.deepEqual(engine.running(), []);
  });
});
