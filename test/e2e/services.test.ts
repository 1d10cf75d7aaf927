// Apps that call each other by service bindings, on a real host.
import assert from 'node:assert/strict';
import { type EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { mmdb } from '../support/edge/mmdb.ts';
import { cells, eventually } from '../support/processes.ts';

const place = mkdtempSync(join(tmpdir(), 'cellar-geo-'));
const database = join(place, 'city.mmdb');
writeFileSync(
  database,
  mmdb({
    '203.0.113.0/24': {
      country: { iso_code: 'DE', is_in_european_union: true },
      city: { names: { en: 'Köln' } },
    },
  }),
);
const cellar = new Cellar({
  RUNNER_GEOIP_DB: database,
  RUNNER_TRUSTED_PROXIES: '127.0.0.0/8',
  RUNNER_MAX_APPS_PER_USER: '100',
});
const rpc = rpcOf(cellar);
let called = '';
before(async () => {
  await cellar.start();
  called = await cellar.deploy('called', 'called');
  await cellar.deploy('caller', 'caller');
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  rmSync(place, { recursive: true });
});

const json = async (path: string, init = {}) => {
  const { status, text } = await cellar.get('caller', path, init);
  assert.ok(/^[[{"\dtn]/.test(text), `${status} ${text}`);
  return JSON.parse(text);
};
const config = (services: object[], more: object = {}) =>
  JSON.stringify({ name: 'x', main: 'index.js', compatibility_date: '2026-10-01', services, ...more });

test('a request reaches the other app unchanged, and counts as a request of that app', async () => {
  const traceparent = '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01';
  const seen = await json('/OTHER/fetch/a/b?c=d', {
    method: 'POST',
    headers: { traceparent, 'x-own': 'yes', cookie: 'a=b', 'x-forwarded-for': '203.0.113.9' },
    body: 'some',
  });
  assert.equal(seen.url, `http://caller.localhost:${cellar.edgePort}/a/b?c=d`);
  assert.deepEqual([seen.method, seen.headers['x-own'], seen.headers.cookie], ['POST', 'yes', 'a=b']);
  assert.equal(seen.headers['cf-connecting-ip'], '203.0.113.9');
  const { country, city, isEUCountry, httpProtocol } = seen.cf;
  assert.deepEqual([country, city, isEUCountry, httpProtocol], ['DE', 'Köln', '1', 'HTTP/1.1']);
  const upload = { method: 'POST', body: 'x'.repeat(300_000) };
  assert.equal((await cellar.get('caller', '/OTHER/fetch/upload', upload)).text, '300000');
  // Has a trace of its own: on a busy machine, the first request may be slow enough for a span too.
  const slow = { traceparent: '00-123456789abcdef0123456789abcdef0-0123456789abcdef-01' };
  assert.equal((await cellar.get('caller', '/OTHER/fetch/slow', { headers: slow })).status, 200);
  const spanOf = async (app: string) => {
    const { items } = (await cellar.call('GET', `/v1/apps/${app}/spans`)).body;
    return items.find(({ trace_id }: { trace_id: string }) => slow.traceparent.includes(trace_id));
  };
  await eventually(async () => (await spanOf(called)) && spanOf('caller'), 'both have a span of the trace');
  assert.equal((await spanOf(called)).parent_span_id, (await spanOf('caller')).span_id);
  await eventually(async () => {
    const { items } = (await cellar.call('GET', `/v1/apps/${called}/metrics?hours=1`)).body;
    return items.reduce((sum: number, minute: { requests: number }) => sum + minute.requests, 0) >= 3;
  }, 'the requests count');
});

test('an app opens a WebSocket to the other app', async () => {
  const socket = cellar.webSocket('caller', '/OTHER/fetch/socket');
  const emitter = socket as unknown as EventEmitter;
  const deadline = { signal: AbortSignal.timeout(30_000) };
  await once(emitter, 'open', deadline);
  const said = once(emitter, 'message', deadline);
  socket.send('hello');
  const [{ data }] = await said;
  assert.equal(data, 'echo hello');
  socket.close();
});

test('an app cannot set the headers that the host sets', async () => {
  const seen = await json('/OTHER/headers');
  assert.equal(seen.url, 'https://inner.example/path?q=1');
  assert.equal(seen.props, undefined);
  assert.deepEqual([seen.headers['x-cellar-calling'], seen.headers['x-cellar-call']], [undefined, undefined]);
  assert.equal(seen.headers['x-forwarded-for'], '9.9.9.9');
});

test("the header that names an account reaches the API, for the runner's token, and no app", async () => {
  const fay = await rpc('accounts.create', { name: 'Fay', email: 'fay@example.com' });
  const headers = { 'X-Cellar-Account': fay.id };
  assert.deepEqual((await rpc('apps.list', {}, { headers })).items, []);
  assert.equal((await json('/OTHER/fetch/a', { headers })).headers['x-cellar-account'], undefined);
});

test('an app calls methods of the other app', async () => {
  const trace = 'fedcba9876543210fedcba9876543210';
  const headers = { traceparent: `00-${trace}-0123456789abcdef-01` };
  assert.equal(await json('/OTHER/add?[1,2]', { headers }), 3);
  await eventually(async () => {
    const { items } = (await cellar.call('GET', `/v1/apps/${called}/logs?search=adds`)).body;
    return items.some(
      (line: Record<string, string>) => line.trace_id === trace && line.text === 'adds 2 numbers',
    );
  }, 'what the method prints is in the trace of its caller');
  assert.equal(await json('/OTHER/basket'), 2);
  assert.equal(await json('/OTHER/pipelined'), 1);
  assert.deepEqual(await json('/OTHER/each'), [1, 2, 3]);
  const page = await cellar.get('caller', '/OTHER/page');
  assert.deepEqual([page.status, page.text], [201, 'a page']);
  assert.deepEqual(
    await json('/OTHER/parallel'),
    Array.from({ length: 50 }, (_, n) => 2 * n),
  );
  assert.deepEqual(await json('/OTHER/fail'), { thrown: 'RangeError: out of range' });
  assert.match((await json('/OTHER/nothing')).thrown, /does not implement the method "nothing"/);
});

test('an app calls entrypoints of the other app, with props', async () => {
  const seen = await json('/ADMIN/fetch/x');
  assert.deepEqual([new URL(seen.url).pathname, seen.props], ['/x', { for: 'ünser caller' }]);
  assert.equal(seen.headers['x-cellar-call'], undefined);
  assert.deepEqual(await json('/ADMIN/who'), { for: 'ünser caller' });
  assert.equal((await cellar.get('caller', '/PLAIN/fetch/x')).text, 'plain');
  // What the entrypoint throws is thrown in the caller. An answer cannot fake it.
  assert.deepEqual(await json('/ADMIN/fetch/fail'), { thrown: 'TypeError: no such page' });
  for (const binding of ['ADMIN', 'OTHER'])
    assert.equal((await cellar.get('caller', `/${binding}/fetch/strange`)).text, 'fine');
  assert.deepEqual(await json('/NONE/fetch/x'), {
    detail: 'The app has no entrypoint Nobody.',
    code: 'entrypoint_not_found',
  });
  assert.match((await json('/NONE/call')).thrown, /The app has no entrypoint Nobody/);
});

test('an app calls itself', async () => {
  assert.equal((await cellar.get('caller', '/SELF/fetch/y')).text, 'caller');
  assert.deepEqual((await json('/OWN/fetch/y')).props, { own: true });
  assert.equal(await json('/OWN/twice?[4]'), 8);
});

test('a call wakes a sleeping app, survives a deploy of it, and fails while it is stopped', async () => {
  for (const path of ['/OTHER/add?[2,2]', '/OTHER/fetch/woken']) {
    assert.equal((await cellar.call('POST', `/v1/apps/${called}/sleep`)).body.status, 'sleeping');
    await eventually(() => cells(called).length === 0, 'its process has gone');
    assert.ok(await json(path));
    await eventually(async () => (await cellar.app(called)).status === 'running', 'its status is running');
  }
  // A method call and a request during the swap to a new release.
  const calls = [json('/OTHER/slowly?[7]'), cellar.get('caller', '/OTHER/fetch/slow')];
  await cellar.deployAgain('called', 'called', { 'more.txt': 'another release' });
  assert.deepEqual([await calls[0], ((await calls[1]) as { status: number }).status], [7, 200]);
  assert.equal(await json('/OTHER/add?[3,3]'), 6);

  await cellar.call('PATCH', `/v1/apps/${called}`, { desired_state: 'stopped' });
  const stopped = await cellar.get('caller', '/OTHER/fetch/');
  assert.deepEqual(
    [stopped.status, JSON.parse(stopped.text).detail],
    [503, 'The service called: The app is stopped.'],
  );
  assert.deepEqual(await json('/OTHER/add?[2,2]'), {
    thrown: 'Error: The service called: The app is stopped.',
  });
  await cellar.call('PATCH', `/v1/apps/${called}`, { desired_state: 'running' });
  assert.equal(await json('/OTHER/add?[3,3]'), 6);
});

test('a push refuses a binding to a missing service or to an app of another owner, and names it', async () => {
  const eve = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  assert.equal((await cellar.call('POST', '/v1/apps', { slug: 'eves', owner: eve.id })).status, 201);
  await cellar.create('lonely');
  const work = await cellar.checkout('hello');
  for (const service of ['missing', 'eves']) {
    writeFileSync(`${work}/wrangler.jsonc`, config([{ binding: 'S', service }]));
    await cellar.commit(work, service);
    const { stderr } = await cellar.push(work, 'lonely');
    assert.match(
      stderr,
      new RegExp(`services: S is bound to ${service}, and the owner of this app has no app of that name`),
    );
    assert.doesNotMatch(stderr, /▸ install/);
  }
});

test('calls between apps in a circle fail', async () => {
  const CODE = `export default { async fetch(request, env) {
    const { pathname } = new URL(request.url);
    return pathname === '/once' ? new Response('once') : env.NEXT.fetch(request);
  } }`;
  await cellar.create('ping');
  for (const [slug, next] of [
    ['pong', 'ping'],
    ['ping', 'pong'],
  ] as const) {
    const files = { 'index.js': CODE, 'wrangler.jsonc': config([{ binding: 'NEXT', service: next }]) };
    await (slug === 'ping' ? cellar.deployAgain(slug, 'hello', files) : cellar.deploy(slug, 'hello', files));
  }
  const { status, text } = await cellar.get('ping');
  assert.equal(status, 508);
  assert.match(text, /more than 16 deep/);
  assert.equal((await cellar.get('ping', '/once')).text, 'once');
});

test('an acknowledged message to the queue of another app survives a kill, and wakes that app', async () => {
  const SENDER = `export default { async fetch(request, env) {
    try {
      await env.JOBS.send({ said: new URL(request.url).pathname });
      await env.JOBS.sendBatch([{ body: 'one' }, { body: 'two' }]);
      return new Response('sent');
    } catch (error) { return new Response(String(error), { status: 500 }); }
  } }`;
  const CONSUMER = `export default {
    async fetch(request, env) { return Response.json(((await env.KV.list()).keys ?? []).map(({ name }) => name)); },
    async queue({ queue, messages }, env) {
      for (const { id, body } of messages) await env.KV.put(queue + ' ' + (body.said ?? body) + ' ' + id, 'x');
    },
  }`;
  const producers = [{ binding: 'JOBS', queue: 'jobs' }];
  const sender = { 'index.js': SENDER, 'wrangler.jsonc': config([], { queues: { producers } }) };
  await cellar.create('sender');
  await assert.rejects(cellar.deployAgain('sender', 'hello', sender), (error: Error) => {
    assert.match(error.message, /queues: jobs is unknown: neither this project/);
    assert.doesNotMatch(error.message, /▸ install/);
    return true;
  });
  const consumers = [{ queue: 'jobs', max_batch_timeout: 2, max_batch_size: 100 }];
  const kept = { kv_namespaces: [{ binding: 'KV' }], queues: { consumers } };
  const consumer = await cellar.deploy('consumer', 'hello', {
    'index.js': CONSUMER,
    'wrangler.jsonc': config([], kept),
  });
  await cellar.deployAgain('sender', 'hello', sender);
  const got = async () => JSON.parse((await cellar.get('consumer')).text) as string[];
  const bodies = async () => (await got()).map((name) => name.split(' ')[1]).sort();

  assert.equal((await cellar.get('sender', '/a')).text, 'sent');
  await eventually(async () => (await got()).length === 3, 'the messages are consumed');
  assert.deepEqual(await bodies(), ['/a', 'one', 'two']);

  assert.equal((await cellar.call('POST', `/v1/apps/${consumer}/sleep`)).body.status, 'sleeping');
  assert.equal((await cellar.get('sender', '/b')).text, 'sent');
  await eventually(async () => (await cellar.app(consumer)).status === 'running', 'its status is running');
  // The message waits, because its batch is not full.
  await cellar.stop('SIGKILL');
  await cellar.start();
  await eventually(async () => (await got()).length >= 6, 'the messages are consumed after the kill');
  assert.deepEqual(await bodies(), ['/a', '/b', 'one', 'one', 'two', 'two']);

  const second = await cellar.deploy('second', 'hello', {
    'index.js': CONSUMER,
    'wrangler.jsonc': config([], kept),
  });
  const { warnings } = (await cellar.call('GET', `/v1/apps/${second}`)).body;
  assert.match(warnings.join(), /^queues: jobs is also consumed by consumer: /);
  const error =
    'Error: Several apps consume the queue "jobs": consumer, second. Let only one consume it. (15000)';
  assert.equal((await cellar.get('sender', '/refused')).text, error);
  await cellar.call('DELETE', `/v1/apps/${second}`);

  // Dead letters of yet another app arrive like messages, whatever their type. Without a consumer, they stay where they are.
  const WORKER = `export default {
    async fetch(request, env) {
      await env.WORK.send({ said: '/dead' });
      await env.WORK.send('dead', { contentType: 'text' });
      return new Response('sent');
    },
    async queue({ queue, messages }) {
      console.log('failed ' + queue + ' ' + messages.length);
      throw new Error('never done');
    },
  }`;
  const work = { max_batch_timeout: 0, max_retries: 0, dead_letter_queue: 'jobs' };
  const queues = {
    producers: [{ binding: 'WORK', queue: 'work' }],
    consumers: [{ queue: 'work', ...work }],
  };
  const worker = await cellar.deploy('worker', 'hello', {
    'index.js': WORKER,
    'wrangler.jsonc': config([], { queues }),
  });
  assert.equal((await cellar.call('POST', `/v1/apps/${consumer}/sleep`)).body.status, 'sleeping');
  assert.equal((await cellar.get('worker')).text, 'sent');
  await eventually(
    async () => (await bodies()).filter((body) => /dead/.test(body!)).length === 2,
    'the dead letters are consumed',
  );

  await cellar.call('DELETE', `/v1/apps/${consumer}`);
  const { status, text } = await cellar.get('sender', '/c');
  assert.deepEqual(
    [status, text],
    [500, 'Error: No app of the same owner consumes the queue "jobs". (15000)'],
  );
  assert.equal((await cellar.get('worker')).text, 'sent');
  const failed = async (queue: string) => {
    const { items } = (await cellar.call('GET', `/v1/apps/${worker}/logs?search=failed%20${queue}`)).body;
    return items.reduce((sum: number, { text }: { text: string }) => sum + Number(text.split(' ')[2]), 0);
  };
  await eventually(async () => (await failed('work')) === 4, 'all messages have failed');
  queues.consumers.push({ queue: 'jobs', ...work, dead_letter_queue: 'nowhere' });
  await cellar.deployAgain('worker', 'hello', {
    'index.js': WORKER,
    'wrangler.jsonc': config([], { queues }),
  });
  assert.equal((await cellar.get('worker')).text, 'sent');
  await eventually(async () => (await failed('jobs')) === 4, 'the app has the letters itself');
});

test('the cache of an app survives its sleep, and is separate from other apps', async () => {
  const code = `export default { async fetch(request) {
    const key = 'https://site.example/';
    if (request.method === 'PUT') await caches.default.put(key, new Response('mine'));
    return new Response((await caches.default.match(key))?.body ?? 'nothing');
  } }`;
  const id = await cellar.deploy('caching', 'hello', { 'index.js': code });
  await cellar.deploy('caching-too', 'hello', { 'index.js': code });
  assert.equal((await cellar.get('caching', '/', { method: 'PUT' })).text, 'mine');
  assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`)).body.status, 'sleeping');
  assert.equal((await cellar.get('caching')).text, 'mine');
  assert.equal((await cellar.get('caching-too')).text, 'nothing');
});

test('an app reports events, users and insights of its own without a key', async () => {
  const code = `export default {
  async fetch(request, env) {
    const { kind, input } = await request.json();
    await env.CELLAR[kind](input);
    return new Response('reported');
  },
};`;
  const files = { 'index.js': code, 'wrangler.json': config([{ binding: 'CELLAR', service: 'cellar' }]) };
  const id = await cellar.deploy('reporter', 'hello', files);
  const report = async (kind: string, input: unknown) => {
    const { status } = await cellar.get('reporter', '/', {
      method: 'POST',
      body: JSON.stringify({ kind, input }),
    });
    return status;
  };
  const event = { channel: 'signups', event: '100% signed up', tags: { plan: 'free' } };
  assert.equal(await report('log', { ...event, id: called }), 200);
  assert.equal(await report('identify', { user_id: 'ada', properties: { plan: 'free' } }), 200);
  for (let n = 0; n < 3; n++) await report('insight', { title: 'Orders', value: { $inc: 1 } });
  assert.equal(await report('log', { channel: 'signups' }), 200);
  assert.equal(await report('log', 'no object'), 500);
  assert.equal(await report('log', { ...event, description: 'x'.repeat(20_000) }), 500);
  await eventually(async () => (await rpc('insights.list', { id })).items[0]?.value === 3, 'the insight');
  const { items } = await rpc('events.list', { id });
  assert.deepEqual(
    items.map(({ app_id, channel, event, tags }: Record<string, unknown>) => [app_id, channel, event, tags]),
    [[id, 'signups', event.event, { plan: 'free' }]],
  );
  assert.deepEqual((await rpc('events.list', { id: called })).items, []);
  assert.deepEqual((await rpc('users.props', { id, user_id: 'ada' })).properties, { plan: 'free' });
  await eventually(async () => {
    const { items } = await rpc('logs.list', { id });
    return items.some(({ text }: { text: string }) =>
      /log of the service cellar: event: is required/.test(text),
    );
  }, 'the log says what was refused');
});

test('the service cellar has no entrypoints', async () => {
  const services = config([{ binding: 'CELLAR', service: 'cellar', entrypoint: 'Admin' }]);
  const files = { 'index.js': 'export default { fetch: () => new Response() };', 'wrangler.json': services };
  await assert.rejects(
    cellar.deploy('no-entrypoint', 'hello', files),
    /the service cellar has no entrypoint Admin/,
  );
});

test('a connection to the app itself reaches its connect() handlers', async () => {
  const code = `
import { WorkerEntrypoint } from 'cloudflare:workers';
export class Named extends WorkerEntrypoint {
  connect(socket) { return socket.readable.pipeTo(socket.writable); }
}
async function echoed(binding) {
  const { readable, writable } = binding.connect('example.com:25');
  // A write ends when the other side has read it.
  writable.getWriter().write(new TextEncoder().encode('hello')).catch(() => {});
  const { value } = await readable.getReader().read();
  return new TextDecoder().decode(value);
}
export default {
  async fetch(request, env) {
    return Response.json([await echoed(env.SELF), await echoed(env.NAMED)]);
  },
  async connect(socket) {
    const { localAddress } = await socket.opened;
    await socket.writable.getWriter().write(new TextEncoder().encode(localAddress));
  },
};`;
  const config = {
    name: 'echoes',
    main: 'index.js',
    compatibility_date: '2026-10-01',
    services: [
      { binding: 'SELF', service: 'echoes' },
      { binding: 'NAMED', service: 'echoes', entrypoint: 'Named' },
    ],
  };
  await cellar.deploy('echoes', 'hello', { 'wrangler.jsonc': JSON.stringify(config), 'index.js': code });
  assert.equal((await cellar.get('echoes')).text, '["example.com:25","hello"]');
});
