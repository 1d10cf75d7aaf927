// Outbound Workers of dispatch namespaces, on a real host with Wrangler.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells } from '../support/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar();
const DATE = '2026-10-01';

/** The first part of the path names the script. The second chooses the binding, and the parameters of the call. */
const PLATFORM = `export default {
  async fetch(request, env) {
    const [, script, way] = new URL(request.url).pathname.split('/');
    const binding = way === 'direct' ? env.DIRECT : env.WATCHED;
    const values = { given: { outbound: { customer: script, tags: ['é', 1] } },
      unknown: { outbound: { password: 1 } }, long: { outbound: { customer: 'x'.repeat(5000) } },
      direct: {} }[way];
    try { return await binding.get(script, {}, values).fetch(request); }
    catch (error) { return new Response(error.message, { status: 400 }); }
  },
};`;
/** Tries to reach the internet in every way that a Worker has. */
const SCRIPT = `import { connect } from 'cloudflare:sockets';
import { AsyncLocalStorage } from 'node:async_hooks';
import { DurableObject } from 'cloudflare:workers';
const early = globalThis.fetch;
const outside = AsyncLocalStorage.snapshot();
export class Counter extends DurableObject {
  async ask() { return (await fetch('https://object.example/')).json(); }
}
export default {
  async fetch(request, env, context) {
    const way = new URL(request.url).pathname.split('/').at(-1);
    const hidden = [...request.headers.keys()].filter((name) => name.startsWith('x-cellar'));
    const ask = async (answer) => Response.json({ ...(await (await answer).json()), hidden });
    if (way === 'early') return ask(early('https://early.example/'));
    if (way === 'lost') return ask(outside(() => fetch('https://lost.example/')));
    if (way === 'forged')
      return ask(fetch('https://forged.example/', { headers: { 'x-cellar-outbound': '{"customer":"forged"}' } }));
    if (way === 'object') return Response.json(await env.COUNTER.getByName('a').ask());
    if (way === 'socket') {
      const socket = new WebSocket('wss://socket.example/x');
      return new Response(await new Promise((done) => {
        socket.addEventListener('message', ({ data }) => done(data));
        socket.addEventListener('error', () => done('failed'));
      }));
    }
    if (way === 'connect') {
      try {
        const tcp = connect('1.1.1.1:80');
        await tcp.opened;
        return new Response('connected');
      } catch (error) { return new Response(error.message); }
    }
    return ask(fetch('https://api.example.com/a?b=1', { method: 'POST', body: 'hello' }));
  },
};`;

const script = new Project(cellar, {
  'index.js': SCRIPT,
  'wrangler.jsonc': JSON.stringify({
    ...{ name: 'script', main: 'index.js', compatibility_date: DATE, compatibility_flags: ['nodejs_compat'] },
    durable_objects: { bindings: [{ name: 'COUNTER', class_name: 'Counter' }] },
    migrations: [{ tag: 'v1', new_sqlite_classes: ['Counter'] }],
  }),
});

before(async () => {
  await cellar.start();
  await cellar.deploy('outbound', 'outbound');
  await succeed(script, 'dispatch-namespace', 'create', 'customers');
  for (const name of ['alice', 'bob'])
    await succeed(script, 'deploy', '--dispatch-namespace', 'customers', '--name', name);
  const outbound = { service: 'outbound', parameters: ['customer', 'tags'] };
  const platform = new Project(cellar, {
    'index.js': PLATFORM,
    'wrangler.jsonc': JSON.stringify({
      ...{ name: 'platform', main: 'index.js', compatibility_date: DATE },
      dispatch_namespaces: [
        { binding: 'WATCHED', namespace: 'customers', outbound },
        { binding: 'DIRECT', namespace: 'customers' },
      ],
    }),
  });
  await succeed(platform, 'deploy');
});
after(() => cellar[Symbol.asyncDispose]());

async function succeed(project: Project, ...words: string[]): Promise<void> {
  const { code, stdout, stderr } = await project.wrangler(...words);
  assert.equal(code, 0, stdout + stderr);
}

async function asked(path: string) {
  const { status, text } = await cellar.get('platform', path);
  return status === 200 && text.startsWith('{') ? JSON.parse(text) : text;
}

test('the outbound Worker gets what a script fetches, with the parameters of the call', async () => {
  const { customer, tags, OWN, url, method, body, headers, hidden } = await asked('/alice/given');
  assert.deepEqual([url, method, body], ['https://api.example.com/a?b=1', 'POST', 'hello']);
  assert.deepEqual([customer, tags, OWN], ['alice', ['é', 1], 'own']);
  assert.deepEqual(
    [...headers, ...hidden].filter((name) => name.startsWith('x-cellar')),
    [],
  );
  assert.equal((await asked('/bob/given')).customer, 'bob');
});

test('a call without parameters goes to the outbound Worker too', async () => {
  const { url, customer, tags } = await asked('/alice/none');
  assert.deepEqual([url, customer, tags], ['https://api.example.com/a?b=1', null, null]);
});

test('a script cannot avoid it', async () => {
  assert.equal((await asked('/alice/given/early')).url, 'https://early.example/');
  const lost = await asked('/alice/given/lost');
  assert.deepEqual([lost.url, lost.customer], ['https://lost.example/', null]);
  assert.equal((await asked('/alice/given/forged')).customer, 'alice');
  assert.equal((await asked('/alice/given/object')).url, 'https://object.example/');
  assert.equal(await asked('/alice/given/socket'), 'to https://socket.example/x');
  assert.match(await asked('/alice/given/connect'), /proxy request failed/);
});

test('a running script is restarted by its first call with an outbound Worker', async () => {
  await succeed(script, 'deploy', '--dispatch-namespace', 'customers', '--name', 'carol');
  // The names that the script fetches do not resolve.
  assert.match(JSON.stringify(await asked('/carol/direct')), /error|500|Error/i);
  const { items } = (await cellar.call('GET', '/v1/apps?dispatch_namespace=customers')).body;
  const { id } = items.find(({ dispatch }: { dispatch: { script: string } }) => dispatch.script === 'carol');
  const [before] = cells(id);
  const answers = await Promise.all(Array.from({ length: 20 }, () => asked('/carol/given')));
  for (const { customer } of answers) assert.equal(customer, 'carol');
  assert.match(await asked('/carol/given/connect'), /proxy request failed/);
  const [now] = cells(id);
  assert.notDeepEqual(now, before);
  await asked('/carol/given');
  assert.deepEqual(cells(id), [now]);
});

test('wrong parameters are refused with the field to change', async () => {
  assert.match(await asked('/alice/unknown'), /add password to the "parameters"/);
  assert.match(await asked('/alice/long'), /more than 4096/);
});

test('a restarted Cellar starts a script with its outbound Worker', async () => {
  await asked('/alice/given');
  await cellar.stop('SIGKILL');
  await cellar.start();
  const { url, customer } = await asked('/alice/direct');
  assert.deepEqual([url, customer], ['https://api.example.com/a?b=1', null]);
});
