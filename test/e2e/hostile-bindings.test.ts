// Hostile use of browsers, of pipelines, and of SQL over data points: other apps and the host keep working.
// Attacks by containers are in `containers.test.ts`, which has an engine.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { availableParallelism, loadavg } from 'node:os';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';

const TOKEN = 'key-of-the-endpoint';
/** Load per processor, at least 1. Time limits are multiplied by it. */
const load = () => Math.max(1, loadavg()[0]! / availableParallelism());
const SLOWEST_MS = 5_000;

/** Paths that reached the operator's endpoint, which accepts no connection. */
const reached: string[] = [];
const endpoint = createServer((request, response) => {
  reached.push(request.url!);
  response.writeHead(403).end();
});
let cellar: Cellar;
let neighbour = '';
const LAUNCHES = `export default { fetch(request, { BROWSER }) {
  const { pathname, search } = new URL(request.url);
  return BROWSER.fetch('http://b' + pathname + search, { method: request.method });
} }`;

before(async () => {
  endpoint.listen(0, '127.0.0.1');
  await once(endpoint, 'listening');
  const { port } = endpoint.address() as AddressInfo;
  cellar = await new Cellar({ RUNNER_BROWSER_URL: `ws://127.0.0.1:${port}/?token=${TOKEN}` }).start();
  await cellar.deploy('good', 'hello');
  const browser = { binding: 'BROWSER' };
  await cellar.deploy('neighbour', 'hello', {
    'index.js': LAUNCHES,
    'wrangler.jsonc': JSON.stringify({ main: 'index.js', compatibility_date: '2026-10-01', browser }),
  });
  const config = JSON.parse(readFileSync(new URL('../apps/hostile/wrangler.jsonc', import.meta.url), 'utf8'));
  const more = {
    browser,
    pipelines: [{ binding: 'RECORDS', pipeline: 'files' }],
    analytics_engine_datasets: [{ binding: 'POINTS', dataset: 'points' }],
  };
  await cellar.deploy('greedy', 'hostile', { 'wrangler.jsonc': JSON.stringify({ ...config, ...more }) });
  // The longest time, because nothing uses this session before the test ends.
  const launch = '/v1/devtools/browser?keep_alive=600000';
  const { text } = await cellar.get('neighbour', launch, { method: 'POST' });
  neighbour = JSON.parse(text).sessionId;
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  endpoint.close();
});

async function ask(path: string) {
  const { status, text } = await cellar.get('greedy', path);
  assert.equal(status, 200, text);
  return JSON.parse(text);
}

/** Sends requests to the good app until `ended`. Returns its slowest answer time, in ms. */
async function slowestAnswer(ended: Promise<unknown>): Promise<number> {
  let slowest = 0;
  let isOver = false;
  void ended.finally(() => {
    isOver = true;
  });
  for (; !isOver; await sleep(20)) {
    const asked = performance.now();
    assert.equal((await cellar.get('good')).status, 200);
    slowest = Math.max(slowest, performance.now() - asked);
  }
  return slowest;
}

test('an app has a few browsers, and no path leads to those of another app', async () => {
  const { launched, tried, opened } = await ask(`/browse?name=${neighbour}`);
  assert.equal(tried, 60);
  const count = launched.filter((status: number) => status === 200).length;
  // An account may have 8 sessions, and the neighbour of the same account has one.
  assert.equal(count, 7);
  assert.ok(launched.every((status: number) => status === 200 || status === 429));
  assert.deepEqual(opened, []);
  assert.deepEqual([...new Set(reached)], [`/?token=${TOKEN}`].slice(0, reached.length));
  const { text } = await cellar.get('neighbour', '/v1/sessions');
  assert.deepEqual(JSON.parse(text).sessions[0].sessionId, neighbour);
  assert.ok(!cellar.output.includes(TOKEN));
});

test('a pipeline takes records only, and nothing else behind its binding answers', async () => {
  const { said, objects } = await ask('/records');
  const refused = said.filter((each: string) => each.startsWith('failed: '));
  assert.equal(said.length - refused.length, 5, JSON.stringify(said));
  assert.deepEqual(objects, []);
});

test('long queries delay neither other accounts nor the host', async (t) => {
  const rpc = rpcOf(cellar);
  const { id } = await rpc('accounts.create', { name: 'other', email: 'other@example.com' });
  const { key } = await rpc('keys.create', { account: id });
  const { owner } = (await rpc('apps.list', {})).items[0];
  const query = async (sql: string, account = owner, token = cellar.token) => {
    const address = `${cellar.api}/client/v4/accounts/${account}/analytics_engine/sql`;
    const response = await fetch(address, {
      method: 'POST',
      body: sql,
      headers: { authorization: `Bearer ${token}` },
    });
    return [response.status, await response.text()] as const;
  };
  await eventually(async () => {
    assert.equal((await cellar.get('greedy', '/points')).text, 'written');
    const [, text] = await query('SELECT count() AS n FROM points FORMAT TabSeparated');
    return Number(text) >= 200;
  }, 'many points are stored');
  const slow = Array.from({ length: 40 }, () => `blob1 LIKE '%${'a%'.repeat(500)}b'`).join(' OR ');
  const ended = query(`SELECT count() FROM points WHERE ${slow}`);
  const other = performance.now();
  assert.equal((await query('SELECT 1 AS one', id, key))[0], 200);
  const otherMs = performance.now() - other;
  const slowest = await slowestAnswer(ended);
  const [status, text] = await ended;
  assert.ok([200, 504].includes(status), text);
  t.diagnostic(`slowest answer ${slowest.toFixed(0)} ms, the other account's after ${otherMs.toFixed(0)} ms`);
  assert.ok(slowest < SLOWEST_MS * load(), `${slowest} ms`);
  assert.ok(otherMs < SLOWEST_MS * load(), `${otherMs} ms`);
});
