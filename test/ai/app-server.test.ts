// The AI service: how many of the concurrent calls one account may use.
import assert from 'node:assert/strict';
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
  return (model: string, signal?: AbortSignal) => {
    const headers = { 'content-type': 'application/json', 'cf-consn-model-id': model };
    return post(socket, '/run', { headers, body: JSON.stringify({ inputs: { prompt: 'hi' } }), signal });
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
  const begun = Promise.withResolvers<void>();
  const { fetch } = globalThis;
  t.mock.method(globalThis, 'fetch', async (...words: Parameters<typeof fetch>) => {
    const response = await fetch(...words);
    begun.resolve();
    return response;
  });
  const answer = run('stuck');
  await begun.promise;
  deadline.abort(new DOMException('The operation timed out.', 'TimeoutError'));
  const { status, text } = await answer;
  assert.equal(status, 408, text);
  assert.match(text, /The AI server did not answer in time/);
});
