// Accounts, API keys and collaborators, over RPC.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '2' });
});
after(() => control.stop());

const account = (name: string) => control.call('accounts.create', { name, email: `${name}@example.com` });
const fetchRefs = async (slug: string, key: string) =>
  (
    await control.fetch('GET', `/v1/git/${slug}/info/refs?service=git-upload-pack`, {
      headers: { authorization: `Basic ${btoa(`git:${key}`)}` },
    })
  ).status;

test('an account is made, listed and deleted; its address is unique', async () => {
  const made = await control.call('accounts.create', { name: 'Ada', email: 'Ada@Example.com' });
  assert.deepEqual(Object.keys(made).sort(), ['created_at', 'email', 'id', 'max_apps', 'name', 'role']);
  assert.deepEqual([made.name, made.email, made.role], ['Ada', 'ada@example.com', 'member']);
  assert.equal(
    (await control.refusal('accounts.create', { name: 'Eve', email: 'ADA@example.com' })).code,
    'email_taken',
  );
  assert.equal(
    (await control.refusal('accounts.create', { name: 'X', email: 'nowhere' })).errors[0].path,
    'email',
  );
  const { items } = await control.call('accounts.list', {});
  assert.deepEqual(
    items.map(({ name, role }: { name: string; role: string }) => [name, role]),
    [
      ['owner', 'owner'],
      ['Ada', 'member'],
    ],
  );
  assert.equal(await control.call('accounts.delete', { id: made.id }), null);
  assert.equal((await control.refusal('accounts.delete', { id: made.id })).code, 'account_not_found');
  assert.equal((await control.refusal('accounts.delete', { id: items[0].id })).code, 'account_protected');
});

test('each owner has a quota of its own, and an owner of apps cannot be deleted', async () => {
  const grace = await account('grace');
  for (const slug of ['grace-1', 'grace-2']) {
    const { status, body } = await control.api('POST', '/v1/apps', { slug, owner: grace.id });
    assert.deepEqual([status, body.owner], [201, grace.id]);
  }
  assert.equal((await control.api('POST', '/v1/apps', { slug: 'grace-3', owner: grace.id })).status, 403);
  await control.create('of-the-first');
  const { items } = (await control.api('GET', `/v1/apps?owner=${grace.id}`)).body;
  assert.equal(items.length, 2);
  assert.equal((await control.refusal('accounts.delete', { id: grace.id })).code, 'account_in_use');
  for (const { id } of items) await control.api('DELETE', `/v1/apps/${id}`);
  assert.equal(await control.call('accounts.delete', { id: grace.id }), null);
});

test('a key is shown once, opens its account’s apps until it is revoked, and is deleted with the account', async () => {
  const { id } = await account('linus');
  await control.api('POST', '/v1/apps', { slug: 'keyed', owner: id });
  const { key, ...made } = await control.call('keys.create', { account: id, name: 'laptop' });
  assert.match(key, /^cellar_[0-9a-z]{32}$/);
  assert.deepEqual([made.account, made.name], [id, 'laptop']);
  assert.equal(await fetchRefs('keyed', key), 200);
  const listed = await control.call('keys.list', { account: id });
  const { last_used_at } = listed.items[0];
  assert.ok(last_used_at !== null);
  assert.deepEqual(listed, { items: [{ ...made, last_used_at }], next_cursor: null });
  const database = await control.database();
  assert.doesNotMatch(
    JSON.stringify((await database.prepare('SELECT * FROM keys').all()).results),
    new RegExp(key),
  );
  assert.equal(await control.call('keys.revoke', { id: made.id }), null);
  assert.equal(await fetchRefs('keyed', key), 401);
  assert.equal((await control.refusal('keys.revoke', { id: made.id })).code, 'key_not_found');
  assert.equal((await control.refusal('keys.create', { account: 'nobody' })).code, 'account_not_found');
  assert.equal((await control.refusal('keys.list', { account: 'nobody' })).code, 'account_not_found');
});

test('a collaborator has the role that was set last, until it is removed', async () => {
  const { id } = await control.create('shared');
  const helper = await account('helper');
  const { key } = await control.call('keys.create', { account: helper.id });
  assert.equal(await fetchRefs('shared', key), 403);
  const set = await control.call('collaborators.set', { id, account: helper.id, role: 'view' });
  assert.deepEqual([set.app_id, set.account, set.role], [id, helper.id, 'view']);
  assert.equal(await fetchRefs('shared', key), 200);
  await control.call('collaborators.set', { id, account: helper.id, role: 'push' });
  const { items } = await control.call('collaborators.list', { id });
  assert.deepEqual(
    items.map(({ account, role }: { account: string; role: string }) => [account, role]),
    [[helper.id, 'push']],
  );
  assert.equal(await control.call('collaborators.remove', { id, account: helper.id }), null);
  assert.equal(await fetchRefs('shared', key), 403);
  await control.api('DELETE', `/v1/apps/${id}`);
});

test('collaborators of unknown apps, accounts and roles are refused', async () => {
  const { id } = await control.create('alone');
  const { items } = await control.call('accounts.list', { limit: 1 });
  const owner = items[0].id;
  const code = async (method: string, params: object) => (await control.refusal(method, params)).code;
  assert.equal(
    await code('collaborators.set', { id: 'nope', account: owner, role: 'view' }),
    'app_not_found',
  );
  assert.equal(await code('collaborators.set', { id, account: 'nobody', role: 'view' }), 'account_not_found');
  assert.equal(await code('collaborators.set', { id, account: owner, role: 'king' }), 'invalid_input');
  assert.equal(await code('collaborators.list', { id: 'nope' }), 'app_not_found');
  assert.equal(await code('collaborators.remove', { id, account: owner }), 'collaborator_not_found');
  assert.equal(await code('collaborators.remove', { id: 'nope', account: owner }), 'app_not_found');
});

test('these operations have no REST route', async () => {
  for (const path of ['/v1/accounts', '/v1/keys', '/v1/apps/x/collaborators', '/v1/apps/x/limits']) {
    assert.equal((await control.api('GET', path)).body.code, 'route_not_found', path);
  }
});
