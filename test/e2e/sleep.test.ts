// Sleep and wake through a whole Cellar.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar, COUNTER_CLASS, COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { cells, controlPlane, eventually, resume } from '../support/processes.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

/** Waits until the status is running: the control plane stores it after the request was served. */
const runs = (id: string) =>
  eventually(async () => (await cellar.app(id)).status === 'running', `${id} reads as running`);
const gone = (id: string) => eventually(() => cells(id).length === 0, `the process of ${id} goes`);
const sleep = (id: string) => cellar.call('POST', `/v1/apps/${id}/sleep`);
/** Calls the wake hop, as a proxy does before it forwards a request. */
const hop = async (host: string) => {
  const response = await fetch(`${cellar.api}/v1/edge/wake`, {
    headers: { 'x-forwarded-host': host },
    signal: AbortSignal.timeout(60_000),
  });
  const body = (await response.json()) as { code?: string };
  return { status: response.status, body };
};

/** Returns the resident memory of a process, in MiB. */
const residentMiB = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
const opened = (socket: EventTarget) => once(socket, 'open', { signal: AbortSignal.timeout(60_000) });

const COUNTER = {
  'wrangler.toml': COUNTER_CONFIG,
  'index.js': `${COUNTER_CLASS}export default {
  async fetch(request, env) {
    let bytes = 0;
    for await (const chunk of request.body ?? []) bytes += chunk.length;
    return new Response((await env.COUNTER.getByName('one').add()) + ' ' + bytes);
  },
};`,
};

test('a sleeping app has no process and the status sleeping; its next request wakes it with its data', async () => {
  const id = await cellar.deploy('sleeper', 'hello', COUNTER);
  assert.equal((await cellar.get('sleeper')).text, '1 0');
  const { status, body } = await sleep(id);
  assert.deepEqual([status, body.status, body.desired_state], [200, 'sleeping', 'running']);
  await gone(id);
  const health = await cellar.get('sleeper', '/.well-known/fleet/health');
  assert.equal(JSON.parse(health.text).state, 'stopped');
  assert.deepEqual(cells(id), [], 'asking for its health wakes nothing');
  assert.equal((await cellar.get('sleeper')).text, '2 0');
  await runs(id);
  const woken = await cellar.app(id);
  assert.equal(woken.asleep_since, null);
  assert.ok(woken.woke_at > body.asleep_since);
  assert.equal(cells(id).length, 1);
  await cellar.waitFor(/app goes to sleep app=sleeper\n[\s\S]*app wakes app=sleeper\n/);
});

test('in maintenance visitors get the page, nothing wakes the app, and a restart keeps it on', async () => {
  const id = await cellar.deploy('maintained', 'hello', COUNTER);
  assert.equal((await cellar.get('maintained')).text, '1 0');
  await sleep(id);
  await gone(id);
  const rpc = rpcOf(cellar);
  await rpc('maintenance.set', { id, enabled: true });
  const asks = async (accept: string, init: { method?: string; body?: string } = {}) => {
    const answer = await cellar.get('maintained', '/any', { ...init, headers: { accept } });
    assert.equal(answer.status, 503);
    assert.equal(answer.headers.get('retry-after'), '60');
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    return answer;
  };
  const own = await asks('text/html');
  assert.match(own.text, /<h1>The app is being worked on<\/h1>/);
  assert.match(own.headers.get('content-security-policy')!, /default-src 'none'/);
  assert.equal(JSON.parse((await asks('*/*')).text).code, 'app_unavailable');
  assert.equal((await asks('text/html', { method: 'HEAD' })).text, '');
  await asks('*/*', { method: 'POST', body: 'x'.repeat(1024 * 1024) });

  const html = '<h1>Zurück um zwölf</h1>';
  await rpc('maintenance.set', { id, html });
  const shown = await asks('text/html,*/*;q=0.8');
  assert.equal(shown.text, html);
  assert.equal(shown.headers.get('content-type'), 'text/html; charset=utf-8');
  assert.equal(shown.headers.get('content-security-policy'), null);
  assert.equal((await hop('maintained.localhost')).status, 200);
  assert.deepEqual(cells(id), [], 'nothing has started the app');
  assert.equal((await cellar.app(id)).status, 'sleeping');

  await cellar.stop();
  await cellar.start();
  assert.equal((await asks('text/html')).text, html);
  const { items } = await rpc('requests.list', { id, limit: 1 });
  assert.equal(items[0].refused, 'maintenance');
  assert.deepEqual(await rpc('maintenance.set', { id, enabled: false }), { enabled: false, html });
  assert.equal((await cellar.get('maintained')).text, '2 0');
  await runs(id);
});

test('a thousand requests share one wake, and a large upload waits for it and arrives complete', async () => {
  const id = await cellar.deploy('crowded', 'hello', COUNTER);
  await sleep(id);
  const before = residentMiB(cellar.pid);
  const [size, piece] = [100 * 1024 * 1024, Buffer.alloc(64 * 1024, 'x')];
  async function* body() {
    for (let sent = 0; sent < size; sent += piece.length) yield piece;
  }
  const upload = cellar.get('crowded', '/', { method: 'POST', body: body(), duplex: 'half' });
  const left = new AbortController();
  const gone = cellar.get('crowded', '/', { signal: left.signal }).catch((error: Error) => error.name);
  setTimeout(() => left.abort(), 20);
  const answers = await Promise.all(Array.from({ length: 998 }, () => cellar.get('crowded')));
  assert.ok(answers.every((answer) => answer.status === 200));
  assert.ok((await upload).text.endsWith(` ${size}`));
  const counts = new Set([...answers, await upload].map(({ text }) => Number(text.split(' ')[0])));
  assert.equal(counts.size, 999, 'each was served once');
  assert.equal(await gone, 'AbortError', 'who leaves does not end the wake for the others');
  assert.equal(cells(id).length, 1);
  const grown = residentMiB(cellar.pid) - before;
  assert.ok(grown < 90, `the host grew by ${grown} MiB for an upload of 100 MiB and a thousand connections`);
});

test('an app whose wake fails answers 503 with Retry-After, stays asleep, and wakes once it can start', async () => {
  const id = await cellar.deploy('fragile', 'hello', COUNTER);
  await sleep(id);
  const at = join(cellar.data, 'releases', id, (await cellar.app(id)).live_deploy_id);
  const [module, kept] = [join(at, 'modules/index.js'), join(at, 'kept.js')];
  renameSync(module, kept);
  writeFileSync(module, "throw new Error('broken')");
  const failed = await cellar.get('fragile');
  assert.equal(failed.status, 503);
  assert.ok(Number(failed.headers.get('retry-after')) >= 1);
  assert.equal(JSON.parse(failed.text).code, 'app_unavailable');
  await eventually(async () => /broken/.test((await cellar.app(id)).last_error), 'it says why');
  assert.equal((await cellar.app(id)).status, 'sleeping');
  const asked = await hop('fragile.localhost');
  assert.equal(asked.status, 503);
  renameSync(kept, module);
  await eventually(async () => (await cellar.get('fragile')).status === 200, 'it wakes after its back-off');
  await runs(id);
  await eventually(async () => (await cellar.app(id)).last_error === null, 'the error is over');
});

test('the wake hop wakes apps by slug and domain, answers 200 for other sites, and refuses unknown hosts', async () => {
  const id = await cellar.deploy('hopped', 'hello');
  await cellar.call('POST', `/v1/apps/${id}/domains`, { hostname: 'hopped.example' });
  for (const host of ['hopped.localhost', 'hopped.localhost:8787', 'HOPPED.example']) {
    await sleep(id);
    assert.equal((await hop(host)).status, 200, host);
    await runs(id);
    assert.equal((await hop(host)).status, 200, 'awake already');
  }
  for (const host of ['localhost', 'api.localhost', 'git.localhost'])
    assert.equal((await hop(host)).status, 200);
  assert.equal((await hop('nobody.example')).body.code, 'unknown_host');
  const rpc = rpcOf(cellar);
  const unknown = await rpc('domains.check', { id, hostname: 'other.example' });
  assert.equal(unknown.code, 'domain_not_found', 'a hostname of no app is not looked up');
  const { items } = await rpc('admin.settings', {});
  const port = items.find(({ name }: { name: string }) => name === 'RUNNER_EDGE_PORT');
  assert.equal(port.from, 'environment');
  assert.ok(!JSON.stringify(items).includes(cellar.token));
});

test('a push to a sleeping app wakes it and is served', async () => {
  const id = await cellar.deploy('pushed', 'hello');
  await sleep(id);
  await cellar.deployAgain('pushed', 'hello', COUNTER);
  await runs(id);
  const { asleep_since, woke_at } = await cellar.app(id);
  assert.equal(asleep_since, null);
  assert.ok(woke_at);
  assert.equal((await cellar.get('pushed')).text, '1 0');
});

test('the sleep of an app closes its WebSockets with the code for a restart, and leaves those of others open', async () => {
  const [chat, other] = [await cellar.deploy('talking', 'chat'), await cellar.deploy('nearby', 'chat')];
  const own = cellar.webSocket('talking', '/rooms/one/socket');
  const others = cellar.webSocket('nearby', '/rooms/one/socket');
  await Promise.all([opened(own), opened(others)]);
  const closed = once(own, 'close', { signal: AbortSignal.timeout(60_000) });
  assert.equal((await sleep(chat)).status, 200);
  const [event] = (await closed) as [{ code: number }];
  assert.equal(event.code, 1012);
  assert.equal((await cellar.get('talking')).status, 200);
  const message = once(others, 'message', { signal: AbortSignal.timeout(60_000) });
  others.send(JSON.stringify({ name: 'a', text: 'still here' }));
  await message;
  others.close();
  assert.equal(cells(other).length, 1);
});

test('a sleeping app wakes while the control plane hangs, and while it is dead', async () => {
  const id = await cellar.deploy('unlucky', 'hello', COUNTER);
  const control = () => controlPlane(cellar.pid)!;
  for (const [index, ask] of [() => cellar.get('unlucky'), () => hop('unlucky.localhost')].entries()) {
    for (const signal of ['SIGSTOP', 'SIGKILL'] as const) {
      await eventually(async () => (await sleep(id)).status === 200, `it sleeps, ${index} ${signal}`);
      const { pid } = control();
      process.kill(pid, signal);
      assert.equal((await ask()).status, 200);
      assert.equal(cells(id).length, 1);
      if (signal === 'SIGSTOP') resume(pid);
      await runs(id);
      assert.equal((await cellar.app(id)).asleep_since, null);
    }
  }
});
