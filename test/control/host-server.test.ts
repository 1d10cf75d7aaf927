// The server behind the HOST binding, called over one keep-alive connection, as the control plane's process does.
import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { readBody, refuse } from '../../runtime/control/host-call.ts';
import { HostServer } from '../../runtime/control/host-server.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const LIMIT_BYTES = 1024;
/** Does not fit into all buffers of the connection. */
const LONG_BYTES = 8 * 1024 * 1024;
const DEADLINE_MS = 60_000;

/** Sends a long body, and then another request over the same connection. @returns both status lines */
async function statusesAfterLongBody(t: TestContext, answerLong: RequestListener): Promise<string[]> {
  const server = new HostServer(temporaryDirectory(t), (request, response) =>
    request.url === '/long' ? answerLong(request, response) : response.end('next'),
  );
  await server.listen();
  t.after(() => server.close());
  const socket = connect(server.path);
  t.after(() => socket.destroy());
  socket.write(`PUT /long HTTP/1.1\r\nhost: host\r\ncontent-length: ${LONG_BYTES}\r\n\r\n`);
  socket.write(Buffer.alloc(LONG_BYTES));
  socket.write('GET /next HTTP/1.1\r\nhost: host\r\n\r\n');
  socket.setTimeout(DEADLINE_MS, () => socket.destroy(new Error('the connection hangs')));
  let received = '';
  for await (const bytes of socket) {
    received += bytes;
    const statuses = received.match(/HTTP\/1\.1 \d+/g) ?? [];
    if (statuses.length === 2) return statuses;
  }
  throw new Error(`closed after: ${received}`);
}

test('a call after one with too large a body is answered', async (t) => {
  const statuses = await statusesAfterLongBody(t, (request, response) => {
    readBody(request, LIMIT_BYTES).catch((error: unknown) => refuse(response, error));
  });
  assert.deepEqual(statuses, ['HTTP/1.1 413', 'HTTP/1.1 200']);
});

test('a call after one with a partly read body is answered', async (t) => {
  const statuses = await statusesAfterLongBody(t, (request, response) => {
    request.once('data', () => {
      request.pause();
      response.end('enough');
    });
  });
  assert.deepEqual(statuses, ['HTTP/1.1 200', 'HTTP/1.1 200']);
});
