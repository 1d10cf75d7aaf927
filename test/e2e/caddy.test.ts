// A Cellar with its real Caddy: TLS, what apps see of it, WebSockets, and shutdown.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { type EventEmitter, once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect } from 'node:tls';
import { Agent, fetch, WebSocket } from 'undici';
import { Cellar } from '../support/e2e/cellar.ts';
import { NameServer } from '../support/edge/name-server.ts';
import { descendants, eventually, processes } from '../support/processes.ts';

const skip = spawnSync('caddy', ['version']).error ? 'Caddy is not installed: apt-get install caddy' : false;
const ECHO = `
export default {
  fetch(request) {
    const { url, headers, cf } = request;
    if (new URL(url).pathname === '/held') {
      const { readable, writable } = new IdentityTransformStream();
      const writer = writable.getWriter();
      writer.write(new Uint8Array(1)).then(() => scheduler.wait(600_000)).then(() => writer.close());
      return new Response(readable);
    }
    const text = ['x-forwarded-proto', 'x-forwarded-host', 'cf-connecting-ip'].map((name) => headers.get(name));
    const path = headers.get('x-forwarded-for');
    return new Response([url, ...text, JSON.stringify(cf), path, 'x'.repeat(2000)].join('\\n'));
  },
};
`;

const nameServer = new NameServer();
const settings = {
  RUNNER_EDGE: 'caddy',
  RUNNER_DOMAIN_PROOF: 'on',
  NODE_OPTIONS: `--import=${new URL('../support/edge/ask-name-server.js', import.meta.url)}`,
  TEST_NAME_SERVER: '',
};
const cellar = new Cellar(settings);
/** Trusts the certificate authority of this Cellar's Caddy, and resolves names below localhost. */
let agent: Agent;
let rootCertificate: string;
const ids = new Map<string, string>();

before(async () => {
  if (skip !== false) return;
  settings.TEST_NAME_SERVER = (await nameServer.listen()).address;
  await cellar.start();
  rootCertificate = readFileSync(join(cellar.data, 'caddy/storage/pki/authorities/local/root.crt'), 'utf8');
  agent = new Agent({
    connect: {
      ca: rootCertificate,
      lookup: (_name, _options, found) => found(null, [{ address: '127.0.0.1', family: 4 }]),
    },
  });
  const echo = join(cellar.directory, 'echo');
  mkdirSync(echo);
  writeFileSync(join(echo, 'index.js'), ECHO);
  await cellar.git(echo, 'init', '--quiet', '--initial-branch=main');
  await cellar.commit(echo, 'echo');
  for (const [slug, work] of [
    ['echo', echo],
    ['chat', await cellar.checkout('chat')],
  ] as const) {
    ids.set(slug, await cellar.create(slug));
    // Stock git does not trust Caddy's certificate authority, so it uses the API's loopback port.
    const remote = `http://git:${cellar.key}@${new URL(cellar.api).host}/v1/git/${slug}`;
    const { code, stderr } = await cellar.git(work, 'push', remote, 'HEAD:main');
    assert.equal(code, 0, stderr);
  }
});
after(async () => {
  await agent?.close();
  await cellar[Symbol.asyncDispose]();
  if (skip === false) nameServer.close();
});

/** Resolves with the next event of a kind. Rejects at an error of the WebSocket or TLS socket, or after a timeout. */
async function nextEvent(
  from: EventTarget | EventEmitter,
  event: string,
): Promise<{ data: string; code: number }> {
  const deadline = { signal: AbortSignal.timeout(60_000) };
  const emitter = from as EventEmitter;
  const failed = once(emitter, 'error', deadline).then(([error]) => Promise.reject(error.error ?? error));
  const [first] = await Promise.race([once(emitter, event, deadline), failed]);
  return first;
}

/** Sends a request to a host below localhost over HTTPS. */
async function get(name: string, path = '/', headers: Record<string, string> = {}) {
  const response = await fetch(`https://${name}.localhost:${cellar.edgePort}${path}`, {
    dispatcher: agent,
    headers,
    signal: AbortSignal.timeout(60_000),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

test('an app answers over HTTPS, and sees the TLS version and the client address', { skip }, async () => {
  const { status, text, headers } = await get('echo', '/path?q=1', {
    'x-forwarded-for': '6.6.6.6',
    'x-cellar-client-tls': 'tls1.2 FORGED',
  });
  assert.equal(status, 200);
  assert.deepEqual(text.split('\n').slice(0, 4), [
    `https://echo.localhost:${cellar.edgePort}/path?q=1`,
    'https',
    `echo.localhost:${cellar.edgePort}`,
    '127.0.0.1',
  ]);
  const cf = JSON.parse(text.split('\n')[4]!);
  assert.match(cf.httpProtocol, /^HTTP\/(1\.1|2)$/);
  assert.deepEqual([cf.tlsVersion, /^TLS_/.test(cf.tlsCipher)], ['TLSv1.3', true]);
  assert.match(headers.get('alt-svc')!, /^h3=/);
  assert.equal((await get('api', '/ready')).status, 200);
});

test('X-Forwarded-For ends with the address of the client, not of Caddy', { skip }, async () => {
  const { text } = await get('echo', '/', { 'x-forwarded-for': '6.6.6.6' });
  assert.equal(text.split('\n')[5], '127.0.0.1');
});

test('Caddy speaks HTTP/2, and compresses text for clients that accept it', { skip }, async () => {
  const socket = connect({
    port: cellar.edgePort,
    host: '127.0.0.1',
    servername: 'echo.localhost',
    ca: rootCertificate,
    ALPNProtocols: ['h2'],
  });
  await nextEvent(socket, 'secureConnect');
  assert.equal(socket.alpnProtocol, 'h2');
  socket.destroy();
  assert.equal(
    (await get('echo', '/', { 'accept-encoding': 'gzip' })).headers.get('content-encoding'),
    'gzip',
  );
  assert.equal(
    (await get('echo', '/', { 'accept-encoding': 'identity' })).headers.get('content-encoding'),
    null,
  );
});

test('an unknown host name gets no certificate', { skip }, async () => {
  await assert.rejects(get('nobody'), (error: Error) => /alert|SSL|TLS/i.test(String(error.cause)));
});

test('a WebSocket stays open while another app is stopped and started', { skip }, async () => {
  const socket = new WebSocket(`wss://chat.localhost:${cellar.edgePort}/rooms/lobby/socket`, {
    dispatcher: agent,
  });
  await nextEvent(socket, 'open');
  const codes: number[] = [];
  socket.addEventListener('close', ({ code }) => codes.push(code));
  for (const [desired_state, status] of [
    ['stopped', 503],
    ['running', 200],
  ] as const) {
    assert.equal((await cellar.call('PATCH', `/v1/apps/${ids.get('echo')}`, { desired_state })).status, 200);
    assert.equal((await get('echo')).status, status);
  }
  const message = nextEvent(socket, 'message');
  socket.send(JSON.stringify({ text: 'still here' }));
  const { data } = await message;
  assert.match(String(data), /still here/);
  assert.deepEqual(codes, []);
  socket.close();
  await nextEvent(socket, 'close');
});

test('a custom hostname gets a certificate and serves the app only after DNS has proved it', {
  skip,
}, async () => {
  const path = `/v1/apps/${ids.get('echo')}/domains`;
  const visit = async () => {
    const signal = AbortSignal.timeout(60_000);
    const url = `https://shop.example:${cellar.edgePort}/`;
    return (await fetch(url, { dispatcher: agent, signal })).status;
  };
  const added = await cellar.call('POST', path, { hostname: 'shop.example' });
  assert.deepEqual([added.status, added.body.state], [201, 'pending']);
  await assert.rejects(visit(), /fetch failed/);
  nameServer.names.set('_cellar.shop.example', { TXT: ['echo'] });
  const params = { id: 'echo', hostname: 'shop.example' };
  const { body } = await cellar.call('POST', '/rpc', {
    jsonrpc: '2.0',
    id: 1,
    method: 'domains.check',
    params,
  });
  assert.deepEqual([body.result.state, body.result.certificate.state], ['active', 'waiting']);
  assert.equal(await visit(), 200);
  assert.equal((await cellar.call('DELETE', `${path}/shop.example`)).status, 204);
  assert.equal(await visit(), 404);
});

test('the host restarts a killed Caddy, and is not ready meanwhile', {
  skip,
}, async () => {
  const caddy = () => descendants(cellar.pid).find(({ command }) => command[0]!.endsWith('/caddy'));
  const { pid } = caddy()!;
  await eventually(async () => {
    // A fast restart may be missed: then Caddy is killed again.
    const running = caddy();
    if (running) process.kill(running.pid, 'SIGKILL');
    return JSON.stringify((await cellar.call('GET', '/ready')).body.failing) === '["caddy"]';
  }, 'the host says that Caddy has gone');
  await eventually(async () => (await cellar.call('GET', '/ready')).status === 200, 'Caddy is back');
  assert.notEqual(caddy()!.pid, pid);
  assert.equal((await get('echo')).status, 200);
});

test('a shutdown closes WebSockets with 1012, answers new requests with Retry-After, and ends Caddy', {
  skip,
}, async () => {
  const socket = new WebSocket(`wss://chat.localhost:${cellar.edgePort}/rooms/lobby/socket`, {
    dispatcher: agent,
  });
  await nextEvent(socket, 'open');
  const closed = nextEvent(socket, 'close');
  const children = descendants(cellar.pid).filter(({ command }) => command[0]!.endsWith('/caddy'));
  assert.equal(children.length, 1);
  const holder = new AbortController();
  const held = await fetch(`https://echo.localhost:${cellar.edgePort}/held`, {
    dispatcher: agent,
    signal: holder.signal,
  });
  assert.equal(held.status, 200);
  const stopped = cellar.stop();
  assert.equal((await closed).code, 1012);
  const refused = await get('echo');
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '5']);
  holder.abort();
  assert.deepEqual(await stopped, { code: 0, signal: null });
  await eventually(() => !processes().some(({ pid }) => pid === children[0]!.pid), 'Caddy has gone');
});
