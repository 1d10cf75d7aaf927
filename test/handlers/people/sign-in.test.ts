// Users of the control UI in the API: the acting account, and links that create accounts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { API_KEY, TestControl, TOKEN, WELCOME } from '../../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start();
});
after(() => control.stop());

// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
type Json = any;

/** Calls as an account that is signed in. @returns the result, or the error code */
async function as(account: string, method: string, params: object = {}, token = TOKEN): Promise<Json> {
  const { body } = await control.fetch('POST', '/rpc', {
    headers: {
      authorization: `Bearer ${token}`,
      'x-cellar-account': account,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return body.error?.data.code ?? body.result;
}

/** Calls a route about people as the UI's server does. */
async function ask(name: string, input: object): Promise<{ status: number; body: Json }> {
  const client = name === 'join' || name === 'close' ? { address: '127.0.0.1' } : {};
  return control.internal(`/internal/sign-in/${name}`, { ...client, ...input });
}

const invite = async (params: object = {}) => {
  const made = await control.call('invites.create', params);
  return { ...made, token: new URL(made.url).searchParams.get('token')! };
};
const person = (name: string) => ({ name, email: `${name}@example.com` });

test('the header names the acting account, and counts only with the runner token', async () => {
  const { id } = await control.call('accounts.create', person('header'));
  const { items } = await as(id, 'apps.list');
  assert.deepEqual(items, []);
  assert.equal((await as(id, 'apps.create', { slug: 'of-header' })).owner, id);
  assert.equal(await as('0000000000000000', 'apps.list'), 'unauthorized');
  // With a key the header is ignored: the first account's apps are listed, and the key gives no admin rights.
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
  // The admin also reads apps of other accounts; the admin's key does not.
  const { id } = await as(member.id, 'apps.create', { slug: 'of-a-member' });
  for (const [who, answer] of [
    [admin.id, id],
    [member.id, id],
  ] as const) {
    assert.equal((await as(who, 'apps.get', { id })).id, answer);
    assert.ok((await as(who, 'apps.list', { limit: 200 })).items.some((app: Json) => app.id === id));
    assert.ok((await as(who, 'apps.overview')).items.some((app: Json) => app.id === id));
  }
  assert.deepEqual((await as(admin.id, 'collaborators.list', { id })).items, []);
  assert.equal(await as(admin.id, 'collaborators.list', { id }, key), 'forbidden');
  assert.equal(await as(admin.id, 'apps.get', { id: '0000000000000000' }), 'app_not_found');
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
    ['invite', made.email, true],
  );
  // The link proves only the invited address, so the account gets that one.
  const claimed = await ask('claim', { token, name: 'Bob', email: 'chief@example.com' });
  assert.equal(claimed.body.email, 'bob@example.com');
  assert.equal((await ask('close', { token, account: claimed.body.id })).status, 200);
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

test('an interrupted claim can be repeated and gets the same account; of two at once one counts', async () => {
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

test('of closes of a link at once, one writes to the audit log', async () => {
  const { token } = await invite();
  const { body } = await ask('claim', { token, ...person('erin') });
  const closes = Array.from({ length: 100 }, () => ask('close', { token, account: body.id }));
  for (const { status } of await Promise.all(closes)) assert.equal(status, 200);
  const { items } = await control.call('audit.list', { account: body.id });
  assert.deepEqual(
    items.map(({ operation }: Json) => operation),
    ['invites.accept'],
  );
});

test('an address that another account has is refused, and the link still works with a free one', async () => {
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

test('a link for an account raises its role on the app, never lowers it, and gives the owner none', async () => {
  const { id, owner, admin } = await appOf('raised');
  const { id: viewer } = await control.call('accounts.create', person('raised-viewer'));
  await as(owner, 'collaborators.set', { id, account: viewer, role: 'view' });
  for (const account of [viewer, admin, owner]) {
    const { token } = await invite({ account, app: { id, role: 'push' } });
    assert.equal((await ask('claim', { token, ...person('x') })).status, 200);
  }
  assert.equal(await roleOn(id, viewer), 'push');
  assert.equal(await roleOn(id, admin), 'admin');
  assert.equal(await roleOn(id, owner), undefined);
});

/** Makes an app of a member, with a second admin. */
async function appOf(name: string): Promise<{ id: string; owner: string; admin: string }> {
  const owner = (await control.call('accounts.create', person(`${name}-owner`))).id;
  const admin = (await control.call('accounts.create', person(`${name}-admin`))).id;
  const { id } = await as(owner, 'apps.create', { slug: `${name}-app` });
  await as(owner, 'collaborators.set', { id, account: admin, role: 'admin' });
  return { id, owner, admin };
}
async function inviteTo(id: string, by: string, params: object): Promise<Json> {
  const made = await as(by, 'collaborators.invite', { id, role: 'push', ...params });
  return typeof made === 'string' ? made : { ...made, token: new URL(made.url).searchParams.get('token') };
}
const roleOn = async (id: string, account: string) =>
  (await control.call('collaborators.list', { id })).items.find((each: Json) => each.account === account)
    ?.role;

test('an admin of an app invites people who have no account: as guests, who own no apps', async () => {
  const { id, admin } = await appOf('invites');
  const { token, url, mail, ...made } = await inviteTo(id, admin, { email: 'Guest-One@example.com' });
  assert.deepEqual(
    [made.email, made.role, made.by, made.app.role],
    ['guest-one@example.com', 'guest', admin, 'push'],
  );
  assert.equal(Date.parse(made.expires_at) - Date.parse(made.created_at), 7 * 24 * 3_600_000);
  assert.deepEqual((await as(admin, 'collaborators.invites', { id })).items, [made]);
  assert.ok(
    (await control.call('invites.list', { limit: 200 })).items.some((each: Json) => each.id === made.id),
  );
  // The invite's address counts, whatever address the claim states.
  const { body: guest } = await ask('claim', { token, ...person('somebody-else') });
  assert.deepEqual([guest.email, guest.role], ['guest-one@example.com', 'guest']);
  await ask('close', { token, account: guest.id });
  for (const call of ['look', 'claim', 'join']) {
    const input = { token, ...(call === 'claim' && person('x')), ...(call === 'join' && { account: admin }) };
    assert.equal((await ask(call, input)).body.code, 'invite_not_found', call);
  }
  assert.equal(await roleOn(id, guest.id), 'push');
  assert.equal(await as(guest.id, 'apps.create', { slug: 'of-a-guest' }), 'quota_exceeded');
  assert.equal(
    await as(guest.id, 'collaborators.invite', { id, role: 'view', email: 'a@example.com' }),
    'forbidden',
  );
  const { items } = await as(admin, 'collaborators.list', { id });
  const listed = items.find((each: Json) => each.account === guest.id);
  assert.deepEqual([listed.name, listed.email], ['somebody-else', 'guest-one@example.com']);
  // A password reset revokes the account's keys, because others may have made them.
  const { key } = await as(guest.id, 'keys.create', { account: guest.id });
  const withKey = () =>
    control.fetch('GET', `/v1/apps/${id}`, { headers: { authorization: `Bearer ${key}` } });
  assert.equal((await withKey()).status, 200);
  const anew = await invite({ account: guest.id });
  assert.equal((await ask('claim', { token: anew.token, ...person('x') })).status, 200);
  assert.equal((await withKey()).status, 401);
  // An invite of the operator makes the guest a member, who may own apps.
  assert.equal((await ask('join', { token: (await invite()).token, account: guest.id })).status, 200);
  assert.equal((await as(guest.id, 'accounts.me')).role, 'member');
  assert.equal((await as(guest.id, 'apps.create', { slug: 'of-a-guest' })).owner, guest.id);
});

test('who invited a guest keeps nothing, when the person comes from the provider', async () => {
  const { id, admin } = await appOf('squatted');
  const { token } = await inviteTo(id, admin, { email: 'squatted@example.com' });
  const { body: guest } = await ask('claim', { token, ...person('x') });
  const { key } = await as(guest.id, 'keys.create', { account: guest.id });
  const came = { account: null, ...person('squatted'), verified: true, role: 'admin' };
  const { body: arrived } = await ask('arrive', came);
  assert.deepEqual([arrived.id, arrived.role, arrived.drops_credentials], [guest.id, 'admin', true]);
  const { status } = await control.fetch('GET', `/v1/apps/${id}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  assert.equal(status, 401);
  // An arrival may be repeated after an interruption, before the account's credentials were deleted.
  assert.equal((await ask('arrive', came)).body.drops_credentials, true);
  const known = { ...came, account: guest.id, role: 'guest' };
  assert.equal((await ask('arrive', known)).body.drops_credentials, false);
  // What the person has added since stays, also at a first sign-in by another provider.
  assert.equal((await ask('arrive', came)).body.drops_credentials, false);
});

test('an account with an unproved address keeps no keys when the address’s person comes from the provider', async () => {
  const { token } = await invite();
  const typed = (await ask('claim', { token, ...person('ceo') })).body;
  const fixed = await invite({ email: 'cto@example.com' });
  const invited = (await ask('claim', { token: fixed.token, ...person('cto') })).body;
  const made = await control.call('accounts.create', person('coo'));
  const role = null;
  for (const [{ id }, name, drops] of [
    [typed, 'ceo', true],
    [invited, 'cto', false],
    [made, 'coo', false],
  ] as const) {
    const { key } = await as(id, 'keys.create', { account: id });
    const { body } = await ask('arrive', { account: null, ...person(name), verified: true, role });
    assert.deepEqual([body.id, body.drops_credentials], [id, drops], name);
    const { status } = await control.fetch('GET', '/v1/apps', {
      headers: { authorization: `Bearer ${key}` },
    });
    assert.equal(status, drops ? 401 : 200, name);
  }
  // The used link must not set a password again, also if its sign-up was never completed.
  assert.equal((await ask('claim', { token, ...person('ceo') })).body.code, 'invite_not_found');
  const came = { account: null, ...person('newcomer'), verified: true, role };
  assert.equal((await ask('arrive', came)).body.drops_credentials, false);
  assert.equal((await ask('arrive', came)).body.drops_credentials, false);
});

test('a link for a new password keeps the second factor of a member, but not of a guest', async () => {
  const { id, admin } = await appOf('recovers');
  const { token } = await inviteTo(id, admin, { email: 'recovering-guest@example.com' });
  const { body: guest } = await ask('claim', { token, ...person('x') });
  const member = await control.call('accounts.create', person('recovering-member'));
  const database = await control.database();
  for (const [account, keeps] of [
    [member, true],
    [guest, false],
  ] as const) {
    const { token } = await invite({ account: account.id });
    await database
      .prepare('UPDATE invites SET is_recovery = 1 WHERE account_id = ? AND used_at IS NULL')
      .bind(account.id)
      .run();
    assert.equal((await ask('claim', { token, ...person('x') })).body.keeps_factors, keeps, account.email);
  }
});

test('an invite gives the role that it states, whoever made it', async () => {
  const { id } = await control.create('stated');
  const { id: boss } = (
    await ask('claim', { token: (await invite({ role: 'admin' })).token, ...person('boss') })
  ).body;
  const email = 'viewer@example.com';
  const byAdmin = await as(boss, 'collaborators.invite', { id, role: 'view', email });
  const other = { id, role: 'view', email: 'other-viewer@example.com' };
  const byRunner = await control.call('collaborators.invite', other);
  const asGuest = await control.call('invites.create', { role: 'guest', app: { id, role: 'view' } });
  for (const [n, made] of [byAdmin, byRunner, asGuest].entries()) {
    const token = new URL(made.url).searchParams.get('token')!;
    assert.deepEqual([made.role, made.by], ['guest', null]);
    assert.equal((await ask('look', { token })).body.role, 'guest');
    const { body } = await ask('claim', { token, ...person(`viewer-${n}`) });
    assert.equal(body.role, 'guest');
    assert.equal(await roleOn(id, body.id), 'view');
    assert.equal(await as(body.id, 'apps.create', { slug: `of-viewer-${n}` }), 'quota_exceeded');
  }
  // An existing account gets only the role on the app: a guest stays a guest, and a member stays a member.
  const guest = (await control.call('accounts.list', { limit: 200 })).items.find(
    ({ name }: Json) => name === 'viewer-0',
  );
  const member = await control.call('accounts.create', person('stays-member'));
  for (const [account, role] of [
    [guest.id, 'guest'],
    [member.id, 'member'],
  ]) {
    const { url } = await control.call('collaborators.invite', { id, role: 'push', email });
    const token = new URL(url).searchParams.get('token')!;
    assert.equal((await ask('join', { token, account })).status, 200);
    assert.equal((await as(account, 'accounts.me')).role, role);
    assert.equal(await roleOn(id, account), 'push');
  }
  const { token } = await invite({ app: { id, role: 'view' } });
  assert.equal((await ask('look', { token })).body.role, 'member');
  assert.equal((await ask('claim', { token, ...person('with-apps') })).body.role, 'member');
  assert.deepEqual((await control.refusal('invites.create', { role: 'guest' })).errors, [
    { path: 'app', message: 'is required for a guest, because a guest owns no apps' },
  ]);
});

test('an invite to an app gives nothing else, and ends with the rights of its maker', async () => {
  const { id, owner, admin } = await appOf('rights');
  const other = await appOf('other-rights');
  const email = 'friend@example.com';
  assert.equal(await inviteTo(other.id, admin, { email }), 'forbidden');
  assert.equal(await inviteTo('nothing-here', admin, { email }), 'app_not_found');
  const unknown = { id: '0000000000000000', email, role: 'view' };
  assert.equal((await control.refusal('collaborators.invite', unknown)).code, 'app_not_found');
  for (const extra of [
    { role: 'owner' },
    { machine: 'admin' },
    { account: owner },
    { app: { id: other.id, role: 'view' } },
  ])
    assert.equal(await inviteTo(id, admin, { email, ...extra }), 'invalid_input', JSON.stringify(extra));
  for (const wrong of ['a@example.com\r\nBcc: b@example.com', 'a@example.com, b@example.com', 'a', ''])
    assert.equal(await inviteTo(id, admin, { email: wrong }), 'invalid_input', wrong);

  const link = await inviteTo(id, admin, { email, role: 'admin' });
  assert.equal(
    await as(other.admin, 'collaborators.revoke_invite', { id: other.id, invite: link.id }),
    'invite_not_found',
  );
  assert.equal(await as(other.admin, 'collaborators.revoke_invite', { id, invite: link.id }), 'forbidden');
  await as(owner, 'collaborators.set', { id, account: admin, role: 'push' });
  for (const call of ['look', 'claim', 'join']) {
    const input = {
      token: link.token,
      ...(call === 'claim' && person('y')),
      ...(call === 'join' && { account: other.owner }),
    };
    assert.equal((await ask(call, input)).body.code, 'invite_not_found', call);
  }
  assert.deepEqual((await as(owner, 'collaborators.invites', { id })).items, []);
  assert.equal(await roleOn(id, other.owner), undefined);

  const kept = await inviteTo(id, owner, { email });
  assert.equal(await as(owner, 'collaborators.revoke_invite', { id, invite: kept.id }), null);
  assert.equal((await ask('look', { token: kept.token })).body.code, 'invite_not_found');
  const last = await inviteTo(id, owner, { email });
  await as(owner, 'apps.delete', { id });
  assert.equal(
    (await ask('claim', { token: last.token, ...person('late-friend') })).body.code,
    'invite_not_found',
  );
});

test('an invite to an app does not reveal who has an account; who has one uses it signed in', async () => {
  const { id, admin } = await appOf('known');
  const member = (await control.call('accounts.create', person('known-member'))).id;
  const [known, unknown] = [
    await inviteTo(id, admin, { email: 'known-member@example.com' }),
    await inviteTo(id, admin, { email: 'unknown-member@example.com' }),
  ];
  const shape = ({ email, id: _, token, url, created_at, expires_at, ...rest }: Json) => rest;
  assert.deepEqual(shape(known), shape(unknown));
  const looks = await Promise.all([known, unknown].map(({ token }) => ask('look', { token })));
  const [first, second] = looks.map(({ body: { email, expires_at, ...rest } }) => rest);
  assert.deepEqual(first, second);
  // The invite's address counts, whatever address the claim states.
  const { body } = await ask('claim', { token: unknown.token, ...person('known-member') });
  assert.equal(body.email, 'unknown-member@example.com');
  assert.equal(
    (await ask('claim', { token: known.token, ...person('new-address') })).body.code,
    'email_taken',
  );

  const joins = await Promise.all([1, 2].map(() => ask('join', { token: known.token, account: member })));
  assert.deepEqual(joins.map(({ status }) => status).sort(), [200, 404]);
  assert.deepEqual(joins.find(({ status }) => status === 200)!.body, { app: 'known-app' });
  assert.equal(await roleOn(id, member), 'push');
  assert.equal((await as(member, 'accounts.me')).role, 'member');
});

test('an invite that is used signed in can raise a role but not lower it', async () => {
  const { id, owner, admin } = await appOf('raises');
  const use = async (account: string, role: string) => {
    const { token } = await inviteTo(id, owner, { email: 'whoever@example.com', role });
    return (await ask('join', { token, account })).status;
  };
  assert.equal(await use(admin, 'view'), 200);
  assert.equal(await roleOn(id, admin), 'admin');
  assert.equal(await use(owner, 'view'), 200);
  assert.equal(await roleOn(id, owner), undefined);
  const guest = (
    await ask('claim', {
      token: (await inviteTo(id, owner, { email: 'low@example.com', role: 'view' })).token,
      ...person('low'),
    })
  ).body;
  for (const role of ['admin', 'push']) assert.equal(await use(guest.id, role), 200);
  assert.equal(await roleOn(id, guest.id), 'admin');
  assert.equal((await as(guest.id, 'accounts.me')).role, 'guest');
  const { token } = await invite({ role: 'admin' });
  assert.equal((await ask('join', { token, account: '0000000000000000' })).body.code, 'invite_not_found');
  assert.equal((await ask('join', { token, account: guest.id })).status, 200);
  assert.equal((await as(guest.id, 'accounts.me')).role, 'admin');
  // A password reset link cannot be used to join an app.
  const reset = await invite({ account: owner });
  assert.equal((await ask('join', { token: reset.token, account: admin })).body.code, 'invite_not_found');
});

test('the admins of an app invite at most twenty people a day, revoked invites included', async () => {
  const { id, owner, admin } = await appOf('many');
  const email = (n: number) => ({ email: `invited-${n}@example.com`, role: 'view' });
  for (let n = 0; n < 20; n++) {
    const made = await inviteTo(id, n % 2 ? owner : admin, email(n));
    if (n % 3 === 0) await as(owner, 'collaborators.revoke_invite', { id, invite: made.id });
  }
  for (const by of [owner, admin]) assert.equal(await inviteTo(id, by, email(20)), 'quota_exceeded');
  assert.equal((await control.call('collaborators.invite', { id, ...email(21) })).by, null);
  const database = await control.database();
  await database.prepare("UPDATE invites SET created_at = '2020-01-01' WHERE app_id = ?").bind(id).run();
  assert.equal((await inviteTo(id, admin, email(22))).by, admin);
});

test('a link for an existing account keeps its name, address and role', async () => {
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

test('the link of the first start is for the first account, until someone has claimed it', async () => {
  const purpose = await ask('look', { token: WELCOME });
  assert.deepEqual([purpose.body.kind, purpose.body.expires_at], ['welcome', null]);
  const { items } = await control.call('invites.list', { limit: 200 });
  assert.ok(items.every(({ role }: Json) => role !== 'owner'));
  const { body } = await ask('claim', { token: WELCOME, ...person('first') });
  assert.equal(body.role, 'admin');
  // The link is still open: after an interruption it is printed again.
  assert.deepEqual((await control.boot()).body, { welcome: true });
  await ask('close', { token: WELCOME, account: body.id });
  assert.deepEqual((await control.boot()).body, { welcome: false });
  const other = { api_key: API_KEY, welcome: 'another-secret-of-another-start' };
  assert.deepEqual((await control.internal('/internal/boot', other)).body, { welcome: false });
});

test('an address that the provider has not verified leads to no account, also after the own one was deleted', async () => {
  const victim = await control.call('accounts.create', person('victim'));
  const came = { account: null, ...person('leaver'), verified: true, role: null };
  const { body: leaver } = await ask('arrive', came);
  assert.equal((await ask('arrive', { ...came, account: leaver.id, verified: false })).body.id, leaver.id);
  await control.call('accounts.delete', { id: leaver.id });
  const back = { ...came, account: leaver.id, verified: false };
  assert.equal((await ask('arrive', { ...back, email: victim.email })).status, 403);
  assert.equal((await ask('arrive', back)).status, 403);
  assert.equal((await ask('arrive', { ...back, email: victim.email, verified: true })).body.id, victim.id);
});

test('routes about people need the secret of the host', async () => {
  const { body } = await control.internal('/internal/sign-in/look', { token: WELCOME }, 'wrong');
  assert.equal(body.code, 'route_not_found');
  for (const name of ['nothing', 'toString', '__proto__'])
    assert.equal((await ask(name, {})).body.code, 'route_not_found');
});
