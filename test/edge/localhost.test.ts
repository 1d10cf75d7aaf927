// Which port a gateway takes on both loopback addresses, to which `localhost` may lead.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ListenOptions, Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Gateway } from '../../runtime/edge/gateway.ts';
import { ownPort } from '../support/ports.ts';

const inUse = { code: 'EADDRINUSE' };

function gatewayFor(t: TestContext): Gateway {
  const gateway = new Gateway({ resolve: () => assert.fail(), holdTimeoutMs: 1_000 });
  t.after(() => gateway.close(0));
  return gateway;
}

/** Listens at a port, which it returns. */
async function occupy(t: TestContext, host: string, port = ownPort()): Promise<number> {
  const server = createServer().listen(port, host);
  await once(server, 'listening');
  t.after(() => server.close());
  return port;
}

/** Changes the options of each call to listen. */
function intercept(t: TestContext, change: (options: ListenOptions) => void): void {
  const { listen } = Server.prototype;
  t.mock.method(
    Server.prototype,
    'listen',
    function (this: Server, options: ListenOptions, then: () => void) {
      change(options);
      return listen.call(this, options, then);
    },
  );
}

test('a port that another server has on one loopback address is in use, and stays free on the other', async (t) => {
  const gateway = gatewayFor(t);
  for (const [host, other] of [
    ['::1', '127.0.0.1'],
    ['127.0.0.1', '::1'],
  ] as const) {
    const port = await occupy(t, host);
    await assert.rejects(gateway.listenLocalhost(port), { ...inUse, port });
    await occupy(t, other, port);
  }
});

test('any free port is free on both addresses', async (t) => {
  const taken = await occupy(t, '::1');
  let calls = 0;
  intercept(t, (options) => {
    if (options.port === 0 && calls++ === 0) options.port = taken;
  });
  const port = await gatewayFor(t).listenLocalhost(0);
  assert.notEqual(port, taken);
  await assert.rejects(occupy(t, '127.0.0.1', port), inUse);
  await assert.rejects(occupy(t, '::1', port), inUse);
});

test('without IPv6, a gateway for all addresses listens on those of IPv4', async (t) => {
  intercept(t, (options) => {
    // No interface has this address.
    if (options.host === '::') options.host = '2001:db8::1';
  });
  const port = ownPort();
  assert.equal(await gatewayFor(t).listen(port, '::'), port);
  await assert.rejects(occupy(t, '0.0.0.0', port), inUse);
});

test('a machine without IPv6 needs one address only', async (t) => {
  intercept(t, (options) => {
    // No interface has this address.
    if (options.host === '::1') options.host = '2001:db8::1';
  });
  const port = ownPort();
  assert.equal(await gatewayFor(t).listenLocalhost(port), port);
});
