// Hostile apps: other apps and the host keep working.
import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { availableParallelism, loadavg, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AI_KEY, AiServer } from '../support/ai/server.ts';
import { cpuTime } from '../support/cpu-time.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Inbox, PASSWORD } from '../support/mail/inbox.ts';
import { eventually } from '../support/processes.ts';

const ai = await new AiServer().start();
const inbox = await Inbox.start();
const cellar = new Cellar({
  RUNNER_CELL_MAX_MB: '128',
  RUNNER_AI_URL: ai.url,
  RUNNER_AI_KEY: AI_KEY,
  RUNNER_SMTP_URL: inbox.url,
  RUNNER_SMTP_FROM: 'cellar@example.com',
});
const rpc = rpcOf(cellar);
/** A Workflow of the same name as the hostile app's. */
const WAITING = `
import { WorkflowEntrypoint } from 'cloudflare:workers';
export class Flow extends WorkflowEntrypoint {
  async run(_, step) { return (await step.waitForEvent('word', { type: 'go' })).payload; }
}
export default { async fetch(request, { FLOW }) {
  if (request.method === 'POST') await FLOW.create({ id: 'kept' });
  return Response.json(await (await FLOW.get('kept')).status());
} }`;

let hostile: string;
const HOSTILE = `
const kept = [];
function load(env, code) {
  const modules = { 'a.js': 'export default { fetch() { ' + code + ' return new Response(); } }' };
  const worker = env.LOADER.load({ compatibilityDate: '2026-10-01', mainModule: 'a.js', modules });
  kept.push(worker);
  return worker.getEntrypoint().fetch('http://loaded/');
}
export default { async fetch(request, env) {
  const { pathname } = new URL(request.url);
  if (pathname === '/loads') for (let n = 0; n < 1000; n++) await load(env, 'globalThis.n = ' + n + ';');
  if (pathname === '/loaded-loop') await load(env, 'for (;;);');
  if (pathname === '/flood') for (const end = Date.now() + 2_000; Date.now() < end; await scheduler.wait(0))
    for (let i = 0; i < 200; i++) console.log('a line that says little '.repeat(5));
  if (pathname === '/eat') for (;;) {
    kept.push(new Uint8Array(4 << 20).fill(1));
    await scheduler.wait(5);
  }
  if (pathname === '/loop') for (;;);
  return new Response('ok');
} }`;

let neighbour = '';
let greedy = '';
let waiting = '';
before(async () => {
  await cellar.start();
  await cellar.deploy('good', 'hello');
  hostile = await cellar.deploy('hostile', 'hello', {
    'index.js': HOSTILE,
    'wrangler.jsonc': JSON.stringify({
      main: 'index.js',
      compatibility_date: '2026-10-01',
      limits: { cpu_ms: 500 },
      worker_loaders: [{ binding: 'LOADER' }],
    }),
  });
  neighbour = await cellar.deploy('neighbour', 'bucket');
  const config = JSON.parse(readFileSync(new URL('../apps/hostile/wrangler.jsonc', import.meta.url), 'utf8'));
  await cellar.deploy('friend', 'called');
  const workflows = [{ binding: 'FLOW', name: 'flow', class_name: 'Flow' }];
  waiting = await cellar.deploy('waiting', 'hello', {
    'index.js': WAITING,
    'wrangler.json': JSON.stringify({ main: 'index.js', compatibility_date: '2026-10-01', workflows }),
  });
  const services = [
    { binding: 'FRIEND', service: 'good' },
    { binding: 'PEEK', service: 'good', entrypoint: 'CellarState' },
    { binding: 'METHODS', service: 'friend' },
  ];
  greedy = await cellar.deploy('greedy', 'hostile', {
    'wrangler.jsonc': JSON.stringify({ ...config, services }),
  });
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  await ai[Symbol.asyncDispose]();
  await inbox.close();
});

const loopDelay = async () =>
  (await cellar.call('GET', '/v1/admin/stats')).body.host.event_loop_delay as Record<string, number>;

/** Load per processor, at least 1. Time limits are multiplied by it. */
const load = () => Math.max(1, loadavg()[0]! / availableParallelism());

/** Longest answer time of the good app, in ms. If it waited for the hostile app's end, it would take longer. */
const SLOWEST_MS = 5_000;

/** Returns the greedy app's JSON answer. Retries: its process may restart because it exceeded its memory before. */
async function askGreedy(path: string) {
  let text = '';
  await eventually(
    async () => {
      const answer = await cellar.get('greedy', path);
      text = answer.text;
      return answer.status === 200;
    },
    `the greedy app answers ${path.split('?')[0]}`,
  );
  return JSON.parse(text);
}

/** Sends requests to the good app for `forMs`. Returns its slowest answer time, in ms. */
async function slowestAnswer(forMs: number): Promise<number> {
  let slowest = 0;
  for (const end = performance.now() + forMs; performance.now() < end; await sleep(20)) {
    const asked = performance.now();
    assert.equal((await cellar.get('good')).status, 200);
    slowest = Math.max(slowest, performance.now() - asked);
  }
  return slowest;
}

test('a flood of log lines slows neither the host nor other apps', async (t) => {
  const flood = cellar.get('hostile', '/flood');
  const slowest = await slowestAnswer(2_000);
  assert.equal((await flood).status, 200);
  const delays = await loopDelay();
  t.diagnostic(`slowest answer ${slowest.toFixed(0)} ms, loop ${JSON.stringify(delays)}`);
  assert.ok(delays.p99_ms! <= 100 * load(), JSON.stringify(delays));
  assert.ok(slowest < SLOWEST_MS * load(), `${slowest} ms`);
  const isReported = async () => {
    const { body } = await cellar.call('GET', `/v1/apps/${hostile}/logs?search=lines%20were%20dropped`);
    return body.items.length > 0;
  };
  await eventually(isReported, 'the log says that lines were dropped');
});

for (const [path, what] of [
  ['/eat', 'a process that exhausts its memory does'],
  ['/loads', 'a thousand loaded Workers do'],
] as const)
  test(`${what} not slow other apps`, async () => {
    const from = cellar.output.length;
    const eating = cellar.get('hostile', path).catch(() => null);
    await cellar.waitFor(/more (memory )?than RUNNER_CELL_MAX_MB \(128\) allows/, from);
    await eating;
    assert.ok((await slowestAnswer(500)) < SLOWEST_MS * load());
    await eventually(async () => (await cellar.get('hostile')).status === 200, 'it serves again');
  });

test('an endless loop of a loaded Worker counts as one of the app', async () => {
  const { status, text } = await cellar.get('hostile', '/loaded-loop');
  assert.equal(status, 503);
  assert.match(JSON.parse(text).detail, /exceeded its limit of CPU time \(limits\.cpu_ms\)/);
  await eventually(async () => (await cellar.get('hostile')).status === 200, 'it serves again');
});

test('an endless loop does not slow other apps', async () => {
  const looping = cellar.get('hostile', '/loop');
  assert.ok((await slowestAnswer(1_000)) < SLOWEST_MS * load());
  const { status, text } = await looping;
  assert.deepEqual([status, JSON.parse(text).code], [503, 'app_unavailable']);
  assert.match(JSON.parse(text).detail, /exceeded its limit of CPU time \(limits\.cpu_ms\)/);
  await eventually(async () => (await cellar.get('hostile')).status === 200, 'it serves again');
  const message =
    'exceeded CPU: the app computed without a pause for longer than its limit of 500 ms allows (limits.cpu_ms in its Wrangler configuration, up to RUNNER_CELL_CPU_MAX_S)';
  await eventually(async () => {
    const { items } = await rpc('errors.list', { id: hostile });
    const found = items.find((group: { message: string }) => group.message === message);
    return found?.kind === 'Crash' && found.mechanism === 'crash' && found.place === null;
  }, 'it is an error of its app that says so');
});

test('an app can compute for two seconds, and an app that configures more CPU time than the limit is warned', async () => {
  const spent = cpuTime();
  for (let left = 1e8; left > 0; left--) Math.random();
  const rounds = Math.round((1e8 / spent()) * 3_000);
  const code = `export default { fetch() {
    for (let left = ${rounds}; left > 0; left--) Math.random();
    return new Response('computed');
  } };`;
  const limits = { limits: { cpu_ms: 400_000 } };
  const config = { main: 'index.js', compatibility_date: '2026-10-01', ...limits };
  const id = await cellar.deploy('computing', 'hello', {
    'index.js': code,
    'wrangler.jsonc': JSON.stringify(config),
  });
  const warning =
    "limits.cpu_ms is 400000, but this Cellar allows at most 300000 (RUNNER_CELL_CPU_MAX_S), which is the app's limit now";
  const app = (await cellar.call('GET', `/v1/apps/${id}`)).body;
  assert.deepEqual(app.warnings, [warning]);
  const { items } = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body;
  const { log } = (await cellar.call('GET', `/v1/apps/${id}/deploys/${items[0].id}/log`)).body;
  assert.ok(log.includes(`warning: ${warning}`), log);
  const from = performance.now();
  assert.equal((await cellar.get('computing')).text, 'computed');
  assert.ok(performance.now() - from > 1_500, `${performance.now() - from} ms`);
});

test('an app reaches no address of this machine, no route of the AI server besides models, and not its key', async (t) => {
  const own = Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address) ?? []);
  const names = [
    ...own,
    '127.0.0.2',
    '0.0.0.0',
    'localhost',
    '2130706433',
    '::ffff:127.0.0.1',
    '169.254.169.254',
  ];
  const hosts = names.map((name) => (name.includes(':') ? `[${name.split('%')[0]}]` : name));
  const ports = [ai.url, cellar.api, `http://a:${cellar.edgePort}`].map((url) => new URL(url).port);
  const places = hosts.flatMap((host) => ports.map((port) => `${host}:${port}`));
  const sockets = globSync(join(cellar.data, 'run', '*', '*.sock'));
  const query = new URLSearchParams([
    ...places.map((place) => ['to', place]),
    ...sockets.map((socket) => ['socket', socket]),
  ]);
  const { tried, reached, said } = await askGreedy(`/out?${query}`);
  const loaded = await askGreedy(`/loaded?${query}`);
  t.diagnostic(`${tried} ways, and ${loaded.tried} of a Worker that the app loads`);
  assert.deepEqual(reached, []);
  assert.deepEqual([loaded.reached, loaded.said], [[], [{}, {}]]);
  assert.ok(!said.join().includes(AI_KEY));
  // The AI server got only requests for models, with its own key.
  assert.ok(ai.asked.length > 0);
  for (const { path, authorization } of ai.asked)
    assert.deepEqual([path, authorization], ['/v1/chat/completions', `Bearer ${AI_KEY}`]);
  assert.equal((await cellar.get('neighbour', '/nothing.txt')).status, 404, 'the neighbour serves');
});

test('a service binding allows only its declared calls, also over its socket, and none to apps of another account', async () => {
  const { tried, found } = await askGreedy('/trespass');
  assert.equal(tried, 2 * 10 * 3 + 9);
  assert.deepEqual(found, []);
  // An attacker who has escaped from workerd can use the app's socket with any number and header.
  const path = join(cellar.data, 'run', greedy, 'services.sock');
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const ask = (head: string): Promise<string> =>
    new Promise((resolve, reject) => {
      let text = '';
      const socket = connect(path, () => socket.write(`${head}\r\nconnection: close\r\n\r\n`));
      socket.on('data', (chunk) => {
        text += chunk;
      });
      socket.on('error', reject);
      socket.on('close', () => resolve(text));
    });
  const forged = [
    'fetch 3',
    'fetch -1',
    'fetch',
    'fetch NaN',
    'rpc 9',
    'queue 0',
    'write 0',
    '',
    'fetch __proto__',
    'fetch 1e9',
  ];
  for (const calling of forged) {
    const answer = await ask(
      `POST / HTTP/1.1\r\nhost: neighbour.localhost\r\nx-cellar-calling: ${calling}\r\nx-cellar-call: {"entrypoint":"CellarState","kind":"fetch"}`,
    );
    assert.match(answer, /^(HTTP\/1\.1 403 |$)/, `${calling}: ${answer}`);
  }
  const two = 'host: x\r\nx-cellar-calling: fetch 7\r\nx-cellar-calling: fetch 0';
  assert.match(await ask(`GET / HTTP/1.1\r\n${two}`), /^(HTTP\/1\.1 40|$)/);
  assert.match(
    await ask(
      'CONNECT neighbour.localhost:80 HTTP/1.1\r\nhost: neighbour.localhost:80\r\nx-cellar-calling: fetch 0',
    ),
    /^(HTTP\/1\.1 405 |$)/,
  );
  assert.ok((await slowestAnswer(300)) < SLOWEST_MS * load());
});

test('each app has a separate cache of limited size', async () => {
  const answer = await cellar.get('greedy', `/cache?name=${neighbour}&name=good&name=neighbour.localhost`);
  // The process may be ended for its memory use: then there is no JSON with these fields.
  const { found = [], kept = 1 } = JSON.parse(answer.text);
  assert.deepEqual(found, []);
  assert.ok(kept > 0 && kept < 64, `${kept} MiB are kept`);
  assert.ok((await slowestAnswer(300)) < SLOWEST_MS * load());
});

test('an app sends e-mails only from and to the addresses of its bindings, and within its rate limit', async (t) => {
  const { tried, said } = await askGreedy('/mail?to=victim@example.net');
  t.diagnostic(`${tried} e-mails, ${inbox.received.length} were sent`);
  assert.ok(tried > 200);
  assert.ok(inbox.received.length > 0 && inbox.received.length <= 2 * 120, `${inbox.received.length}`);
  for (const { from, to, text } of inbox.received) {
    assert.deepEqual([from, to], ['hostile@example.com', ['own@example.net']]);
    assert.doesNotMatch(text, /^(?:bcc|sender|resent-to):|root:/im);
  }
  assert.ok(!said.join().includes(PASSWORD));
  assert.match(said.join(), /E_|may send at most 8 e-mails at a time|120 e-mails a minute/);
  assert.ok((await slowestAnswer(300)) < SLOWEST_MS * load());
});

test('an app with 300 concurrent bucket calls slows no other app, and no key reaches another app’s files', async (t) => {
  const kept = () => cellar.get('neighbour', '/kept.txt');
  assert.equal((await cellar.get('neighbour', '/kept.txt', { method: 'PUT', body: 'mine' })).status, 200);
  const places = join(cellar.data, 'buckets', neighbour);
  const blobs = readdirSync(join(places, 'blobs'));
  const names = ['kept.txt', `${neighbour}/index.sqlite`, `${places}/index.sqlite`, ...blobs].map(
    encodeURIComponent,
  );
  const { tried, found } = await askGreedy(`/steal?${names.map((name) => `name=${name}`).join('&')}`);
  assert.equal(tried, 7 * names.length);
  assert.deepEqual(found, []);
  assert.equal((await kept()).text, 'mine');
  assert.deepEqual(readdirSync(join(places, 'blobs')), blobs);

  const harm = cellar.get('greedy', '/bucket').catch(() => null);
  let slowest = 0;
  let count = 0;
  for (const end = performance.now() + 3_000; performance.now() < end; await sleep(20)) {
    const asked = performance.now();
    assert.equal((await kept()).text, 'mine');
    slowest = Math.max(slowest, performance.now() - asked);
    count++;
  }
  t.diagnostic(`${count} answers, the slowest after ${slowest.toFixed(0)} ms`);
  assert.ok(slowest < 2 * SLOWEST_MS * load(), `${slowest} ms`);
  assert.ok((await slowestAnswer(500)) < SLOWEST_MS * load());
  await cellar.call('PATCH', `/v1/apps/${greedy}`, { desired_state: 'stopped' });
  await harm;
  assert.equal((await kept()).text, 'mine');
});

test('an app reaches no Workflow of another app, and endless Workflows do not slow others', async (t) => {
  const kept = async (method = 'GET') =>
    JSON.parse((await cellar.get('waiting', '/', { method })).text).status;
  await kept('POST');
  // The previous test has stopped the app.
  await cellar.call('PATCH', `/v1/apps/${greedy}`, { desired_state: 'running' });
  await eventually(async () => (await kept()) === 'waiting', 'it waits');
  const names = ['kept', waiting, `${waiting}/kept`].map((name) => `name=${encodeURIComponent(name)}`);
  const { tried, found, made, huge } = await askGreedy(`/instances?${names.join('&')}`);
  t.diagnostic(`${tried} ways; instances of its own: ${made}; huge parameters: ${huge.slice(0, 100)}`);
  assert.deepEqual(found, []);
  assert.match(huge, /^failed: /);
  assert.deepEqual(made, ['kept', waiting, '__proto__', 'constructor']);
  assert.equal(await kept(), 'waiting');
  const flows = cellar.get('greedy', '/flows').catch(() => null);
  const slowest = await slowestAnswer(3_000);
  t.diagnostic(`slowest answer beside them ${slowest.toFixed(0)} ms`);
  assert.ok(slowest < SLOWEST_MS * load(), `${slowest} ms`);
  assert.equal(await kept(), 'waiting');
  const delays = await loopDelay();
  assert.ok(delays.p99_ms! <= 100 * load(), JSON.stringify(delays));
  await cellar.call('PATCH', `/v1/apps/${greedy}`, { desired_state: 'stopped' });
  await flows;
});
