// The AI service: how many of the concurrent calls one account may use.
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { AppServer } from '../../runtime/ai/app-server.ts';
import { noCapacity } from '../../runtime/ai/errors.ts';
import type { Shared } from '../../runtime/app-services/app-calls.ts';
import { Budget } from '../../runtime/app-services/budget.ts';
import { OutwardServices } from '../../runtime/apps/outward-services.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { FairQueue } from '../../runtime/queues/fair-queue.ts';
import { AI_KEY, AiServer } from '../support/ai/server.ts';
import { listeningSocketOf, post } from '../support/app-socket.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

/** Serves the AI binding of an app. @returns a call of it */
async function serving(t: TestContext, { url }: AiServer, shared: Shared) {
  const { handle, socket } = listeningSocketOf(t);
  const answerer = await AppServer.listen(handle, { url, key: AI_KEY, models: {} }, shared);
  t.after(() => answerer.close());
  return (model: string, signal?: AbortSignal, inputs = '{"prompt":"hi"}') => {
    const headers = { 'content-type': 'application/json', 'cf-consn-model-id': model };
    return post(socket, '/run', { headers, body: `{"inputs":${inputs}}`, signal });
  };
}

test('calls of one account queue behind each other, and calls of another account do not', async (t) => {
  await using upstream = await new AiServer().start();
  const budget = new Budget(2 ** 30, noCapacity);
  const queue = new FairQueue({ name: 'calls', running: 128, runningPerOwner: 32, waitingPerOwner: 20 });
  const serve = (owner: string) => serving(t, upstream, { owner, budget, queue });
  const [first, second, modest] = [await serve('greedy'), await serve('greedy'), await serve('modest')];
  const leaving = new AbortController();
  for (let at = 0; at < 26; at++)
    for (const run of [first, second]) run('slow', leaving.signal).catch(() => {});
  await eventually(() => queue.waiting === 20 && upstream.asked.length === 32, '20 calls wait for 32');
  const one = await first('quick');
  assert.equal(one.status, 429);
  assert.match(one.text, /at most 20 calls of one account may wait at once/);
  const others = await modest('quick');
  assert.equal(others.status, 200, others.text);
  leaving.abort();
  await eventually(() => queue.waiting + queue.running === 0, 'calls end with their clients');
  assert.equal(upstream.asked.length, 33);
  assert.equal((await second('quick')).status, 200);
});

test('the AI service process counts calls by account, not by app', async (t) => {
  await using upstream = await new AiServer().start();
  const paths = layout(temporaryDirectory(t));
  const users = () => ({ build: null, cell: null });
  const ai = { url: upstream.url, key: AI_KEY, models: {} };
  const services = new OutwardServices({ paths, users, ai, mail: null });
  t.after(() => services.close());
  const serve = async (app: string, owner: string) => {
    const { ai: way } = services.access(app, () => ({ family: app, owner }));
    await way!.open();
    return (model: string) => {
      const headers = { 'content-type': 'application/json', 'cf-consn-model-id': model };
      return post(way!.socket, '/run', { headers, body: JSON.stringify({ inputs: { prompt: 'hi' } }) });
    };
  };
  const [first, second] = [await serve('first', 'greedy'), await serve('second', 'greedy')];
  const modest = await serve('third', 'modest');
  const calls = Array.from({ length: 20 }, () => [first('slow'), second('slow')]).flat();
  await eventually(() => upstream.asked.length === 32, 'one account has 32 calls');
  assert.equal((await modest('quick')).status, 200);
  assert.equal(upstream.asked.length, 33);
  upstream.letGo();
  await eventually(() => upstream.asked.length === 41, 'the others have their turn');
  upstream.letGo();
  for (const { status } of await Promise.all(calls)) assert.equal(status, 200);
});

test('an answer that stops halfway fails by the deadline as one that never began', async (t) => {
  await using upstream = await new AiServer().start();
  const deadline = new AbortController();
  t.mock.method(AbortSignal, 'timeout', () => deadline.signal);
  const budget = new Budget(2 ** 30, noCapacity);
  const queue = new FairQueue({ name: 'calls', running: 1, runningPerOwner: 1, waitingPerOwner: 1 });
  const run = await serving(t, upstream, { owner: 'patient', budget, queue });
  const begun = new Promise((resolve) => subscribe('undici:request:headers', resolve));
  const answer = run('stuck');
  await begun;
  deadline.abort(new DOMException('The operation timed out.', 'TimeoutError'));
  const { status, text } = await answer;
  assert.equal(status, 408, text);
  assert.match(text, /The AI server did not answer in time/);
});

test('the wait in the queue is no silence of the connection', async (t) => {
  await using upstream = await new AiServer().start();
  const sockets: Socket[] = [];
  const collect = (message: unknown) => {
    const { request, socket } = message as { request: { url: string }; socket: Socket };
    if (request.url === '/run') sockets.push(socket);
  };
  subscribe('http.server.request.start', collect);
  t.after(() => unsubscribe('http.server.request.start', collect));
  const budget = new Budget(2 ** 30, noCapacity);
  const queue = new FairQueue({ name: 'calls', running: 1, runningPerOwner: 1, waitingPerOwner: 1 });
  const run = await serving(t, upstream, { owner: 'patient', budget, queue });
  const first = run('slow');
  await eventually(() => upstream.asked.length === 1, 'the first call runs');
  const second = run('slow');
  await eventually(() => queue.waiting === 1, 'the second call waits');
  assert.deepEqual(
    sockets.map(({ timeout }) => timeout),
    [11 * 60_000, 0],
  );
  upstream.letGo();
  assert.equal((await first).status, 200);
  await eventually(() => upstream.asked.length === 2, 'the second call runs');
  assert.equal(sockets[1]!.timeout, 11 * 60_000);
  upstream.letGo();
  assert.equal((await second).status, 200);
});

test('an error of the service itself is not reported as one of the AI server', async (t) => {
  await using upstream = await new AiServer().start();
  const budget = new Budget(2 ** 30, noCapacity);
  const queue = { run: () => Promise.reject(new TypeError('a mistake')) } as unknown as FairQueue;
  const run = await serving(t, upstream, { owner: 'unlucky', budget, queue });
  const { status, text } = await run('quick');
  assert.equal(status, 500, text);
  assert.match(text, /Cellar failed/);
});

test('an answer that breaks off is reported as one of the AI server', async (t) => {
  await using upstream = await new AiServer().start();
  const budget = new Budget(2 ** 30, noCapacity);
  const queue = new FairQueue({ name: 'calls', running: 1, runningPerOwner: 1, waitingPerOwner: 1 });
  const run = await serving(t, upstream, { owner: 'unlucky', budget, queue });
  const begun = new Promise((resolve) => subscribe('undici:request:headers', resolve));
  const answer = run('stuck');
  await begun;
  upstream.cut();
  const { status, text } = await answer;
  assert.equal(status, 502, text);
  assert.match(text, /ended its answer too early/);
});

test('inputs that would need many times their bytes once parsed are refused before, but images are accepted', async (t) => {
  await using upstream = await new AiServer().start();
  const budget = new Budget(2 ** 30, noCapacity);
  const queue = new FairQueue({ name: 'calls', running: 1, runningPerOwner: 1, waitingPerOwner: 1 });
  const run = await serving(t, upstream, { owner: 'greedy', budget, queue });
  const many = (part: string) => part.repeat((7 * 2 ** 20) / part.length);
  const names = Array.from({ length: 300_000 }, (_, n) => `"x${n}":1`).join();
  for (const inputs of [`{"messages":[${many('{},')}{}]}`, `{"prompt":"hi",${names}}`]) {
    const { status, text } = await run('quick', undefined, inputs);
    assert.equal(status, 400, text);
    assert.match(text, /at most 200000 objects, arrays and fields/);
  }
  assert.equal(upstream.asked.length, 0);
  const png = `137,80,78,71,13,10,26,10,${many('7,')}7`;
  const { status, text } = await run('quick', undefined, `{"prompt":"{[:","image":[${png}]}`);
  assert.equal(status, 200, text);
  assert.match(upstream.asked[0]!.body.messages[0].content[1].image_url.url, /^data:image\/png;base64,/);
});
