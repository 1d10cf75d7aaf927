// Dispatch namespaces as the control plane answers Wrangler: who may do what, and how many there may be.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DISPATCH_NAME as BUNDLED } from '../../../bundler/bindings/dispatch.ts';
import { DISPATCH_NAME } from '../../../handlers/contract/apps/slug.ts';
import type { AuditEntry } from '../../../handlers/contract/people/audit.ts';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
let account = '';
before(async () => {
  control = await TestControl.start();
  ({ id: account } = await control.call('accounts.create', { name: 'Ann', email: 'ann@example.com' }));
});
after(() => control.stop());

async function keyOf(rights: { scope?: 'read' | 'deploy' | 'admin'; app?: string }): Promise<string> {
  return (await control.call('keys.create', { account, ...rights })).key;
}

async function ask(method: string, path: string, key: string, body?: object) {
  const { status, text } = await control.fetch(
    method,
    `/client/v4/accounts/${account}/workers/dispatch${path}`,
    {
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    },
  );
  return { status, ...JSON.parse(text) };
}

test('a key needs the scope of what it does', async () => {
  const app = await control.call('apps.create', { slug: 'only', owner: account });
  const [read, deploy, admin, one] = await Promise.all([
    keyOf({ scope: 'read' }),
    keyOf({ scope: 'deploy' }),
    keyOf({ scope: 'admin' }),
    keyOf({ scope: 'admin', app: app.id }),
  ]);
  const statuses = async (method: string, path: string, body?: (key: number) => object) => {
    const answers = [];
    for (const [index, key] of [read, deploy, admin, one].entries())
      answers.push((await ask(method, path, key!, body?.(index))).status);
    return answers;
  };
  const make = (index: number) => ({ name: `n${index}` });
  assert.deepEqual(await statuses('POST', '/namespaces', make), [403, 200, 200, 403]);
  assert.deepEqual(await statuses('GET', '/namespaces'), [200, 200, 200, 403]);
  assert.deepEqual(await statuses('PUT', '/namespaces/n1', () => ({ name: 'n1' })), [403, 200, 200, 403]);
  assert.deepEqual(await statuses('DELETE', '/namespaces/n1'), [403, 403, 200, 403]);
  assert.deepEqual(await statuses('GET', '/namespaces/n2/scripts/a'), [404, 404, 404, 404]);
});

test('the audit log has scripts and namespaces, and nothing of an app that is called like a script', async () => {
  const key = await keyOf({});
  const { id } = await control.call('accounts.create', { name: 'Bob', email: 'bob@example.com' });
  await control.call('apps.create', { slug: 'alice', owner: id });
  await ask('POST', '/namespaces', key, { name: 'first' });
  await ask('PUT', '/namespaces/first', key, { name: 'second' });
  const scripts = '/namespaces/second/scripts';
  const secret = { name: 'S', text: 'hidden', type: 'secret_text' };
  await ask('PUT', `${scripts}/alice/secrets`, key, secret);
  // The fake host accepts the upload, and refuses its deploy.
  await ask('PUT', `${scripts}/alice`, key, {});
  await ask('PUT', `${scripts}/alice/secrets`, key, secret);
  await ask('DELETE', '/namespaces/second', key);
  const { items } = await control.call('audit.list', { account, limit: 6 });
  const { slug } = (await control.call('apps.list', { dispatch_namespace: 'second' })).items[0];
  assert.deepEqual(
    items
      .reverse()
      .map(({ operation, app, details: { call: _, ...named } }: AuditEntry) => [
        operation,
        app?.slug ?? null,
        named,
      ]),
    [
      ['apps.create', null, { dispatch: 'first', to: 'second' }],
      ['secrets.set', null, { dispatch: 'second', script: 'alice' }],
      ['apps.create', slug, { dispatch: 'second', script: 'alice' }],
      ['deploys.create', slug, { dispatch: 'second', script: 'alice' }],
      ['secrets.set', slug, { dispatch: 'second', script: 'alice' }],
      ['apps.create', null, { dispatch: 'second' }],
    ],
  );
  assert.deepEqual(
    (await control.call('audit.list', { app: 'alice' })).items.map(({ operation }: AuditEntry) => operation),
    ['apps.create'],
  );
});

test('an account has a limited number of namespaces, whose names are checked', async () => {
  const key = await keyOf({});
  for (const name of ['', 'a/b', 'ä', 'a b', 'x'.repeat(64), '..', 'a%2fb', 7])
    assert.equal((await ask('POST', '/namespaces', key, { name })).status, 400, String(name));
  const before = (await ask('GET', '/namespaces', key)).result.length;
  for (let count = before; count < 100; count++)
    assert.equal((await ask('POST', '/namespaces', key, { name: `name-${count}` })).status, 200);
  const refused = await ask('POST', '/namespaces', key, { name: 'one-more' });
  assert.equal(refused.status, 409);
  assert.match(refused.errors[0].message, /has 100 dispatch namespaces/);
  const again = await ask('POST', '/namespaces', key, { name: 'name-99' });
  assert.equal(again.result.namespace_name, 'name-99');
});

test('the bundler and the contract have the same names', () => {
  assert.equal(BUNDLED.source, DISPATCH_NAME.source);
});

test('people see the namespaces of their account, and delete those without scripts', async () => {
  const { id: other } = await control.call('accounts.create', { name: 'Eve', email: 'eve@example.com' });
  const { key: eves } = await control.call('keys.create', { account: other });
  const only = (await control.call('apps.list', { owner: account })).items[0].id;
  const as = async (key: string, method: string, params: object) => {
    const { body } = await control.rpc(
      { jsonrpc: '2.0', id: 1, method, params },
      { authorization: `Bearer ${key}` },
    );
    return body.error?.data.code ?? body.result;
  };
  const own = await keyOf({});
  const first = await as(own, 'dispatch.list', { limit: 60 });
  const second = await as(own, 'dispatch.list', { limit: 60, cursor: first.next_cursor });
  const items = [...first.items, ...second.items];
  assert.equal(new Set(items.map(({ name }) => name)).size, 100);
  const { name, owner, scripts } = items.find((each) => each.name === 'second');
  assert.deepEqual({ name, owner, scripts }, { name, owner: { id: account, name: 'Ann' }, scripts: 1 });
  assert.deepEqual((await as(eves, 'dispatch.list', {})).items, []);
  const empty = { owner: account, dispatch: 'name-99' };
  assert.equal(await as(eves, 'dispatch.delete', empty), 'dispatch_not_found');
  for (const rights of [{ scope: 'deploy' }, { app: only }] as const)
    assert.equal(await as(await keyOf(rights), 'dispatch.delete', empty), 'forbidden');
  assert.equal(await as(await keyOf({ app: only }), 'dispatch.list', {}), 'forbidden');
  assert.equal(await as(own, 'dispatch.delete', { ...empty, dispatch: 'second' }), 'dispatch_in_use');
  assert.equal(await as(own, 'dispatch.delete', empty), null);
  assert.equal(await as(own, 'dispatch.delete', empty), 'dispatch_not_found');
});
