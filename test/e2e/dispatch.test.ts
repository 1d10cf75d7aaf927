// Dispatch namespaces, on a real host with Wrangler.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { cells, eventually } from '../support/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar({ RUNNER_MAX_APPS_PER_USER: '3', RUNNER_MAX_SCRIPTS_PER_USER: '3' });
const rpc = rpcOf(cellar);
let customer: Project;
let owner = '';
let base = '';
before(async () => {
  await cellar.start();
  customer = new Project(cellar, filesOf('customer'));
  await succeed(customer, 'dispatch-namespace', 'create', 'customers');
  for (const name of ['alice', 'Bob_1'])
    await succeed(customer, ...deployTo('customers', name), '--var', `NAME:${name}`);
  await cellar.deploy('platform', 'platform');
  ({ owner } = await cellar.app('platform'));
  base = `/client/v4/accounts/${owner}/workers/dispatch/namespaces`;
});
after(() => cellar[Symbol.asyncDispose]());

function filesOf(sample: string): Record<string, string> {
  return Object.fromEntries(
    ['index.js', 'wrangler.jsonc'].map((name) => [name, readFileSync(`test/apps/${sample}/${name}`, 'utf8')]),
  );
}

function deployTo(namespace: string, name: string): string[] {
  return ['deploy', '--dispatch-namespace', namespace, '--name', name];
}

async function succeed(project: Project, ...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await project.wrangler(...words);
  assert.equal(code, 0, stdout + stderr);
  return stdout + stderr;
}

async function fail(project: Project, ...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await project.wrangler(...words);
  assert.notEqual(code, 0, stdout + stderr);
  return stdout + stderr;
}

async function asked(path: string, init: Parameters<Cellar['get']>[2] = {}) {
  const { status, text } = await cellar.get('platform', path, init);
  return { status, body: status === 200 ? JSON.parse(text) : text };
}

type App = { id: string; slug: string };

/** Returns the status of a request with any `Host`. */
async function statusAt(host: string): Promise<number> {
  const sent = request({ port: cellar.edgePort, host: '127.0.0.1', headers: { host } }).end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  answer.resume();
  return answer.statusCode!;
}

/** Returns the app behind a script. */
async function scriptOf(name: string) {
  const { items } = (await cellar.call('GET', '/v1/apps?dispatch_namespace=customers')).body;
  return items.find(({ dispatch }: { dispatch: { script: string } }) => dispatch.script === name);
}

test('an app calls the scripts that Wrangler has uploaded, by name', async () => {
  for (const name of ['alice', 'Bob_1']) {
    const { body } = await asked(`/${name}/a/b`, { method: 'POST', body: 'hello' });
    assert.deepEqual(body, {
      ...{ name, secret: null, method: 'POST', path: '/a/b', body: 'hello', headers: [] },
    });
  }
  assert.deepEqual((await asked('/alice/count')).body, { count: 1 });
  assert.deepEqual((await asked('/alice/count')).body, { count: 2 });
  assert.deepEqual((await asked('/Bob_1/count')).body, { count: 1 });
});

test('a script that is missing throws "Worker not found."', async () => {
  for (const name of [
    'carol',
    'Alice',
    'platform',
    '',
    '%2e%2e%2Falice',
    'alice%0d%0ax-a: b',
    'x'.repeat(64),
  ])
    assert.deepEqual(await asked(`/${name}/`), { status: 404, body: 'no such customer' }, name);
});

test('no host name leads to a script', async () => {
  const { id, slug } = await scriptOf('alice');
  assert.match(slug, /^dispatched-[0-9a-f]{26}$/);
  const hosts = [`${slug}.localhost`, `SCRIPT ${slug}`, `script ${slug}`, slug, `x--${slug}.localhost`];
  for (const host of hosts) assert.equal(await statusAt(host), host.includes(' ') ? 400 : 404, host);
  const named = await cellar.call('POST', `/v1/apps/${id}/domains`, { hostname: 'alice.example.com' });
  assert.deepEqual([named.status, named.body.code], [400, 'invalid_input']);
  const renamed = await cellar.call('POST', `/v1/apps/${id}/rename`, { slug: 'public' });
  assert.deepEqual([renamed.status, renamed.body.code], [400, 'invalid_input']);
  const taken = `dispatched-${'0'.repeat(26)}`;
  assert.equal((await cellar.call('POST', '/v1/apps', { slug: taken })).status, 400);
});

test('scripts are no apps in the list of apps, and have a quota of their own', async () => {
  const slugs = (await cellar.call('GET', '/v1/apps')).body.items.map(({ slug }: App) => slug);
  assert.deepEqual(slugs, ['platform']);
  const { dispatch } = await scriptOf('Bob_1');
  assert.deepEqual(dispatch, { namespace: 'customers', script: 'Bob_1' });
  const listed = (await cellar.call('GET', `${base}/customers/scripts`)).body.result;
  assert.deepEqual(listed.map(({ id }: App) => id).sort(), ['Bob_1', 'alice']);
  await succeed(customer, ...deployTo('customers', 'third'));
  assert.match(await fail(customer, ...deployTo('customers', 'fourth')), /as many .* as its quota allows/);
  assert.equal((await cellar.call('DELETE', `${base}/customers/scripts/third`)).status, 200);
  assert.deepEqual(await asked('/third/'), { status: 404, body: 'no such customer' });
});

test('a new version and a secret of a script take effect', async () => {
  const before = (await scriptOf('alice')).id;
  const secret = { name: 'SECRET', text: 'hidden', type: 'secret_text' };
  assert.equal((await cellar.call('PUT', `${base}/customers/scripts/alice/secrets`, secret)).status, 200);
  assert.match(await succeed(customer, ...deployTo('customers', 'alice'), '--var', 'NAME:new'), /Uploaded/);
  const { body } = await asked('/alice/');
  assert.deepEqual([body.name, body.secret], ['new', 'hidden']);
  assert.equal((await scriptOf('alice')).id, before);
  const { result } = (await cellar.call('GET', `${base}/customers/scripts/alice`)).body;
  assert.deepEqual([result.dispatch_namespace, result.script.id], ['customers', 'alice']);
});

test('a script sleeps, and a call wakes it', async () => {
  const { id } = await scriptOf('Bob_1');
  await cellar.call('POST', `/v1/apps/${id}/sleep`);
  await eventually(() => cells(id).length === 0, 'its process has gone');
  assert.equal((await asked('/Bob_1/')).body.name, 'Bob_1');
});

test('a WebSocket passes, and an error of a script is its own', async () => {
  const socket = cellar.webSocket('platform', '/Bob_1/socket');
  const [message] = (await once(socket, 'message')) as [MessageEvent];
  assert.equal(message.data, 'Bob_1');
  socket.close();
  assert.equal((await asked('/Bob_1/throws')).status, 500);
  assert.equal(
    (await cellar.get('platform', '/Bob_1/missing')).status,
    200,
    'it cannot say that it is missing',
  );
});

test('Wrangler lists, renames and deletes namespaces, but only one without scripts', async () => {
  assert.match(await succeed(customer, 'dispatch-namespace', 'list'), /customers/);
  assert.match(await succeed(customer, 'dispatch-namespace', 'get', 'customers'), /script_count: 2/);
  assert.match(await fail(customer, 'dispatch-namespace', 'get', 'nobody'), /no dispatch namespace nobody/);
  assert.match(await fail(customer, ...deployTo('nobody', 'alice')), /no dispatch namespace nobody/);
  assert.match(await fail(customer, 'dispatch-namespace', 'create', 'a b'), /1 to 63 letters/);
  assert.match(await fail(customer, 'dispatch-namespace', 'delete', 'customers'), /only one without scripts/);
  assert.match(await fail(customer, 'dispatch-namespace', 'rename', 'customers', 'c'), /only one without/);
  await succeed(customer, 'dispatch-namespace', 'create', 'spare');
  assert.match(await fail(customer, 'dispatch-namespace', 'rename', 'spare', 'customers'), /already/);
  await succeed(customer, 'dispatch-namespace', 'rename', 'spare', 'other');
  await succeed(customer, 'dispatch-namespace', 'delete', 'other');
  const { result } = (await cellar.call('GET', base)).body;
  assert.deepEqual(
    result.map(({ namespace_name }: { namespace_name: string }) => namespace_name),
    ['customers'],
  );
});

test('another account has its own namespaces, and reaches no other', async () => {
  const eve = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const { key } = await rpc('keys.create', { account: eve.id });
  const as = async (...words: string[]) => {
    const { code, stdout, stderr } = await customer.run(words, {
      token: key,
      environment: { CLOUDFLARE_ACCOUNT_ID: eve.id },
    });
    return { code, text: stdout + stderr };
  };
  assert.match((await as('dispatch-namespace', 'get', 'customers')).text, /no dispatch namespace customers/);
  const stolen = await fetch(`${cellar.api}${base}/customers/scripts/alice`, {
    headers: { authorization: `Bearer ${key}` },
  });
  assert.equal(stolen.status, 403);
  assert.equal((await as('dispatch-namespace', 'create', 'customers')).code, 0);
  const platform = new Project(cellar, {
    ...filesOf('platform'),
    'wrangler.jsonc': readFileSync('test/apps/platform/wrangler.jsonc', 'utf8').replace('platform', 'eves'),
  });
  const deployed = await platform.run(['deploy'], {
    token: key,
    environment: { CLOUDFLARE_ACCOUNT_ID: eve.id },
  });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  assert.equal((await cellar.get('eves', '/alice/')).text, 'no such customer');
  const own = await as(...deployTo('customers', 'alice'), '--var', 'NAME:of Eve');
  assert.equal(own.code, 0, own.text);
  assert.equal(JSON.parse((await cellar.get('eves', '/alice/')).text).name, 'of Eve');
  assert.equal((await asked('/alice/')).body.name, 'new');
});

test('a loop of scripts ends, and thousands of names cost nothing', async () => {
  const namespace = { binding: 'SELF', namespace: 'customers' };
  const project = new Project(cellar, {
    'wrangler.jsonc': JSON.stringify({
      ...{ name: 'loop', main: 'index.js', compatibility_date: '2026-10-01' },
      dispatch_namespaces: [namespace],
    }),
    'index.js': `export default {
      async fetch(request, env) {
        if (!request.url.endsWith('/names')) return env.SELF.get('loop').fetch(request);
        const names = Array.from({ length: 3000 }, (_, i) => 'no-' + i);
        const ends = await Promise.allSettled(names.map((name) => env.SELF.get(name).fetch('http://x/')));
        const reasons = new Set(ends.map(({ reason }) => reason?.message));
        for (const bad of [undefined, 7, null]) try { env.SELF.get(bad); } catch (error) { reasons.add(error.name); }
        try { env.SELF.get('alice', {}, { outbound: {} }); } catch (error) { reasons.add(error.message); }
        return Response.json([...reasons]);
      },
    };`,
  });
  await succeed(project, ...deployTo('customers', 'loop'));
  const { status, body } = await asked('/loop/');
  assert.equal(status, 508);
  assert.match(body, /more than 16 deep/);
  const { body: reasons } = await asked('/loop/names');
  const outbound = 'get(): "outbound" needs "outbound" in the configuration of the binding';
  assert.deepEqual(reasons, ['Worker not found.', 'TypeError', outbound]);
});

test('a script is no service and no outbound Worker of a binding', async () => {
  const { slug } = await scriptOf('alice');
  const config = (more: object) =>
    JSON.stringify({ name: 'wrong', main: 'index.js', compatibility_date: '2026-10-01', ...more });
  const index = { 'index.js': "export default { fetch: () => new Response('x') };" };
  const outbound = { binding: 'D', namespace: 'customers', outbound: { service: slug } };
  for (const [more, why] of [
    [
      { dispatch_namespaces: [outbound] },
      /D names the outbound Worker dispatched-.* has no app of that name/,
    ],
    [{ services: [{ binding: 'S', service: slug }] }, /has no app of that name/],
  ] as const) {
    const project = new Project(cellar, { ...index, 'wrangler.jsonc': config(more) });
    assert.match(await fail(project, 'deploy'), why);
  }
});

test('a deleted script comes back with its data', async () => {
  const { id } = await scriptOf('Bob_1');
  await asked('/Bob_1/count');
  assert.equal((await cellar.call('DELETE', `${base}/customers/scripts/Bob_1`)).status, 200);
  assert.equal((await asked('/Bob_1/')).status, 404);
  await eventually(
    async () => (await rpc('apps.list_deleted', {})).items.some((app: App) => app.id === id),
    'it can be undeleted',
  );
  await rpc('apps.undelete', { app: id });
  await eventually(async () => (await asked('/Bob_1/count')).body.count >= 3, 'it serves again');
});
