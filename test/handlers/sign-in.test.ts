// People of the control UI, as the API knows them: who acts, and links that make accounts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { API_KEY, TestControl, TOKEN, WELCOME } from '../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start();
});
after(() => control.stop());

// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
type Json = any;

/** A call as an account that is signed in. @returns its result, or the code it is refused with */
async function as(account: string, method: string, params: object = {}, token = TOKEN): Promise<Json> {
  const { status, body } = await control.fetch('POST', '/rpc', {
    headers: {
      authorization: `Bearer ${token}`,
      'x-cellar-account': account,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  if (status !== 200) return body.code;
  return body.error?.data.code ?? body.result;
}

/** What the UI's server asks about people. */
async function ask(name: string, input: object): Promise<{ status: number; body: Json }> {
  return control.internal(`/internal/sign-in/${name}`, input);
}

const invite = async (params: object = {}) => {
  const made = await control.call('invites.create', params);
  return { ...made, token: new URL(made.url).searchParams.get('token')! };
};
const person = (name: string) => ({ name, email: `${name}@example.com` });

test('the header names who acts beside the runner token alone', async () => {
  const { id } = await control.call('accounts.create', person('header'));
  const { items } = await as(id, 'apps.list');
  assert.deepEqual(items, []);
  assert.equal((await as(id, 'apps.create', { slug: 'of-header' })).owner, id);
  assert.equal(await as('0000000000000000', 'apps.list'), 'unauthorized');
  // With a key it is nothing: the first account's apps are listed, and it is no admin by its key.
  const { owner } = await as(id, 'apps.create', { slug: 'by-key' }, API_KEY);
  assert.notEqual(owner, id);
  assert.equal(await as(id, 'accounts.list', {}, API_KEY), 'forbidden');
});

test('an admin who is signed in may do what the runner token may; a member and a key may not', async () => {
  const { body: member } = await ask('claim', { token: (await invite()).token, ...person('member') });
  const { body: admin } = await ask('claim', {
    token: (await invite({ role: 'admin' })).token,
    ...person('admin'),
  });
  assert.deepEqual([member.role, admin.role], ['member', 'admin']);
  assert.equal(await as(member.id, 'accounts.list'), 'forbidden');
  const { items } = await as(admin.id, 'accounts.list');
  const roles = Object.fromEntries(items.map(({ name, role }: Json) => [name, role]));
  assert.deepEqual([roles.owner, roles.admin, roles.member], ['owner', 'admin', 'member']);
  const { key } = await as(admin.id, 'keys.create', { account: admin.id });
  assert.equal(await as(admin.id, 'accounts.list', {}, key), 'forbidden');
  assert.equal((await as(admin.id, 'invites.create', {})).role, 'member');
  assert.equal(await as(member.id, 'invites.create', {}), 'forbidden');
});

test('an invite is listed until it is used or revoked; its secret is kept nowhere', async () => {
  const { token, url, mail, ...made } = await invite({ email: 'Bob@example.com' });
  assert.deepEqual(
    [made.email, made.role, made.app, made.account],
    ['bob@example.com', 'member', null, null],
  );
  assert.equal(mail, null);
  assert.equal(Date.parse(made.expires_at) - Date.parse(made.created_at), 7 * 24 * 3_600_000);
  const listed = async () => (await control.call('invites.list', { limit: 200 })).items as Json[];
  assert.deepEqual(
    (await listed()).find(({ id }) => id === made.id),
    made,
  );
  const { results } = await (await control.database()).prepare('SELECT * FROM invites').all();
  for (const secret of [token, WELCOME]) assert.ok(!JSON.stringify(results).includes(secret));

  const purpose = await ask('look', { token });
  assert.deepEqual(
    [purpose.body.kind, purpose.body.email, purpose.body.email_fixed],
    ['invite', made.email, false],
  );
  assert.equal((await ask('claim', { token, ...person('bob') })).status, 200);
  assert.equal((await ask('close', { token })).status, 200);
  assert.ok(!(await listed()).some(({ id }) => id === made.id));
  for (const call of ['look', 'claim']) {
    const { body } = await ask(call, { token, ...(call === 'claim' && person('bobby')) });
    assert.equal(body.code, 'invite_not_found');
  }
  assert.equal((await control.rpc(revoke(made.id))).body.error.data.code, 'invite_not_found');

  const other = await invite();
  assert.equal((await control.rpc(revoke(other.id))).body.result, null);
  assert.equal((await ask('look', { token: other.token })).body.code, 'invite_not_found');
});
const revoke = (id: string) => ({ jsonrpc: '2.0', id: 1, method: 'invites.revoke', params: { id } });

test('an invite ends after seven days', async () => {
  const { id, token } = await invite();
  const database = await control.database();
  await database.prepare("UPDATE invites SET expires_at = '2020-01-01' WHERE id = ?").bind(id).run();
  assert.equal((await ask('look', { token })).body.code, 'invite_not_found');
  assert.equal((await ask('claim', { token, ...person('late') })).body.code, 'invite_not_found');
  const { items } = await control.call('invites.list', { limit: 200 });
  assert.ok(!items.some((each: Json) => each.id === id));
});

test('whoever is interrupted claims again and gets the same account; two at once get one', async () => {
  const { token } = await invite();
  const claims = await Promise.all(
    ['carol', 'carol', 'dave'].map((name) => ask('claim', { token, ...person(name) })),
  );
  const again = await ask('claim', { token, ...person('carol') });
  assert.deepEqual(new Set([...claims, again].map(({ body }) => body.id)).size, 1);
  const { items } = await control.call('accounts.list', { limit: 200 });
  const made = items.filter(({ email }: Json) => /^(carol|dave)@/.test(email ?? ''));
  assert.equal(made.length, 1);
});

test("an address that another account has is refused, and the link can be used with one's own", async () => {
  await control.call('accounts.create', person('taken'));
  const refused = await control.rpc({
    jsonrpc: '2.0',
    id: 1,
    method: 'invites.create',
    params: { email: 'taken@example.com' },
  });
  assert.equal(refused.body.error.data.code, 'email_taken');
  const { token } = await invite();
  const { status, body } = await ask('claim', { token, ...person('taken') });
  assert.deepEqual([status, body.code], [409, 'email_taken']);
  assert.equal((await ask('claim', { token, ...person('untaken') })).status, 200);
});

test('an invite for one app gives its role there, and nothing else', async () => {
  const { id } = await control.create('shared-app');
  const { token, app } = await invite({ app: { id, role: 'push' } });
  assert.deepEqual(app, { id, slug: 'shared-app', role: 'push' });
  const { body } = await ask('claim', { token, ...person('guest') });
  const { items } = await as(body.id, 'apps.list');
  assert.deepEqual(
    items.map(({ slug }: Json) => slug),
    ['shared-app'],
  );
  assert.equal(await as(body.id, 'apps.delete', { id }), 'forbidden');
  const nowhere = {
    jsonrpc: '2.0',
    id: 1,
    method: 'invites.create',
    params: { app: { id: 'x', role: 'view' } },
  };
  assert.equal((await control.rpc(nowhere)).body.error.data.code, 'app_not_found');
});

test('a link for an account that there is keeps its name, address and role', async () => {
  const account = await control.call('accounts.create', person('forgetful'));
  const { token } = await invite({ account: account.id, role: 'admin' });
  const { body } = await ask('look', { token });
  assert.deepEqual(
    [body.kind, body.name, body.email, body.email_fixed],
    ['account', 'forgetful', account.email, true],
  );
  const claimed = await ask('claim', { token, ...person('somebody-else') });
  assert.deepEqual(claimed.body, {
    id: account.id,
    ...person('forgetful'),
    role: 'member',
    keeps_factors: false,
  });
  await control.call('accounts.delete', { id: account.id });
  assert.equal((await ask('look', { token })).body.code, 'invite_not_found');
  assert.equal((await ask('account', { id: account.id })).body.code, 'account_not_found');
});

test('the link of the first start is for the first account, until somebody has it', async () => {
  const purpose = await ask('look', { token: WELCOME });
  assert.deepEqual([purpose.body.kind, purpose.body.expires_at], ['welcome', null]);
  const { items } = await control.call('invites.list', { limit: 200 });
  assert.ok(items.every(({ role }: Json) => role !== 'owner'));
  const { body } = await ask('claim', { token: WELCOME, ...person('first') });
  assert.equal(body.role, 'admin');
  // Not closed yet: whoever was interrupted finds it printed again.
  assert.deepEqual((await control.boot()).body, { welcome: true });
  await ask('close', { token: WELCOME });
  assert.deepEqual((await control.boot()).body, { welcome: false });
  const other = { api_key: API_KEY, welcome: 'another-secret-of-another-start' };
  assert.deepEqual((await control.internal('/internal/boot', other)).body, { welcome: false });
});

test('nobody without the secret of the host asks about people', async () => {
  const { body } = await control.internal('/internal/sign-in/look', { token: WELCOME }, 'wrong');
  assert.equal(body.code, 'route_not_found');
  for (const name of ['nothing', 'toString', '__proto__'])
    assert.equal((await ask(name, {})).body.code, 'route_not_found');
});
