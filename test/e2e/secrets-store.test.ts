// The Secrets Store of an account, on a real host with Wrangler.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar();
const rpc = rpcOf(cellar);
const INDEX = readFileSync('test/apps/secrets/index.js', 'utf8');
const VALUE = 'a value ü with "quotes"\nand lines';
let project: Project;
let account = '';
let stores = '';
let store = '';
before(async () => {
  await cellar.start();
  project = new Project(cellar, { 'wrangler.jsonc': '{}' });
  const made = await wrangler('secrets-store', 'store', 'create', 'main', '--remote');
  store = /ID: ([0-9a-f]{32})/.exec(made)![1]!;
  account = (await cellar.call('GET', '/client/v4/accounts')).body.result[0].id;
  stores = `/client/v4/accounts/${account}/secrets_store/stores`;
});
after(() => cellar[Symbol.asyncDispose]());

async function wrangler(...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await project.wrangler(...words);
  assert.equal(code, 0, stdout + stderr);
  return stdout + stderr;
}

/** Files of an app whose bindings KEY, MISSING and OTHER are secrets of a store. */
function filesOf(name: string, storeId = store): Record<string, string> {
  const secrets = Object.entries({ KEY: 'api-key', MISSING: 'no-such', OTHER: 'not-for-workers' });
  const secrets_store_secrets = secrets.map(([binding, secret_name]) => ({
    ...{ binding, secret_name, store_id: storeId },
  }));
  const config = { name, main: 'index.js', compatibility_date: '2026-10-01', secrets_store_secrets };
  return { 'index.js': INDEX, 'wrangler.jsonc': JSON.stringify(config) };
}

async function send(method: string, path: string, body?: unknown, key = cellar.key) {
  const { status, body: answer } = await cellar.call(method, stores + path, body, key);
  return { status, result: answer.result, message: answer.errors[0]?.message };
}

async function answerOf(app: string, path: string): Promise<[number, string]> {
  const { status, text } = await cellar.get(app, path);
  return [status, text];
}

test('Wrangler makes, lists, changes, copies and deletes secrets, and shows no value', async () => {
  const secret = ['secrets-store', 'secret'];
  const made = await wrangler(
    ...[
      ...secret,
      'create',
      store,
      '--name',
      'first',
      '--value',
      'hidden-1',
      '--scopes',
      'workers',
      '--remote',
    ],
  );
  const id = /ID: ([0-9a-f]{32})/.exec(made)![1]!;
  await wrangler(
    ...[
      ...secret,
      'duplicate',
      store,
      '--secret-id',
      id,
      '--name',
      'second',
      '--scopes',
      'workers',
      '--remote',
    ],
  );
  await wrangler(
    ...[
      ...secret,
      'update',
      store,
      '--secret-id',
      id,
      '--scopes',
      'ai_gateway',
      '--comment',
      'seen',
      '--remote',
    ],
  );
  const listed = await wrangler(...secret, 'list', store, '--remote');
  assert.match(listed, /first.*seen.*ai_gateway.*active(?:.|\n)*second.*workers.*active/);
  assert.doesNotMatch(listed, /hidden/);
  assert.match(await wrangler(...secret, 'get', store, '--secret-id', id, '--remote'), /first.*ai_gateway/);
  assert.equal((await send('DELETE', `/${store}`)).status, 409, 'a store with secrets stays');
  await wrangler(...secret, 'delete', store, '--secret-id', id, '--remote');
  assert.equal((await send('GET', `/${store}/secrets/${id}`)).status, 404);
  assert.match(await wrangler('secrets-store', 'store', 'list', '--remote'), new RegExp(`main.*${store}`));
});

test('apps of the account read the secrets that they bind, and changes at once', async () => {
  const given = [
    { name: 'api-key', value: VALUE, scopes: ['workers'] },
    { name: 'not-for-workers', value: 'x', scopes: ['ai_gateway'] },
  ];
  const { result } = await send('POST', `/${store}/secrets`, given);
  await cellar.deploy('pushed', 'secrets', filesOf('pushed'));
  const uploaded = new Project(cellar, filesOf('uploaded'));
  const { code, stdout, stderr } = await uploaded.wrangler('deploy');
  assert.equal(code, 0, stdout + stderr);
  for (const app of ['pushed', 'uploaded']) {
    assert.deepEqual(await answerOf(app, '/KEY'), [200, VALUE]);
    assert.deepEqual(await answerOf(app, '/MISSING'), [500, 'Secret "no-such" not found']);
    assert.deepEqual(await answerOf(app, '/OTHER'), [500, 'Secret "not-for-workers" not found']);
  }
  await send('PATCH', `/${store}/secrets/${result[0].id}`, { value: 'changed' });
  await eventually(async () => (await answerOf('pushed', '/KEY'))[1] === 'changed', 'the change');
  await send('POST', `/${store}/secrets/${result[0].id}/duplicate`, { name: 'no-such', scopes: ['workers'] });
  await eventually(async () => (await answerOf('pushed', '/MISSING'))[1] === 'changed', 'the change');
  await send('DELETE', `/${store}/secrets/${result[0].id}`);
  await eventually(async () => (await answerOf('pushed', '/KEY'))[0] === 500, 'the change');
});

test('an app reads no secret of another account, whatever it binds', async () => {
  await send('POST', `/${store}/secrets`, [{ name: 'api-key', value: 'mine', scopes: ['workers'] }]);
  const eve = await rpc('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const { key } = await rpc('keys.create', { account: eve.id });
  const thief = new Project(cellar, filesOf('thief'));
  const { code, stdout, stderr } = await thief.run(['deploy'], { token: key });
  assert.equal(code, 0, stdout + stderr);
  assert.deepEqual(await answerOf('thief', '/KEY'), [500, 'Secret "api-key" not found']);
  assert.equal((await send('GET', `/${store}/secrets`, undefined, key)).status, 403);
  const own = `/client/v4/accounts/${eve.id}/secrets_store/stores/${store}/secrets`;
  assert.equal((await cellar.call('GET', own, undefined, key)).status, 404);
});

test('names, values, numbers and scopes of keys are checked', async () => {
  const one = { name: 'a', value: 'b', scopes: ['workers'] };
  for (const wrong of [
    { ...one, name: 'a b' },
    { ...one, value: 'a\0' },
    { ...one, value: 'x'.repeat(6_000) },
  ])
    assert.equal((await send('POST', `/${store}/secrets`, [wrong])).status, 400, JSON.stringify(wrong));
  assert.match((await send('POST', `/${store}/secrets`, [one, one])).message, /secret a already/);
  const many = Array.from({ length: 99 }, (_, n) => ({ ...one, name: `many-${n}` }));
  assert.match((await send('POST', `/${store}/secrets`, many)).message, /may have at most 100 secrets/);
  assert.equal((await send('GET', `/${'0'.repeat(32)}/secrets`)).status, 404);
  const { key } = await rpc('keys.create', { account, name: 'deployer', scope: 'deploy' });
  assert.equal((await send('GET', `/${store}/secrets`, undefined, key)).status, 200);
  assert.match((await send('POST', `/${store}/secrets`, [one], key)).message, /scope admin/);
  const { items } = await rpc('audit.list', { operation: 'secrets.set', limit: 100 });
  const [refused] = items.filter(({ outcome }: { outcome: string }) => outcome !== 'ok');
  assert.equal(refused.details.storage, store);
  const names = items.map(({ details }: { details: { name?: string } }) => details.name);
  assert.ok(names.includes('api-key, not-for-workers'), names.join());
});

test('no file of the Cellar has a value as it is', async () => {
  const value = 'a-value-to-be-found';
  const { status } = await send('POST', `/${store}/secrets`, [{ name: 'kept', value, scopes: ['workers'] }]);
  assert.equal(status, 200);
  const words = ['--recursive', '--files-with-matches', '--text', '--no-messages', '--devices=skip', '-F'];
  const found = (text: string) =>
    spawnSync('grep', [...words, text, cellar.data], { encoding: 'utf8' }).stdout;
  assert.notEqual(found('kept'), '', 'the secret is there');
  assert.equal(found(value), '');
});

test('of concurrent calls that add one name, one adds it', async () => {
  const added = [{ name: 'raced', value: 'v', scopes: ['workers'] }];
  const answers = await Promise.all(
    Array.from({ length: 4 }, () => send('POST', `/${store}/secrets`, added)),
  );
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409, 409]);
});
