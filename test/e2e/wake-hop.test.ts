// The wake hop with other proxies: Caddy and nginx, configured as in `docs/proxies.md`, in front of a whole Cellar.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fetch, type RequestInit, WebSocket } from 'undici';
import { Cellar, COUNTER_CLASS, COUNTER_CONFIG, LOCALHOST } from '../support/e2e/cellar.ts';
import { EdgeWatch, type OtherProxy, startCaddy, startNginx } from '../support/e2e/proxies.ts';
import { cells, controlPlane, eventually } from '../support/processes.ts';

const PROXIES = [
  { name: 'caddy', start: startCaddy, skip: whyNot('caddy', 'version') },
  { name: 'nginx', start: startNginx, skip: whyNot('nginx', '-v') },
];
const COUNTER = {
  'wrangler.toml': COUNTER_CONFIG,
  'index.js': `${COUNTER_CLASS}export default {
  async fetch(request, env) {
    let bytes = 0;
    for await (const chunk of request.body ?? []) bytes += chunk.length;
    const ofCloudflare = ['cf-ipcountry', 'cf-access-jwt-assertion', 'cf-visitor', 'cdn-loop'];
    const headers = { 'x-seen': ofCloudflare.map((name) => request.headers.get(name) ?? '').join('') };
    return Response.json({ count: await env.COUNTER.getByName('one').add(), bytes }, { headers });
  },
};`,
};
const BODY_BYTES = 5 * 1024 * 1024;

const cellar = new Cellar({ RUNNER_TRUSTED_PROXIES: '127.0.0.1' });
/** Id of the app that sleeps and wakes. */
let counter: string;
let count = 0;

before(async () => {
  await cellar.start();
  counter = await cellar.deploy('counter', 'hello', COUNTER);
  await cellar.deploy('chat', 'chat');
});
after(() => cellar[Symbol.asyncDispose]());

for (const { name, start, skip } of PROXIES) {
  describe(name, { skip }, () => {
    let proxy: OtherProxy;
    /** Records for each request at the edge whether the app was running. */
    let watch: EdgeWatch;
    before(async () => {
      watch = new EdgeWatch(cellar.edgePort, () => hasProcess());
      const edgePort = await watch.listen();
      const apiPort = Number(new URL(cellar.api).port);
      proxy = await start({ apiPort, edgePort, directory: cellar.directory });
    });
    after(async () => {
      await proxy?.[Symbol.asyncDispose]();
      await watch[Symbol.asyncDispose]();
    });

    const get = async (slug: string, init: RequestInit = {}) => {
      const response = await fetch(`http://${slug}.localhost:${proxy.port}/`, {
        signal: AbortSignal.timeout(60_000),
        ...init,
        dispatcher: LOCALHOST,
      });
      return { status: response.status, headers: response.headers, text: await response.text() };
    };
    const served = async (init: RequestInit, bytes: number) => {
      const { status, headers, text } = await get('counter', init);
      assert.equal(status, 200, text);
      assert.equal(headers.get('x-seen'), '');
      assert.deepEqual(JSON.parse(text), { count: ++count, bytes });
    };

    test('a first request waits at the proxy for the wake and is served, also an upload', async () => {
      const upload = { method: 'POST', body: Buffer.alloc(BODY_BYTES, 'x') };
      for (const [init, bytes] of [[{}, 0] as const, [upload, BODY_BYTES] as const]) {
        await sleep();
        watch.seen.length = 0;
        await served(init, bytes);
        assert.deepEqual(watch.seen, [true], 'the app ran before the edge had the request');
        await eventually(async () => (await app()).status === 'running', 'it reads as running');
      }
    });

    test('headers of Cloudflare that a client forges do not reach the app', async () => {
      const names = ['cf-ipcountry', 'CF-Access-Jwt-Assertion', 'cf-visitor', 'CDN-Loop'];
      await served({ headers: names.map((name) => [name, 'forged']) }, 0);
    });

    test('an awake app is served while the control plane hangs and dies', async () => {
      await served({}, 0);
      const control = controlPlane(cellar.pid);
      assert.ok(control);
      process.kill(control.pid, 'SIGSTOP');
      try {
        await served({}, 0);
        await served({ method: 'POST', body: 'abc' }, 3);
      } finally {
        process.kill(control.pid, 'SIGKILL');
      }
      await served({}, 0);
      const path = `/v1/apps/${counter}`;
      await eventually(async () => (await cellar.call('GET', path)).status === 200, 'it is back');
    });

    test('an unknown host gets an error that says so', async () => {
      const { status, text } = await get('nobody');
      assert.equal(status, 404);
      assert.equal(JSON.parse(text).code, 'unknown_host');
    });

    test('a request to a stopped app gets an error that says so', async () => {
      await desire('stopped');
      const { status, headers, text } = await get('counter');
      assert.equal(status, 503);
      assert.match(JSON.parse(text).detail, /stopped/);
      assert.ok(Number(headers.get('retry-after')) >= 1);
      await desire('running');
      await served({}, 0);
    });

    test('a failed wake answers 503 with Retry-After, also to an upload', async () => {
      await sleep();
      const release = join(cellar.data, 'releases', counter, (await app()).live_deploy_id);
      const [module, kept] = [join(release, 'modules/index.js'), join(release, 'kept.js')];
      renameSync(module, kept);
      writeFileSync(module, "throw new Error('broken')");
      try {
        for (const init of [{}, { method: 'POST', body: Buffer.alloc(BODY_BYTES) }]) {
          const { status, headers, text } = await get('counter', init);
          assert.equal(status, 503);
          assert.equal(JSON.parse(text).code, 'app_unavailable');
          assert.ok(Number(headers.get('retry-after')) >= 1);
        }
      } finally {
        renameSync(kept, module);
      }
      await eventually(async () => (await get('counter')).status === 200, 'it wakes after its pause');
      count++;
    });

    test('a WebSocket through the proxy stays open while another app sleeps and wakes', async () => {
      const socket = new WebSocket(`ws://chat.localhost:${proxy.port}/rooms/one/socket`, {
        dispatcher: LOCALHOST,
      });
      await nextEvent(socket, 'open');
      const closes: unknown[] = [];
      socket.addEventListener('close', (event) => closes.push(event.code));
      await sleep();
      await served({}, 0);
      const message = nextEvent(socket, 'message');
      socket.send(JSON.stringify({ name: 'a', text: 'still here' }));
      assert.match(String((await message).data), /still here/);
      assert.deepEqual(closes, []);
      socket.close();
      await nextEvent(socket, 'close');
    });
  });
}

test('while Cellar drains, new requests through each proxy are answered with Retry-After', async () => {
  const behind = {
    apiPort: Number(new URL(cellar.api).port),
    edgePort: cellar.edgePort,
    directory: cellar.directory,
  };
  await using stack = new AsyncDisposableStack();
  const proxies = [];
  for (const { name, start, skip } of PROXIES)
    if (!skip) proxies.push({ name, port: stack.use(await start(behind)).port });
  const ask = async (port: number) => {
    const url = `http://hello.localhost:${port}/`;
    const response = await fetch(url, { dispatcher: LOCALHOST, signal: AbortSignal.timeout(10_000) });
    await response.text();
    return [response.status, response.headers.has('retry-after')];
  };
  await cellar.deploy('hello', 'hello', {
    'index.js': `export default { fetch(request) {
      if (new URL(request.url).pathname === '/') return new Response('here');
      const pull = (held) => scheduler.wait(100).then(() => held.enqueue(new Uint8Array(1)));
      return new Response(new ReadableStream({ pull }));
    } };`,
  });
  for (const { name, port } of proxies) assert.deepEqual(await ask(port), [200, false], name);
  const held = await cellar.open('hello', '/held');
  const stopped = cellar.stop();
  // An idle connection may be closed just when it is used again.
  const drains = async () => (await ask(cellar.edgePort))[0] === 503;
  await eventually(() => drains().catch(() => false), 'Cellar drains');
  for (const { name, port } of proxies)
    for (let n = 0; n < 3; n++) assert.deepEqual(await ask(port), [503, true], name);
  await held.body?.cancel();
  assert.deepEqual(await stopped, { code: 0, signal: null });
});

function whyNot(program: string, argument: string): string | false {
  return spawnSync(program, [argument]).error
    ? `${program} is not installed: apt-get install ${program}`
    : false;
}

/** Reads the counting app from the API. */
async function app() {
  return cellar.app(counter);
}

async function sleep(): Promise<void> {
  const { body } = await cellar.call('POST', `/v1/apps/${counter}/sleep`);
  assert.equal(body.status, 'sleeping', body.detail);
  assert.ok(!hasProcess());
}

async function desire(desired_state: string): Promise<void> {
  const { status, body } = await cellar.call('PATCH', `/v1/apps/${counter}`, { desired_state });
  assert.equal(status, 200, body.detail);
}

function hasProcess(): boolean {
  return cells(counter).length > 0;
}

/** Resolves with the next event of a kind. Rejects at an error of the WebSocket, or after a timeout. */
async function nextEvent(socket: WebSocket, event: string): Promise<{ data: unknown }> {
  const deadline = { signal: AbortSignal.timeout(60_000) };
  const failed = once(socket, 'error', deadline).then(([error]) => Promise.reject(error.error ?? error));
  const [first] = await Promise.race([once(socket, event, deadline), failed]);
  return first;
}
