// Valid and almost valid answers of a process, sent through our gateway and through one built from other parts. A client
// gets the same from both, or an error of the process. The next answer on its connection belongs to the next request.
import assert from 'node:assert/strict';
import { createServer, connect as open, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { bodyText, chunks, eol, mostly, oneOf } from '../../support/edge/messages.ts';
import { startGateway, temporary, within } from '../../support/edge/peers.ts';
import { readAnswers, type WireAnswer } from '../../support/edge/wire.ts';
import { startOracle } from '../../support/oracle/gateway.ts';
import { randomCases } from '../../support/random.ts';

const CASES = randomCases(500);
/** Delay in ms before the process closes a connection, so that both gateways can forward a complete answer first. */
const END_MS = 20;

/** A blank after a length is not part of it (RFC 9110, 5.5). undici then takes the answer for too short. */
const BLANK_BEHIND_LENGTH = /\r\ncontent-length: 0 \r\n/i;
const next = 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnext';
/** The result of a client whose connection was closed without an answer. */
const NONE: WireAnswer = { status: 0, headers: new Map(), body: '', whole: false };
let pieces: Buffer[] = [];
const parts = new AsyncDisposableStack();
let ports: { gateway: number; oracle: number };

before(async () => {
  const directory = parts.use(temporary());
  const socketPath = join(directory.path, 'process.sock');
  const server = createServer((socket) => {
    socket.on('error', () => {});
    let ending: NodeJS.Timeout | undefined;
    socket.on('data', async (chunk) => {
      // The connection is in use again: closing it would cut off the next answer.
      clearTimeout(ending);
      if (await answered(socket, chunk.toString('latin1'))) ending = setTimeout(() => socket.end(), END_MS);
    });
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  parts.defer(() => void server.close());
  ports = {
    gateway: parts.use(await startGateway(socketPath)).port,
    oracle: parts.use(await startOracle(socketPath)).port,
  };
});
after(() => parts.disposeAsync());

/** Answers a request. @returns whether the connection shall be closed if no other request follows */
async function answered(socket: Socket, head: string): Promise<boolean> {
  if (head.startsWith('GET /next')) {
    socket.write(next);
    return false;
  }
  for (const piece of pieces) {
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return true;
}

/** Returns the answers to two requests on one connection. `second` is null if the connection ended before it. */
async function ask(port: number, method: string): Promise<{ first: WireAnswer; second: WireAnswer | null }> {
  const socket = open({ port, host: '127.0.0.1' });
  let received = '';
  let ended = false;
  let changed = () => {};
  const over = () => {
    ended = true;
    changed();
  };
  socket.on('data', (chunk) => {
    received += chunk.toString('latin1');
    changed();
  });
  socket.on('error', () => {});
  socket.on('end', over);
  socket.on('close', over);
  const read = async (count: number): Promise<WireAnswer[]> => {
    for (;;) {
      const answers = readAnswers(received, (_answer, index) => index === 0 && method === 'HEAD');
      if (ended || (answers.length >= count && answers[count - 1]!.whole)) return answers;
      await within(new Promise<void>((resolve) => (changed = resolve)), 'more of the answer');
    }
  };
  try {
    socket.write(`${method} / HTTP/1.1\r\nHost: a\r\n\r\n`);
    const [first = NONE] = await read(1);
    if (ended) return { first, second: null };
    socket.write('GET /next HTTP/1.1\r\nHost: a\r\n\r\n');
    return { first, second: (await read(2))[1] ?? null };
  } finally {
    socket.destroy();
  }
}

const framed = fc.oneof(
  fc.constant({ fields: [] as string[], body: '' }),
  bodyText.map((body) => ({ fields: [], body })),
  fc.tuple(bodyText, mostly('=', '0=', '+=', '=, =', '', '1', '0', '99', '=x')).map(([body, value]) => ({
    fields: [`Content-Length: ${value.replaceAll('=', String(body.length))}`],
    body,
  })),
  fc
    .tuple(
      chunks,
      mostly('chunked', 'Chunked', 'gzip, chunked', 'identity', 'chunked, chunked', '"chunked"'),
      mostly('', 'Content-Length: 3', 'Transfer-Encoding: chunked', 'Trailer: X-T'),
    )
    .map(([body, encoding, other]) => ({
      fields: [`Transfer-Encoding: ${encoding}`, other].filter((field) => field !== ''),
      body,
    })),
);
const field = fc.oneof(
  {
    weight: 4,
    arbitrary: oneOf('X: 1', 'Set-Cookie: a=b', 'Connection: close', 'Connection: x'),
  },
  {
    weight: 1,
    arbitrary: oneOf('X : 1', 'X', 'X: \x00', 'X: a\rb', 'X: a\r\n b', ': 1', 'Upgrade: websocket'),
  },
);
const answers = fc
  .tuple(
    mostly('', 'HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n'),
    mostly('HTTP/1.1', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/2', 'http/1.1', ''),
    mostly(
      '200 OK',
      '200 ',
      '404 Not Found',
      '204 No Content',
      '304 Not Modified',
      '205 Reset',
      '500 \xe9',
      '101 Up',
      '99',
      '600 X',
      '2000',
    ),
    fc.array(field, { maxLength: 2 }),
    framed,
    fc.array(eol, { minLength: 6, maxLength: 6 }),
    mostly('', 'more', next),
    fc.array(fc.nat(), { maxLength: 5 }),
    oneOf('GET', 'GET', 'HEAD'),
  )
  .map(([before, version, status, fields, { fields: framing, body }, eols, behind, cuts, method]) => {
    const lines = [`${version} ${status}`, ...fields, ...framing];
    const text = `${before}${lines.map((line, i) => line + eols[i]).join('')}${eols[5]}${body}${behind}`;
    const bytes = Buffer.from(text, 'latin1');
    const ends = [...new Set(cuts.map((cut) => cut % text.length)), 0, bytes.length].toSorted(
      (a, b) => a - b,
    );
    return { method, pieces: ends.slice(1).map((end, i) => bytes.subarray(ends[i], end)) };
  });

test("a client gets the process's answer or an error, never the end of one answer in the next", async () => {
  let relayed = 0;
  const property = fc.asyncProperty(answers, async (said) => {
    pieces = said.pieces;
    const gateway = await ask(ports.gateway, said.method);
    const oracle = await ask(ports.oracle, said.method);
    const told = JSON.stringify({ said: pieces.map((piece) => piece.toString('latin1')), gateway, oracle });
    if (gateway.second !== null) {
      const { status, body } = gateway.second;
      assert.deepEqual([status, body], [200, 'next'], `the next answer is another: ${told}`);
    }
    assert.notEqual(gateway.first, NONE, `no answer: ${told}`);
    if (gateway.first.status === 502 || !gateway.first.whole) return;
    if (oracle.first === NONE && BLANK_BEHIND_LENGTH.test(Buffer.concat(pieces).toString('latin1'))) return;
    relayed++;
    const { status, body, whole } = oracle.first;
    const { first } = gateway;
    assert.deepEqual([first.status, first.body, first.whole], [status, body, whole], told);
  });
  await fc.assert(property, CASES);
  assert.ok(relayed > CASES.numRuns / 4, `only ${relayed} answers were relayed`);
});
