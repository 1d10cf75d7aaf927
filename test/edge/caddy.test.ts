import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { Caddy, findCaddy } from '../../runtime/edge/caddy/caddy.ts';
import { bootConfig, caddyConfig, gatewaySocket } from '../../runtime/edge/caddy/config.ts';
import { call, startGateway, startRawUpstream, temporary, until } from '../support/edge/peers.ts';
import { ownPort } from '../support/ports.ts';

const skip = spawnSync('caddy', ['version']).error ? 'Caddy is not installed: apt-get install caddy' : false;

/** Caddy in a temporary directory, with one server that says `text`. */
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
  const caddy = new Caddy(findCaddy(), directory.path);
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

test('a missing Caddy is named, with the way to get it', () => {
  assert.throws(
    () => findCaddy('/nowhere:/nowhere/else'),
    /RUNNER_EDGE=caddy needs Caddy: `apt-get install caddy`/,
  );
});

test('a config that Caddy refuses is a problem in its words, and the last good one serves on', {
  skip,
}, async () => {
  await using it = await started('first');
  assert.equal(it.caddy.problem, null);
  await assert.rejects(it.caddy.load(it.config('broken', '127.0.0.1:99999')), /99999/);
  assert.match(it.caddy.problem!, /does not take its config: .*99999/);
  assert.equal((await call(it.port, '/')).body, 'first');
  await it.caddy.load(it.config('second'));
  assert.equal(it.caddy.problem, null);
  assert.equal((await call(it.port, '/')).body, 'second');
});

test('a Caddy that ends is a problem until it has been started again, with the last good config', {
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

test('a certificate that cannot be had is told, with the hostname and the reason', { skip }, async () => {
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

test('a first config that is refused ends Caddy and the start', { skip }, async () => {
  using directory = temporary();
  const caddy = new Caddy(findCaddy(), directory.path);
  const config = {
    ...bootConfig(directory.path),
    apps: { http: { servers: { one: { listen: ['nonsense:x'] } } } },
  };
  await assert.rejects(caddy.start(config), /does not take its config/);
  assert.equal(caddy.pid, undefined);
});

test('a stop ends the process', { skip }, async () => {
  await using it = await started('x');
  const { pid } = it.caddy;
  await it.caddy.stop();
  assert.ok(!existsSync(`/proc/${pid}`));
});

test('the real config of either authority is one that Caddy takes', { skip }, () => {
  // Caddy makes directories in both.
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

test('whoever calls on the gateway’s unix socket is believed about the client', async () => {
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
  // Caddy passes on what strangers write; only a proxy that is trusted may have written this.
  assert.doesNotMatch(upstream.requests[0]!, /cf-ipcountry/);
  await call(gateway.port, '/', { headers });
  assert.match(upstream.requests[1]!, /\r\ncf-connecting-ip: 127\.0\.0\.1\r\n/);
  assert.equal(await ask({ ...headers, 'x-forwarded-for': '203.0.113.9, 203.0.113.7' }), 200);
  assert.match(upstream.requests[2]!, /\r\ncf-ipcountry: CH\r\n/);
  assert.ok(existsSync(join(directory.path, 'gateway.sock')));
});
