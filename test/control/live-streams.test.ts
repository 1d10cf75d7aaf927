// Listeners of streams that the host answers: those that read slowly, those that leave, and too many.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { LiveStreams } from '../../runtime/control/live-streams.ts';
import type { Refusal } from '../../runtime/refusal.ts';
import type { StreamPiece } from '../../runtime/telemetry/protocol.ts';

const piece = (n: number, text = `id: ${n}\ndata: ${'x'.repeat(60_000)}\n\n`): StreamPiece => ({
  ...{ text, events: 1, lastId: n, isLast: false },
});

/** A server whose every request follows one source. */
async function serve(t: TestContext) {
  const streams = new LiveStreams();
  const sources = new Set<(pieces: StreamPiece[]) => void>();
  const left = Promise.withResolvers<void>();
  const server = createServer((_, response) => {
    try {
      streams.open('app', response, (take) => {
        sources.add(take);
        return () => {
          sources.delete(take);
          left.resolve();
        };
      });
    } catch (error) {
      response.writeHead((error as Refusal).status).end();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const listen = async (): Promise<IncomingMessage> => {
    const request = get({ host: '127.0.0.1', port, agent: false });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.on('error', () => {});
    return response.setEncoding('utf8');
  };
  const send = (...pieces: StreamPiece[]) => {
    for (const source of sources) source(pieces);
  };
  return { listen, send, sources, left: left.promise };
}

test('a listener that reads slowly is told how many events it missed, and goes on with the next', async (t) => {
  const { listen, send } = await serve(t);
  const response = await listen();
  for (let n = 1; n <= 200; n++) send(piece(n));
  let text = '';
  response.on('data', (chunk) => {
    text += chunk;
  });
  const until = async (pattern: RegExp) => {
    while (!pattern.test(text)) await once(response, 'data', { signal: AbortSignal.timeout(60_000) });
  };
  await until(/^event: skipped$/m);
  send(piece(201));
  await until(/^id: 201$/m);
  const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
  const skipped = Number(/^data: \{"count":(\d+)\}$/m.exec(text)![1]);
  assert.ok(skipped > 100, `${skipped}`);
  assert.deepEqual(ids, [...Array.from({ length: 200 - skipped }, (_, n) => n + 1), 201]);
  response.destroy();
});

test('a listener that leaves is noticed, and costs nothing from then on', async (t) => {
  const { listen, sources, left } = await serve(t);
  const response = await listen();
  assert.equal(sources.size, 1);
  response.destroy();
  await left;
  assert.equal(sources.size, 0);
});

test('the last piece ends the stream', async (t) => {
  const { listen, send, left } = await serve(t);
  const response = await listen();
  send({ ...piece(1, ''), isLast: true });
  response.resume();
  await once(response, 'end');
  await left;
});

test('one listener more than an app may have is refused', async (t) => {
  const { listen } = await serve(t);
  const responses = await Promise.all(Array.from({ length: 100 }, listen));
  assert.ok(responses.every(({ statusCode }) => statusCode === 200));
  assert.equal((await listen()).statusCode, 429);
  for (const response of responses) response.destroy();
});
