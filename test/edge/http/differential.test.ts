// Sends the same bytes to our gateway, to a gateway built from other parts, and to bare workerd. All of them must agree
// on every request that our gateway accepts.
import assert from 'node:assert/strict';
import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { PADDING, stream } from '../../support/edge/messages.ts';
import { call, startGateway, startWorkerd, within } from '../../support/edge/peers.ts';
import { readAnswers, type WireAnswer } from '../../support/edge/wire.ts';
import { startOracle } from '../../support/oracle/gateway.ts';
import { randomCases } from '../../support/random.ts';

const CASES = randomCases(500);

/** Records each request that it has read completely. */
const APP = `
let log = [];
export default {
  async fetch(request) {
    const { method, url, headers } = request;
    if (url === 'http://log/') return Response.json(log.splice(0));
    const body = await request.text();
    const saw = encodeURIComponent(JSON.stringify({ method, url, body, host: headers.get('host'), f: headers.get('x-f') }));
    log.push(saw);
    return new Response('body of the answer', { headers: { 'x-saw': saw } });
  },
};
`;

interface Subject {
  name: string;
  /** The address to send bytes to. */
  at: NetConnectOpts;
  /** The port of the app itself. */
  app: number;
}

let subjects: { gateway: Subject; oracle: Subject; workerd: Subject };
const parts = new AsyncDisposableStack();

before(async () => {
  const [one, two, three] = await Promise.all([startWorkerd(APP), startWorkerd(APP), startWorkerd(APP)]);
  for (const cell of [one, two, three]) parts.use(cell);
  const gateway = parts.use(await startGateway(one.socketPath));
  const oracle = parts.use(await startOracle(two.socketPath));
  subjects = {
    gateway: { name: 'the gateway', at: { port: gateway.port, host: '127.0.0.1' }, app: one.port },
    oracle: { name: 'the oracle', at: { port: oracle.port, host: '127.0.0.1' }, app: two.port },
    workerd: { name: 'workerd', at: { path: three.socketPath }, app: three.port },
  };
});
after(() => parts.disposeAsync());

/**
 * Sends the pieces one by one. Returns the answers and the requests that the app read.
 * The answers end with that of `/end`, or with the connection.
 */
async function exchange(
  { name, at, app }: Subject,
  pieces: Buffer[],
): Promise<{ answers: WireAnswer[]; read: string[] }> {
  const socket: Socket = connect({ ...at, noDelay: true });
  let received = '';
  let over = false;
  const answered = new Promise<void>((resolve) => {
    const end = () => {
      over = true;
      resolve();
    };
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      if (answersOf(received).some((answer) => answer.whole && saw(answer)?.url === 'http://a/end')) end();
    });
    socket.on('error', () => {});
    socket.on('end', end);
    socket.on('close', end);
  });
  for (const piece of pieces) {
    if (over) break;
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await within(answered, `the end of the answers of ${name}`).finally(() => socket.destroy());
  const log = await call(app, '/', { headers: { host: 'log' } });
  return { answers: answersOf(received), read: (JSON.parse(log.body) as string[]).map(decodeURIComponent) };
}

function answersOf(received: string): WireAnswer[] {
  return readAnswers(received, (answer) => saw(answer)?.method === 'HEAD');
}

function saw(answer: WireAnswer): { method: string; url: string; body: string } | undefined {
  const text = answer.headers.get('x-saw');
  return text === undefined ? undefined : JSON.parse(decodeURIComponent(text));
}

/** Returns what the app saw, request by request, up to the first refusal. */
function accepted(answers: WireAnswer[]): string[] {
  const refused = answers.findIndex((answer) => saw(answer) === undefined);
  return answers.slice(0, refused === -1 ? undefined : refused).map((answer) => JSON.stringify(saw(answer)));
}

/** The recorded request with its URL percent-encoded: workerd gives a Worker the client's raw bytes. */
function encoded(seen: string): unknown {
  const request = JSON.parse(seen) as { url: string };
  return { ...request, url: new URL(request.url).href };
}

test('workerd and another gateway agree on every request that the gateway accepts', async () => {
  let taken = 0;
  let alike = 0;
  const property = fc.asyncProperty(stream, async (pieces) => {
    const sent = pieces.map((piece) => piece.toString('latin1').replace(PADDING, ''));
    // The oracle forwards with undici, which cannot send this request.
    fc.pre(!sent.join('').includes('OPTIONS * '));
    // Node's parser accepts only ASCII in a target.
    fc.pre(!/[A-Z]* \S*[\x80-\xff]\S* HTTP/i.test(sent.join('')));
    const [gateway, oracle, workerd] = await Promise.all([
      exchange(subjects.gateway, pieces),
      exchange(subjects.oracle, pieces),
      exchange(subjects.workerd, pieces),
    ]);
    const statuses = [gateway, oracle, workerd].map(({ answers }) => answers.map(({ status }) => status));
    const told = `${JSON.stringify({ sent, statuses })}`;
    const { read } = gateway;
    const answered = gateway.answers.map(saw).filter((request) => request !== undefined);
    assert.deepEqual(
      read,
      answered.map((request) => JSON.stringify(request)),
      `others were answered: ${told}`,
    );
    const first = accepted(gateway.answers);
    assert.deepEqual(first, accepted(oracle.answers).slice(0, first.length), `not as the oracle: ${told}`);
    // When workerd refuses a request, it closes the connection with the requests still under way on it.
    const both = Math.min(read.length, workerd.read.length);
    const [here, there] = [read, workerd.read].map((all) => all.slice(0, both).map(encoded));
    assert.deepEqual(here, there, `not as workerd reads it: ${told}`);
    taken += read.length;
    alike += both;
  });
  await fc.assert(property, CASES);
  assert.ok(alike > CASES.numRuns / 2, `workerd was compared on ${alike} of ${taken} requests only`);
});
