// Listeners of the host's streams: slow readers, disconnects, and the limit.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { LiveStreams } from '../../runtime/control/routes/live-streams.ts';
import type { Refusal } from '../../runtime/refusal.ts';
import type { StreamPiece } from '../../runtime/telemetry/protocol.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const piece = (n: number, text = `id: ${n}\ndata: ${'x'.repeat(60_000)}\n\n`): StreamPiece => ({
  ...{ text, events: 1, lastId: n, isLast: false },
});

/** Starts a server whose requests all follow one source. @param appOf the app that the nth listener follows */
async function serve(t: TestContext, appOf: (n: number) => string = () => 'app') {
  const streams = new LiveStreams();
  const responses = new Set<ServerResponse>();
  const sources = new Set<(pieces: StreamPiece[]) => void>();
  const left = Promise.withResolvers<void>();
  const server = createServer((_, response) => {
    try {
      responses.add(response);
      streams.open(appOf(responses.size), response, (take) => {
        sources.add(take);
        return () => {
          sources.delete(take);
          left.resolve();
        };
      });
    } catch (error) {
      response.writeHead((error as Refusal).status).end((error as Refusal).message);
    }
  });
  // The kernel buffers less for a unix socket than for TCP.
  const socketPath = join(temporaryDirectory(t), 'socket');
  server.listen(socketPath);
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const listen = async (): Promise<IncomingMessage> => {
    const request = get({ socketPath, agent: false });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.on('error', () => {});
    return response.setEncoding('utf8');
  };
  const send = (...pieces: StreamPiece[]) => {
    for (const source of sources) source(pieces);
  };
  return { listen, send, sources, responses, left: left.promise };
}

test('a listener that reads slowly gets the number of events it missed, and then the next ones', async (t) => {
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

test('listeners that read nothing use bounded memory, however many they are', async (t) => {
  const { listen, send, responses } = await serve(t, (n) => `app${n % 10}`);
  const listening = await Promise.all(Array.from({ length: 200 }, listen));
  const text = `data: ${'x'.repeat(60_000)}\n\n`;
  for (let n = 1; n <= 30; n++) {
    send(piece(n, text));
    await new Promise((resolve) => setImmediate(resolve));
  }
  const waiting = [...responses].reduce((sum, { writableLength }) => sum + writableLength, 0);
  assert.ok(waiting < 64 * 1024 * 1024 + 200 * text.length, `${waiting} bytes wait`);
  for (const response of listening) response.destroy();
});

test('a listener that disconnects is noticed, and costs nothing from then on', async (t) => {
  const { listen, sources, left } = await serve(t);
  const response = await listen();
  assert.equal(sources.size, 1);
  response.destroy();
  await left;
  assert.equal(sources.size, 0);
});

test('the last chunk ends the stream', async (t) => {
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
  const refused = await listen();
  assert.equal(refused.statusCode, 429);
  assert.match(await text(refused), /^100 listeners follow this app already; close one/);
  for (const response of responses) response.destroy();
});

test('one listener more than all apps may have is refused, and the message names no listeners of the app', async (t) => {
  const { listen } = await serve(t, (n) => `app${n % 20}`);
  const responses: IncomingMessage[] = [];
  // Not all at once, because the socket's queue of connections is shorter.
  while (responses.length < 1_000) responses.push(...(await Promise.all(Array.from({ length: 50 }, listen))));
  assert.ok(responses.every(({ statusCode }) => statusCode === 200));
  const refused = await listen();
  assert.equal(refused.statusCode, 429);
  assert.match(await text(refused), /^1000 listeners follow the apps of this host already; close one/);
  for (const response of responses) response.destroy();
});
