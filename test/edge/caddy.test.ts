import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { Agent, fetch } from 'undici';
import { Caddy, findCaddy } from '../../runtime/edge/caddy/caddy.ts';
import { bootConfig, caddyConfig, gatewaySocket, rootCertificate } from '../../runtime/edge/caddy/config.ts';
import { call, startGateway, startRawUpstream, temporary, until, within } from '../support/edge/peers.ts';
import { ownPort } from '../support/ports.ts';

const skip = spawnSync('caddy', ['version']).error ? 'Caddy is not installed: apt-get install caddy' : false;

/** Starts Caddy in a temporary directory with one server that responds `text`. */
async function started(text: string) {
  const directory = temporary();
  const port = ownPort();
  const config = (body: string, listen = `127.0.0.1:${port}`) => ({
    ...bootConfig(directory.path),
    apps: {
      http: {
        servers: {
          one: {
            listen: [listen],
            automatic_https: { disable: true },
            routes: [{ handle: [{ handler: 'static_response', body }] }],
          },
        },
      },
    },
  });
  const watch = { everyMs: 50, deadlineMs: 1_000, tries: 2 };
  const caddy = new Caddy(findCaddy(), directory.path, undefined, watch);
  await caddy.start(config(text));
  return {
    caddy,
    port,
    config,
    directory: directory.path,
    [Symbol.asyncDispose]: async () => {
      await caddy.stop();
      directory[Symbol.dispose]();
    },
  };
}

test('a missing Caddy is reported, with the way to install it', () => {
  assert.throws(
    () => findCaddy('/nowhere:/nowhere/else'),
    /RUNNER_EDGE=caddy needs Caddy: `apt-get install caddy`/,
  );
});

test('a config that Caddy refuses is reported with its error, and the last valid one stays active', {
  skip,
}, async () => {
  await using it = await started('first');
  assert.equal(it.caddy.problem, null);
  await assert.rejects(it.caddy.load(it.config('broken', '127.0.0.1:99999')), /99999/);
  assert.match(it.caddy.problem!, /refuses its configuration: .*99999/);
  assert.equal((await call(it.port, '/')).body, 'first');
  await it.caddy.load(it.config('second'));
  assert.equal(it.caddy.problem, null);
  // Caddy answers a load before its old server stops accepting connections.
  await until(async () => (await call(it.port, '/')).body === 'second', 'the new config answers');
});

test('a Caddy that exits is reported until it has restarted with the last valid config', {
  skip,
}, async () => {
  await using it = await started('kept');
  const { pid } = it.caddy;
  process.kill(pid!, 'SIGKILL');
  await until(() => it.caddy.problem === 'Caddy ended', 'the end is seen');
  await until(() => it.caddy.problem === null, 'it runs again');
  assert.notEqual(it.caddy.pid, pid);
  assert.equal((await call(it.port, '/')).body, 'kept');
});

test('a Caddy that hangs is reported, killed and restarted', { skip }, async () => {
  await using it = await started('kept');
  const { pid } = it.caddy;
  process.kill(pid!, 'SIGSTOP');
  await until(() => it.caddy.problem === 'Caddy runs and does not answer', 'the silence is seen');
  await until(() => it.caddy.problem === null, 'it runs again');
  assert.notEqual(it.caddy.pid, pid);
  assert.equal((await call(it.port, '/')).body, 'kept');
});

test('a failed certificate is reported with the hostname and the reason', { skip }, async () => {
  using directory = temporary();
  const told: string[][] = [];
  const caddy = new Caddy(findCaddy(), directory.path, (...failure) => told.push(failure));
  const port = ownPort();
  const issuers = [{ module: 'acme', ca: `https://127.0.0.1:${port}/directory` }];
  await caddy.start({
    ...bootConfig(directory.path),
    apps: {
      tls: { certificates: { automate: ['shop.example.com'] }, automation: { policies: [{ issuers }] } },
    },
  });
  try {
    await until(() => told.length > 0, 'the failure is told');
    assert.equal(told[0]![0], 'shop.example.com');
    assert.match(told[0]![1]!, /connection refused/);
  } finally {
    await caddy.stop();
  }
});

test('a refused first config stops Caddy and fails the start', { skip }, async () => {
  using directory = temporary();
  const caddy = new Caddy(findCaddy(), directory.path);
  const config = {
    ...bootConfig(directory.path),
    apps: { http: { servers: { one: { listen: ['nonsense:x'] } } } },
  };
  await assert.rejects(caddy.start(config), /refuses its configuration/);
  assert.equal(caddy.pid, undefined);
});

test('a stop ends the process', { skip }, async () => {
  await using it = await started('x');
  const { pid } = it.caddy;
  await it.caddy.stop();
  assert.ok(!existsSync(`/proc/${pid}`));
});

test('Caddy accepts the real config of either certificate authority', { skip }, () => {
  // Caddy creates directories in HOME and in its storage.
  using home = temporary();
  using state = temporary();
  for (const internalAuthority of [true, false]) {
    for (const httpPort of [0, 80]) {
      const config = caddyConfig({
        directory: state.path,
        host: '',
        port: 443,
        httpPort,
        ask: 'http://127.0.0.1:8080/v1/edge/tls-ask',
        internalAuthority,
        trustedProxies: ['10.0.0.0/8'],
      });
      const { status, stderr } = spawnSync('caddy', ['validate', '--config', '-'], {
        input: JSON.stringify(config),
        encoding: 'utf8',
        env: { HOME: home.path, PATH: '/usr/bin:/bin' },
      });
      assert.equal(status, 0, stderr);
    }
  }
});

for (const protocol of ['http/1.1', 'h2'])
  test(`a ${protocol} client that disconnects cancels its request to the process behind Caddy`, {
    skip,
  }, async () => {
    using directory = temporary();
    await using upstream = await startRawUpstream((head, socket) => {
      if (head.startsWith('GET /stream'))
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n');
    });
    await using front = await startFront(directory.path, upstream.socketPath);
    for (const path of ['/silent', '/stream']) {
      const client = new Agent({
        allowH2: protocol === 'h2',
        connect: { ca: front.ca, servername: 'a.localhost' },
      });
      const leaving = new AbortController();
      const headers = { host: 'a.localhost' };
      const options = { dispatcher: client, headers, signal: leaving.signal };
      const answer = fetch(`https://127.0.0.1:${front.port}${path}`, options);
      answer.catch(() => {});
      const came = upstream.requests.length;
      await until(() => upstream.requests.length > came, 'the request is with the process');
      if (path === '/stream') await (await answer).body!.getReader().read();
      assert.equal(upstream.sockets.size, 1);
      leaving.abort();
      await until(() => upstream.sockets.size === 0, `the process has lost its client: ${path}`);
      await client.destroy();
    }
  });

test('behind Caddy a stream arrives at once, and only whole texts are compressed', { skip }, async () => {
  using directory = temporary();
  const text = 'body { color: red }'.repeat(100);
  const event = `data: ${text}\n\n`;
  const fixed = `content-type: text/css\r\ncontent-length: ${text.length}`;
  const heads: Record<string, string> = {
    '/whole': `200 OK\r\n${fixed}`,
    '/part': `206 Partial Content\r\ncontent-range: bytes 0-${text.length - 1}/9999\r\n${fixed}`,
    '/fixed-form': `200 OK\r\ncache-control: public, no-transform\r\n${fixed}`,
    '/packed': `200 OK\r\ncache-control: no-transform\r\ncontent-encoding: x-own\r\n${fixed}`,
  };
  await using upstream = await startRawUpstream((head, socket) => {
    const answer = heads[head.split(' ')[1]!];
    if (answer !== undefined) socket.write(`HTTP/1.1 ${answer}\r\n\r\n${text}`);
    else
      socket.write(
        'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n' +
          `${event.length.toString(16)}\r\n${event}\r\n`,
      );
  });
  await using front = await startFront(directory.path, upstream.socketPath);
  const client = new Agent({ connect: { ca: front.ca, servername: 'a.localhost' } });
  await using _ = { [Symbol.asyncDispose]: () => client.destroy() };
  const get = (path: string) =>
    client.request({
      ...{ origin: `https://127.0.0.1:${front.port}`, path, method: 'GET' },
      headers: { host: 'a.localhost', 'accept-encoding': 'gzip' },
    });
  for (const [path, encoding] of [
    ['/whole', 'gzip'],
    ['/part', undefined],
    ['/fixed-form', 'identity'],
    ['/packed', 'x-own'],
  ] as const) {
    const { headers, body } = await get(path);
    await body.dump();
    assert.equal(headers['content-encoding'], encoding, path);
  }
  // The response never ends.
  const { body } = await within(get('/stream'), 'the head of the stream');
  let received = '';
  const read = async () => {
    for await (const chunk of body) {
      received += chunk;
      if (received.length >= event.length) break;
    }
  };
  await within(read(), 'the first event');
  assert.equal(received, event);
});

/** Starts Caddy with the real config in front of a gateway, with certificates of its own authority. */
async function startFront(
  directory: string,
  socketPath: string,
): Promise<{ port: number; ca: Buffer } & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const { gateway } = stack.use(await startGateway(socketPath));
  await gateway.listenUnix(gatewaySocket(directory));
  const ask = stack.use(await certificatesForAll());
  const port = ownPort();
  const caddy = new Caddy(findCaddy(), directory);
  stack.defer(() => caddy.stop());
  const at = { host: '127.0.0.1', port, httpPort: 0, internalAuthority: true, trustedProxies: [] };
  await caddy.start(caddyConfig({ directory, ask: ask.url, ...at }));
  const parts = stack.move();
  const ca = readFileSync(rootCertificate(directory));
  return { port, ca, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

/** Starts the server that Caddy asks before it requests a certificate. It allows every name. */
async function certificatesForAll(): Promise<{ url: string } & AsyncDisposable> {
  const server = createServer((_request, response) => response.end());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    [Symbol.asyncDispose]: async () => void server.close(),
  };
}

test('the gateway trusts the client address from any peer on its unix socket', async () => {
  using directory = temporary();
  await using upstream = await startRawUpstream((_head, socket) =>
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'),
  );
  await using gateway = await startGateway(upstream.socketPath, { trustedProxies: ['203.0.113.7'] });
  const socketPath = gatewaySocket(directory.path);
  await gateway.gateway.listenUnix(socketPath);
  const ask = (headers: Record<string, string>) =>
    new Promise((resolve, reject) => {
      request({ socketPath, headers, agent: false }, (response) => resolve(response.resume().statusCode))
        .on('error', reject)
        .end();
    });
  const headers = {
    host: 'a',
    'x-forwarded-for': '203.0.113.9',
    'x-forwarded-proto': 'https',
    'cf-ipcountry': 'CH',
  };
  assert.equal(await ask(headers), 200);
  assert.match(upstream.requests[0]!, /\r\ncf-connecting-ip: 203\.0\.113\.9\r\n/);
  assert.match(upstream.requests[0]!, /\r\nx-forwarded-proto: https\r\n/);
  // Caddy forwards this header from any client, but only a trusted proxy may set it.
  assert.doesNotMatch(upstream.requests[0]!, /cf-ipcountry/);
  await call(gateway.port, '/', { headers });
  assert.match(upstream.requests[1]!, /\r\ncf-connecting-ip: 127\.0\.0\.1\r\n/);
  assert.equal(await ask({ ...headers, 'x-forwarded-for': '203.0.113.9, 203.0.113.7' }), 200);
  assert.match(upstream.requests[2]!, /\r\ncf-ipcountry: CH\r\n/);
  assert.ok(existsSync(join(directory.path, 'gateway.sock')));
});

test('a challenge that the Caddy of one host started is answered by that of another, when they share their storage', {
  skip,
}, async () => {
  using shared = temporary();
  using own = temporary();
  const token = 'a-token';
  const storage = join(shared.path, 'storage');
  // Where Caddy stores the tokens of its challenges.
  const tokens = join(storage, 'acme/acme-v02.api.letsencrypt.org-directory/challenge_tokens');
  mkdirSync(tokens, { recursive: true });
  const identifier = { type: 'dns', value: 'app.example.com' };
  const challenge = { type: 'http-01', token, keyAuthorization: `${token}.key`, identifier };
  writeFileSync(join(tokens, 'app.example.com.json'), JSON.stringify(challenge));
  symlinkSync(storage, join(own.path, 'storage'));
  const httpPort = ownPort();
  const caddy = new Caddy(findCaddy(), own.path);
  await using stack = new AsyncDisposableStack();
  stack.defer(() => caddy.stop());
  await caddy.start(
    caddyConfig({
      ...{ directory: own.path, host: '127.0.0.1', port: ownPort(), httpPort, ask: 'http://127.0.0.1:1/' },
      ...{ internalAuthority: false, trustedProxies: [] },
    }),
  );
  const url = `http://127.0.0.1:${httpPort}/.well-known/acme-challenge/${token}`;
  const answer = await ask(url, 'app.example.com');
  assert.deepEqual(answer, { status: 200, body: `${token}.key` });
});

function ask(url: string, host: string): Promise<{ status: number | undefined; body: string }> {
  return new Promise((resolve, reject) => {
    request(url, { headers: { host } }, async (answer) => {
      resolve({ status: answer.statusCode, body: Buffer.concat(await answer.toArray()).toString() });
    })
      .on('error', reject)
      .end();
  });
}
