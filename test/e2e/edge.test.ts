// The edge of a real Cellar: limits, the access log.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';

const cellar = new Cellar({
  SERVICE_EDGE_RPM: '60',
  SERVICE_EDGE_GIT_RPM: '120',
  RUNNER_TRUSTED_PROXIES: '127.0.0.1',
});
let app: string;

before(async () => {
  await cellar.start();
  app = await cellar.create('hello');
  const { code, stderr } = await cellar.push(await cellar.checkout('hello'), 'hello');
  assert.equal(code, 0, stderr);
});
after(() => cellar[Symbol.asyncDispose]());

/** Statuses of `count` requests of one visitor, one after the other. */
async function ask(slug: string, client: string, count: number, path = '/'): Promise<number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < count; i++) {
    statuses.push((await cellar.get(slug, path, { headers: { 'x-forwarded-for': client } })).status);
  }
  return statuses;
}
const admitted = (statuses: number[]) => statuses.filter((status) => status !== 429).length;

async function rpc(method: string, params: object) {
  const { body } = await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
  assert.equal(body.error, undefined, JSON.stringify(body.error));
  return body.result;
}

test('each visitor has a limit of its own on each site, and the loopback API has none', async () => {
  assert.equal(admitted(await ask('hello', '192.0.2.1', 12)), 10);
  assert.equal(admitted(await ask('hello', '192.0.2.2', 12)), 10);
  assert.equal(admitted(await ask('api', '192.0.2.1', 12, '/health')), 10);
  assert.equal(admitted(await ask('git', '192.0.2.1', 22, '/hello/info/refs?service=git-upload-pack')), 20);
  // All unknown hosts together are the fallback page's.
  assert.equal(
    admitted([...(await ask('nobody', '192.0.2.1', 6)), ...(await ask('no-one', '192.0.2.1', 6))]),
    10,
  );
  for (let i = 0; i < 30; i++) assert.equal((await cellar.call('GET', '/health')).status, 200);
});

test('git tells its user that a limit is reached, and for how long', async () => {
  await ask('git', '192.0.2.9', 20, '/hello/info/refs?service=git-upload-pack');
  const visitor = ['-c', 'http.extraHeader=X-Forwarded-For: 192.0.2.9'];
  const { code, stderr } = await cellar.git(
    cellar.directory,
    ...visitor,
    'ls-remote',
    cellar.remote('hello'),
  );
  assert.equal(code, 128);
  assert.match(stderr, /^remote: Too many requests\. Try again in \d+ seconds?\./m);
});

test('requests that git makes to be asked for credentials do not use up the limit of the operation', async () => {
  const challenged = await ask('git', '192.0.2.10', 19, '/hello/info/refs?service=git-upload-pack');
  assert.deepEqual(challenged, Array(19).fill(401));
  const visitor = ['-c', 'http.extraHeader=X-Forwarded-For: 192.0.2.10'];
  const remote = cellar.remote('hello');
  const { code, stderr } = await cellar.git(cellar.directory, ...visitor, 'ls-remote', remote);
  assert.equal(code, 0, stderr);
});

test("an app's own limits count at once, and null goes back to the default", async () => {
  const defaults = { clientRpm: 60, appRpm: 0 };
  assert.deepEqual(await rpc('limits.get', { id: app }), { clientRpm: null, appRpm: null, defaults });
  await rpc('limits.set', { id: app, clientRpm: 18 });
  assert.equal(admitted(await ask('hello', '198.51.100.1', 5)), 3);
  await rpc('limits.set', { id: app, clientRpm: 0 });
  assert.equal(admitted(await ask('hello', '198.51.100.1', 20)), 20);
  await rpc('limits.set', { id: app, clientRpm: null, appRpm: 24 });
  assert.equal(
    admitted([...(await ask('hello', '198.51.100.2', 3)), ...(await ask('hello', '198.51.100.3', 3))]),
    4,
  );
  // Health is not the app's traffic.
  assert.deepEqual(await ask('hello', '198.51.100.2', 2, '/.well-known/fleet/health'), [200, 200]);
  await rpc('limits.set', { id: app, appRpm: null });
  assert.equal(admitted(await ask('hello', '198.51.100.4', 12)), 10);
});

test('every request at the edge is one line of the access log, written at the latest when the host ends', async () => {
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const headers = { 'x-forwarded-for': '203.0.113.77', traceparent: trace, 'user-agent': 'test/1' };
  const { headers: answered } = await cellar.get('hello', '/logged?token=secret', { headers });
  await ask('hello', '203.0.113.88', 11, '/limited');
  await cellar.stop();
  const text = readFileSync(join(cellar.data, 'log/access.ndjson'), 'utf8');
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const of = (path: string) => lines.filter(({ request }) => request.uri === path);
  assert.equal(of('/logged').length, 1);
  const [line] = of('/logged');
  assert.equal(line.request.client_ip, '203.0.113.0');
  assert.equal(line.request.host, 'hello.localhost');
  assert.equal(line.status, 200);
  assert.equal(line.site, app);
  assert.equal(line.trace_id, trace.slice(3, 35));
  assert.equal(line.request_id, answered.get('x-request-id'));
  assert.deepEqual(line.request.headers['User-Agent'], ['test/1']);
  assert.deepEqual(
    of('/limited').map(({ status }) => status),
    [...Array(10).fill(200), 429],
  );
  assert.doesNotMatch(text, /secret|203\.0\.113\.77/);
  // The push of this file's start, by its host and site.
  assert.ok(lines.some(({ site, request }) => site === 'git' && request.uri === '/hello/git-receive-pack'));
});
