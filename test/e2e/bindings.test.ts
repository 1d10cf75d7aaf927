// Bindings to what lies outside of an app: each with a sample app that is pushed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { globSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { AI_KEY, AiServer } from '../support/ai/server.ts';
import { Cellar } from '../support/e2e/cellar.ts';

const ai = await new AiServer().start();
const cellar = new Cellar({
  RUNNER_AI_URL: ai.url,
  RUNNER_AI_KEY: AI_KEY,
  RUNNER_AI_MODELS: '@cf/meta/llama-3.1-8b-instruct=llama3.1:8b, @cf/baai/bge-base-en-v1.5=nomic-embed-text',
});
before(() => cellar.start());
after(async () => {
  await cellar[Symbol.asyncDispose]();
  await ai[Symbol.asyncDispose]();
});

const run = async (model: string, inputs: unknown) => {
  const path = `/run/${encodeURIComponent(model)}`;
  return JSON.parse((await cellar.get('asks', path, { method: 'POST', body: JSON.stringify(inputs) })).text);
};

test('an app asks a model, which answers whole', async () => {
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

test('an answer comes as the model finds its words', async () => {
  const response = await cellar.open('asks', `/stream?q=${encodeURIComponent('“ü”')}`);
  let read = '';
  const decoder = new TextDecoder();
  const heard = () => [...read.matchAll(/^data: (\{.*\})$/gm)].map(([, data]) => JSON.parse(data!).response);
  for await (const chunk of response.body!) {
    read += decoder.decode(chunk, { stream: true });
    // The model says its next word only when the one before has come through.
    if (heard().length > 0) ai.letGo();
  }
  assert.deepEqual(heard(), ['You', ' said', ' “ü”', '']);
  assert.match(read, /"usage":.*\n\ndata: \[DONE\]\n\n$/);
});

test('texts become vectors, in their order', async () => {
  const answer = await cellar.get('asks', '/similar?a=bad&b=dab');
  assert.deepEqual(JSON.parse(answer.text), { shape: [2, 8], similarity: 1 });
  assert.equal(ai.asked.at(-1)!.body.model, 'nomic-embed-text');
  const { value } = await run('vectors', { text: ['a', 'bb'] });
  assert.deepEqual(value.data, [
    [1, 0, 0, 0, 0, 0, 0, 0],
    [0, 2, 0, 0, 0, 0, 0, 0],
  ]);
});

test('a prompt is a question, and a model may call a tool', async () => {
  assert.equal((await run('any', { prompt: 'why?' })).value.response, 'You said why?');
  const tools = [{ name: 'weather', description: 'of a city', parameters: { type: 'object' } }];
  const { value } = await run('any', { prompt: 'Oslo?', tools });
  assert.deepEqual(value.tool_calls, [{ id: 'call_1', name: 'weather', arguments: { city: 'Oslo' } }]);
  assert.deepEqual(ai.asked.at(-1)!.body.tools, [{ type: 'function', function: tools[0] }]);
});

test('what cannot be is refused as Cloudflare does, and no word of it has the key', async () => {
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
  await refused('any', { prompt: 'x'.repeat(9 * 2 ** 20) }, /^3006: The inputs may have 8388608 bytes/);
});

test("no other app's user comes to an app's socket", {
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

test('whoever leaves ends the work of the model', async () => {
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

test('without an AI server the app is deployed, and is told what to set', async () => {
  await using other = await new Cellar().start();
  await other.deploy('asks', 'ai');
  const answer = await other.get('asks', '/run/any', { method: 'POST', body: '{"prompt":"a"}' });
  assert.match(JSON.parse(answer.text).message, /^3043: This Cellar has no AI server\. .*RUNNER_AI_URL/);
});
