// Bindings to services outside of an app, each with a pushed sample app.
// Runs as root too.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { globSync, statSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { AI_KEY, AiServer } from '../support/ai/server.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';

const ai = await new AiServer().start();
/** A fake database server that refuses every login. It records what it receives and answers with an error. */
const database = createServer((socket) => {
  socket.once('data', (bytes) => {
    saidToDatabase.push(bytes.toString('latin1'));
    socket.end('E');
  });
});
const saidToDatabase: string[] = [];
database.listen(0, '127.0.0.1');
await once(database, 'listening');
const { port: databasePort } = database.address() as AddressInfo;

const cellar = new Cellar({
  RUNNER_EGRESS_ALLOW: '127.0.0.1',
  RUNNER_AI_URL: ai.url,
  RUNNER_AI_KEY: AI_KEY,
  RUNNER_AI_MODELS: '@cf/meta/llama-3.1-8b-instruct=llama3.1:8b, @cf/baai/bge-base-en-v1.5=nomic-embed-text',
});
const rpc = rpcOf(cellar);
before(() => cellar.start());
after(async () => {
  await cellar[Symbol.asyncDispose]();
  await ai[Symbol.asyncDispose]();
  database.close();
});

const run = async (model: string, inputs: unknown) => {
  const path = `/run/${encodeURIComponent(model)}`;
  return JSON.parse((await cellar.get('asks', path, { method: 'POST', body: JSON.stringify(inputs) })).text);
};

test('an app with unavailable bindings runs, and each binding throws when it is used', async () => {
  const config = {
    name: 'lacks',
    main: 'index.js',
    compatibility_date: '2026-10-01',
    media: { binding: 'MEDIA' },
    streaming_tail_consumers: [{ service: 'elsewhere' }],
    colour: 'red',
  };
  const code = `export default {
    async fetch(request, env) {
      if (new URL(request.url).pathname === '/use') return env.MEDIA.fetch(request);
      await env.MEDIA;
      return Response.json([typeof env.MEDIA, Boolean(env.MEDIA), JSON.stringify(env.MEDIA), String(env.MEDIA)]);
    },
  };`;
  await cellar.deploy('lacks', 'bindings', {
    'wrangler.jsonc': JSON.stringify(config),
    'index.js': code,
  });
  assert.equal((await cellar.get('lacks')).text, '["object",true,"{}","[object Object]"]');
  assert.equal((await cellar.get('lacks', '/use')).status, 500);
  const errors = async () => (await rpc('errors.list', { id: 'lacks', status: 'open' })).items;
  await eventually(async () => (await errors()).length === 1, 'the error is listed');
  assert.match(
    (await errors())[0].message,
    /^MEDIA is not available on this Cellar, which does not run "media"/,
  );
  const { warnings } = await rpc('apps.get', { id: 'lacks' });
  assert.deepEqual(warnings.map((warning: string) => /"(\w+)"/.exec(warning)![1]).sort(), [
    'colour',
    'media',
    'streaming_tail_consumers',
  ]);
});

test('without a container engine, an app with containers is deployed with a warning', async () => {
  await cellar.deploy('boxes', 'container');
  const { warnings } = await rpc('apps.get', { id: 'boxes' });
  assert.match(warnings.join(), /^containers: Box: .+RUNNER_CONTAINER_ENGINE.+ctx\.container is undefined$/);
  assert.equal((await cellar.get('boxes', '/running')).text, 'no container');
});

test('an app gets the whole answer of a model', async () => {
  await cellar.deploy('asks', 'ai');
  const { response, usage } = JSON.parse((await cellar.get('asks', '/chat?q=hello')).text);
  assert.equal(response, 'You said hello');
  assert.equal(usage.total_tokens, 5);
  const { path, authorization, body } = ai.asked.at(-1)!;
  assert.equal(path, '/v1/chat/completions');
  assert.equal(authorization, `Bearer ${AI_KEY}`);
  assert.equal(body.model, 'llama3.1:8b');
  assert.equal(body.max_tokens, 64);
  assert.deepEqual(
    body.messages.map(({ role }: { role: string }) => role),
    ['system', 'user'],
  );
});

test('an app gets the answer of a model word by word', async () => {
  const response = await cellar.open('asks', `/stream?q=${encodeURIComponent('“ü”')}`);
  let read = '';
  const decoder = new TextDecoder();
  const words = () => [...read.matchAll(/^data: (\{.*\})$/gm)].map(([, data]) => JSON.parse(data!).response);
  for await (const chunk of response.body!) {
    read += decoder.decode(chunk, { stream: true });
    // The model sends a word only after the one before has arrived.
    if (words().length > 0) ai.letGo();
  }
  assert.deepEqual(words(), ['You', ' said', ' “ü”', '']);
  assert.match(read, /"usage":.*\n\ndata: \[DONE\]\n\n$/);
});

test('an app gets the embeddings of texts in their order', async () => {
  const answer = await cellar.get('asks', '/similar?a=bad&b=dab');
  assert.deepEqual(JSON.parse(answer.text), { shape: [2, 8], similarity: 1 });
  assert.equal(ai.asked.at(-1)!.body.model, 'nomic-embed-text');
  const { value } = await run('vectors', { text: ['a', 'bb'] });
  assert.deepEqual(value.data, [
    [1, 0, 0, 0, 0, 0, 0, 0],
    [0, 2, 0, 0, 0, 0, 0, 0],
  ]);
});

test('a model answers a prompt, and may call a tool', async () => {
  assert.equal((await run('any', { prompt: 'why?' })).value.response, 'You said why?');
  const tools = [{ name: 'weather', description: 'of a city', parameters: { type: 'object' } }];
  const { value } = await run('any', { prompt: 'Oslo?', tools });
  assert.deepEqual(value.tool_calls, [{ id: 'call_1', name: 'weather', arguments: { city: 'Oslo' } }]);
  assert.deepEqual(ai.asked.at(-1)!.body.tools, [{ type: 'function', function: tools[0] }]);
});

test('invalid requests to a model get the errors of Cloudflare, and no error contains the API key', async () => {
  const refused = async (model: string, inputs: unknown, message: RegExp) => {
    const answer = await run(model, inputs);
    assert.equal(answer.name, 'InferenceUpstreamError');
    assert.match(answer.message, message);
    assert.ok(!answer.message.includes(AI_KEY));
  };
  await refused(
    'missing',
    { prompt: 'a' },
    /^5007: No such model missing or task: model "missing" not found/,
  );
  await refused('broken', { prompt: 'a' }, /^3043: The AI server answered 500: out of memory, key …$/);
  await refused('any', { image: [1, 2] }, /^5004: Only text generation .* and embeddings/);
  await refused('any', { text: 'a', target_lang: 'de' }, /^5004: Only text generation/);
  await refused(
    'any',
    { prompt: 'x'.repeat(9 * 2 ** 20) },
    /^3006: The inputs may have at most 8388608 bytes/,
  );
});

test("the user of another app cannot connect to an app's socket", {
  skip: process.getuid?.() !== 0 && 'needs root',
}, async () => {
  const [socket] = globSync(join(cellar.data, 'run', '*', 'ai.sock'));
  const script = `require('node:net').connect(process.argv[1])
    .on('connect', () => { console.log('connected'); process.exit(); })
    .on('error', ({ code }) => console.log(code));`;
  const connect = (uid: number) =>
    spawnSync(
      'setpriv',
      ['--reuid', `${uid}`, '--regid', `${uid}`, '--clear-groups', process.execPath, '-e', script, socket!],
      { cwd: '/', encoding: 'utf8' },
    ).stdout.trim();
  assert.equal(connect(statSync(dirname(socket!)).gid), 'connected');
  assert.equal(connect(54_321), 'EACCES');
});

test('a client that disconnects cancels the request to the model', async () => {
  const leaving = new AbortController();
  const signal = AbortSignal.timeout(30_000);
  const [asked, left] = [once(ai.events, 'asked', { signal }), once(ai.events, 'left', { signal })];
  const body = JSON.stringify({ prompt: 'a' });
  const answer = cellar.open('asks', '/run/slow', { method: 'POST', body, signal: leaving.signal });
  answer.catch(() => {});
  await asked;
  leaving.abort();
  await left;
});

test('a Hyperdrive binding connects to the database in the secret of its name', async () => {
  await cellar.create('database');
  const { stderr } = await cellar.push(await cellar.checkout('database'), 'database');
  assert.match(stderr, /the Hyperdrive binding DB has no connection string yet: it is the secret DB; set it/);
  const unset = await cellar.get('database');
  assert.match(unset.text, /^The Hyperdrive binding DB has no connection string: set the app's secret DB/);
  const set = async (value: string) => {
    const { code } = (await rpc('secrets.set', { id: 'database', name: 'DB', value })) ?? {};
    assert.equal(code, undefined);
  };
  await set(`postgres://ad%40a:s3cret@127.0.0.1:${databasePort}/notes?sslmode=disable`);
  const parts = {
    host: '127.0.0.1',
    port: databasePort,
    user: 'ad@a',
    password: 's3cret',
    database: 'notes',
  };
  assert.deepEqual(JSON.parse((await cellar.get('database', '/parts')).text), parts);
  assert.equal((await cellar.get('database')).text, 'E');
  assert.ok(saidToDatabase.at(-1)!.includes('user\0ad@a\0database\0notes\0\0'));
  // Addresses that the operator has not allowed are refused: other local addresses, metadata, Cellar's own ports.
  const places = ['127.0.0.2:5432', '[::1]:5432', '169.254.169.254:80', '10.1.2.3:5432'];
  if (process.getuid?.() === 0)
    places.push(`127.0.0.1:${new URL(cellar.api).port}`, `127.0.0.1:${cellar.edgePort}`);
  for (const place of places) {
    await set(`postgres://a:s3cret@${place}/notes`);
    const { status, text } = await cellar.get('database');
    assert.equal(status, 502, `${place}: ${text}`);
  }
  for (const value of ['not a connection', 'https://example.com', 'postgres:///notes', '']) {
    const refused = await rpc('secrets.set', { id: 'database', name: 'DB', value });
    assert.equal(refused.code, 'invalid_input', value);
    assert.match(
      refused.detail,
      /^The secret DB is the address to which the Hyperdrive binding DB connects/,
      value,
    );
  }
  assert.equal((await rpc('secrets.set', { id: 'database', name: 'OTHER', value: 'any' })).name, 'OTHER');
});

test('a push warns when the existing secret of a new Hyperdrive binding is not a connection string', async () => {
  await cellar.create('early');
  await rpc('secrets.set', { id: 'early', name: 'DB', value: 'no-connection-at-all' });
  const { stderr } = await cellar.push(await cellar.checkout('database'), 'early');
  assert.match(
    stderr,
    /warning: the secret DB is not a connection string, so the Hyperdrive binding DB cannot connect: set it with/,
  );
  assert.doesNotMatch(stderr, /no-connection-at-all/);
});

test('an app runs code as Workers of its own, whose lines and errors are those of the app', async () => {
  const id = await cellar.deploy('loaders', 'loaders');
  assert.deepEqual((await rpc('apps.get', { id })).warnings, []);
  const run = (path: string, body: string) => cellar.get('loaders', path, { method: 'POST', body });
  const says = 'export default { fetch() { console.log("said inside"); return new Response("hello"); } };';
  assert.equal((await run('/?id=says', says)).text, 'hello');
  assert.equal((await run('/add', '')).text, '103');
  const logs = async () => (await cellar.call('GET', `/v1/apps/${id}/logs?search=said%20inside`)).body.items;
  await eventually(async () => (await logs()).length === 1, 'the line is in the log');
  const throws = 'export default { fetch() { throw new Error("broken inside"); } };';
  assert.equal((await run('/', throws)).status, 500);
  const isListed = async () =>
    (await rpc('errors.list', { id })).items.some(
      ({ message }: { message: string }) => message === 'broken inside',
    );
  await eventually(isListed, 'the error is listed');
});

test('data points are stored unchanged and listed, and do not appear in the log', async () => {
  const id = await cellar.deploy('points', 'points');
  for (const path of ['/a?n=1', '/b?n=2.5', '/a?n=3']) await cellar.get('points', path);
  const list = (filter: object = {}) => rpc('datapoints.list', { id, ...filter });
  await eventually(async () => (await list()).items.length === 3, 'all points are kept');
  const { items } = await list({ dataset: 'visits', index: '/a' });
  assert.deepEqual(
    items.map(({ at: _, ...point }: { at: string }) => point),
    [3, 1].map((n) => ({ dataset: 'visits', index: '/a', blobs: ['/a', null, '100 %s'], doubles: [n] })),
  );
  const first = await list({ limit: 2 });
  const second = await list({ limit: 2, cursor: first.next_cursor });
  assert.equal(first.items.length + second.items.length, 3);
  assert.equal(second.next_cursor, null);
  assert.match(
    (await cellar.get('points', '/many')).text,
    /^TypeError: writeDataPoint\(\): Maximum of 20 blobs supported\.$/,
  );
  const { items: lines } = (await cellar.call('GET', `/v1/apps/${id}/logs`)).body;
  assert.doesNotMatch(JSON.stringify(lines), /visits/);

  const { owner } = await rpc('apps.get', { id });
  const other = await rpc('accounts.create', { name: 'other', email: 'other@example.com' });
  const keyOf = async (account: string, rights: object) =>
    (await rpc('keys.create', { account, ...rights })).key;
  const ask = async (sql: string, key: string, account = owner) => {
    const address = `${cellar.api}/client/v4/accounts/${account}/analytics_engine/sql`;
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'text/plain' };
    const response = await fetch(address, { method: 'POST', body: sql, headers });
    return [response.status, await response.text()];
  };
  const sql =
    'SELECT index1 AS path, SUM(double1) AS n FROM visits GROUP BY path ORDER BY n FORMAT JSONEachRow';
  const found = [200, '{"path":"/b","n":2.5}\n{"path":"/a","n":4}\n'];
  assert.deepEqual(await ask(sql, await keyOf(owner, { scope: 'read' })), found);
  assert.deepEqual(await ask(sql, await keyOf(owner, { scope: 'read', app: id })), found);
  assert.deepEqual(await ask(sql, cellar.token), found);
  const hello = await cellar.deploy('without-points', 'hello');
  assert.equal((await ask(sql, await keyOf(owner, { app: hello })))[0], 404);
  assert.equal((await ask(sql, await keyOf(other.id, {})))[0], 403);
  assert.equal((await ask(sql, await keyOf(other.id, {}), other.id))[0], 404);
  const [status, text] = await ask('SELECT blob21 FROM visits', cellar.token);
  assert.deepEqual(
    [status, JSON.parse(text as string).errors[0].message],
    [400, 'There is no column blob21 (line 1, column 8).'],
  );
});
