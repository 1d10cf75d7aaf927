// The edge of a real Cellar: rate limits and the access log.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';

const cellar = new Cellar({
  SERVICE_EDGE_RPM: '60',
  SERVICE_EDGE_GIT_RPM: '120',
  RUNNER_TRUSTED_PROXIES: '127.0.0.1',
});
/** More requests than any limit here admits, also when it refills while a busy machine sends them. */
const MANY = 60;
let app: string;

before(async () => {
  await cellar.start();
  app = await cellar.create('hello');
  const { code, stderr } = await cellar.push(await cellar.checkout('hello'), 'hello');
  assert.equal(code, 0, stderr);
});
after(() => cellar[Symbol.asyncDispose]());

/** Returns the statuses of `count` requests from one client. */
function ask(slug: string, client: string, count: number, path = '/'): Promise<number[]> {
  const headers = { 'x-forwarded-for': client };
  // In parallel: sequential requests may be slow enough to stay below the limit.
  const asked = Array.from({ length: count }, () => cellar.get(slug, path, { headers }));
  return Promise.all(asked.map(async (answer) => (await answer).status));
}
const admitted = (statuses: number[]) => statuses.filter((status) => status !== 429).length;

/** Asserts that as many requests were admitted as a limit of `rpm` allows: its burst and its refill meanwhile. */
async function assertLimited(rpm: number, requests: () => Promise<number[]>): Promise<void> {
  const begun = performance.now();
  const statuses = await requests();
  const minutes = (performance.now() - begun) / 60_000;
  const [count, burst] = [admitted(statuses), rpm / 6];
  assert.ok(count >= burst && count <= burst + Math.ceil(minutes * rpm), `${count} were admitted`);
  assert.ok(count < statuses.length, 'some were refused');
}

async function rpc(method: string, params: object) {
  const { body } = await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
  assert.equal(body.error, undefined, JSON.stringify(body.error));
  return body.result;
}

test('each client has a separate rate limit on each site, and the loopback API has none', async () => {
  await assertLimited(60, () => ask('hello', '192.0.2.1', MANY));
  await assertLimited(60, () => ask('hello', '192.0.2.2', MANY));
  await assertLimited(60, () => ask('api', '192.0.2.1', MANY, '/health'));
  await assertLimited(120, () =>
    ask('git', '192.0.2.1', 2 * MANY, '/hello/info/refs?service=git-upload-pack'),
  );
  // All unknown hosts share the limit of the fallback page.
  await assertLimited(60, async () => [
    ...(await ask('nobody', '192.0.2.1', MANY / 2)),
    ...(await ask('no-one', '192.0.2.1', MANY / 2)),
  ]);
  for (let i = 0; i < 30; i++) assert.equal((await cellar.call('GET', '/health')).status, 200);
});

test('git shows its user that the rate limit is reached, and when to retry', async () => {
  const visitor = ['-c', 'http.extraHeader=X-Forwarded-For: 192.0.2.9'];
  const flood = () => ask('git', '192.0.2.9', 20, '/hello/info/refs?service=git-upload-pack');
  await eventually(async () => {
    await flood();
    let hasEnded = false;
    const listing = cellar
      .git(cellar.directory, ...visitor, 'ls-remote', cellar.remote('hello'))
      .finally(() => {
        hasEnded = true;
      });
    // Otherwise the limit might refill before git has started.
    while (!hasEnded) await flood();
    const { code, stderr } = await listing;
    return code === 128 && /^remote: Too many requests\. Try again in \d+ seconds?\./m.test(stderr);
  }, 'git says that the limit is reached');
});

test('requests of git without credentials do not use up the rate limit of its operations', async () => {
  const challenged = await ask('git', '192.0.2.10', 19, '/hello/info/refs?service=git-upload-pack');
  assert.deepEqual(challenged, Array(19).fill(401));
  const visitor = ['-c', 'http.extraHeader=X-Forwarded-For: 192.0.2.10'];
  const remote = cellar.remote('hello');
  const { code, stderr } = await cellar.git(cellar.directory, ...visitor, 'ls-remote', remote);
  assert.equal(code, 0, stderr);
});

test('the rate limit does not interrupt a git operation that has begun', async () => {
  const headers = {
    'x-forwarded-for': '192.0.2.11',
    authorization: `Basic ${Buffer.from(`git:${cellar.key}`).toString('base64')}`,
  };
  const begin = async () => {
    const path = '/hello/info/refs?service=git-upload-pack';
    return (await cellar.get('git', path, { headers })).status;
  };
  const goOn = async (slug: string) => {
    const path = `/${slug}/git-upload-pack`;
    const type = { 'content-type': 'application/x-git-upload-pack-request' };
    const init = { method: 'POST', headers: { ...headers, ...type }, body: '0000' };
    return (await cellar.get('git', path, init)).status;
  };
  // In parallel: on a busy machine, one after another would be slower than the limit refills.
  const beginMany = () => Promise.all(Array.from({ length: 30 }, begin));
  await eventually(async () => (await beginMany()).includes(429), 'the limit is reached');
  assert.equal(await goOn('hello'), 200);
  // The later requests of a git operation have a separate, higher limit. A real operation does not reach it.
  await eventually(async () => {
    const statuses = await Promise.all(Array.from({ length: 30 }, () => goOn('nobody')));
    return statuses.includes(429) && statuses.every((status) => [404, 429].includes(status));
  }, 'the limit of what follows is reached');

  const visitor = ['-c', 'http.extraHeader=X-Forwarded-For: 192.0.2.12'];
  const remote = cellar.remote('hello');
  const asked = Array.from({ length: 30 }, () =>
    cellar.git(cellar.directory, ...visitor, 'ls-remote', remote),
  );
  for (const { code, stderr } of await Promise.all(asked)) {
    if (code !== 0) assert.match(stderr, /^remote: Too many requests\. Try again in \d+ seconds?\./m);
  }
});

test("an app's own rate limits apply at once, and null restores the default", async () => {
  const defaults = { clientRpm: 60, appRpm: 0 };
  assert.deepEqual(await rpc('limits.get', { id: app }), { clientRpm: null, appRpm: null, defaults });
  await rpc('limits.set', { id: app, clientRpm: 18 });
  await assertLimited(18, () => ask('hello', '198.51.100.1', MANY));
  await rpc('limits.set', { id: app, clientRpm: 0 });
  assert.equal(admitted(await ask('hello', '198.51.100.1', 20)), 20);
  await rpc('limits.set', { id: app, clientRpm: null, appRpm: 24 });
  await assertLimited(24, async () => [
    ...(await ask('hello', '198.51.100.2', MANY / 2)),
    ...(await ask('hello', '198.51.100.3', MANY / 2)),
  ]);
  // Health checks do not count as traffic of the app.
  assert.deepEqual(await ask('hello', '198.51.100.2', 2, '/.well-known/fleet/health'), [200, 200]);
  await rpc('limits.set', { id: app, appRpm: null });
  await assertLimited(60, () => ask('hello', '198.51.100.4', MANY));
});

test('every request at the edge is one line of the access log, written at the latest when the host stops', async () => {
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const headers = { 'x-forwarded-for': '203.0.113.77', traceparent: trace, 'user-agent': 'test/1' };
  const { headers: answered } = await cellar.get('hello', '/logged?token=secret', { headers });
  const statuses = await ask('hello', '203.0.113.88', MANY, '/limited');
  assert.ok(statuses.includes(429));
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
    of('/limited')
      .map(({ status }) => status)
      .sort(),
    statuses.sort(),
  );
  assert.doesNotMatch(text, /secret|203\.0\.113\.77/);
  // The push in `before` is logged too.
  assert.ok(lines.some(({ site, request }) => site === 'git' && request.uri === '/hello/git-receive-pack'));
});
