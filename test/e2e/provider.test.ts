// Sign-in by a real provider of OpenID Connect: accounts, roles by group, and what is refused.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AuditEntry } from '../../handlers/contract/people/audit.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Visitor, welcomeOf } from '../support/e2e/visitor.ts';
import { CLIENT, comeBack, signInBy, TestProvider } from '../support/sign-in/provider.ts';

const provider = await TestProvider.start();
const settings = {
  RUNNER_OIDC_URL: provider.issuer,
  RUNNER_OIDC_CLIENT_ID: CLIENT.id,
  RUNNER_OIDC_CLIENT_SECRET: CLIENT.secret,
  RUNNER_OIDC_NAME: 'Example ID',
  RUNNER_OIDC_SCOPES: 'openid email profile groups',
  RUNNER_OIDC_ROLES: 'ops=admin,dev=member',
};
const cellar = new Cellar(settings);
const rpc = rpcOf(cellar);

before(async () => {
  await cellar.start();
  provider.serve(new Visitor(cellar).origin);
  const person = (name: string, groups: string[], email_verified = true) =>
    provider.people.set(name, { email: `${name}@Example.com`, email_verified, name, groups });
  person('grace', ['dev']);
  person('linus', ['ops', 'dev']);
  person('mallory', ['dev'], false);
  person('nobody', ['sales']);
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  await provider.close();
});

async function accountOf(visitor: Visitor) {
  return (await visitor.ask('GET', '/session')).body.account;
}

test('the sign-in page knows the provider, and the request has state, nonce and PKCE', async () => {
  const visitor = new Visitor(cellar);
  const { body } = await visitor.ask('GET', '/session');
  assert.deepEqual(body.provider, { name: 'Example ID', required: false });
  const begun = await visitor.ask('POST', '/oidc', {});
  const { origin, searchParams } = new URL(begun.body.url);
  assert.equal(origin, provider.issuer);
  for (const name of ['state', 'nonce', 'code_challenge']) assert.ok(searchParams.get(name), name);
  assert.equal(searchParams.get('code_challenge_method'), 'S256');
  assert.equal(searchParams.get('redirect_uri'), `${visitor.origin}/api/auth/callback/oidc`);
  assert.equal(searchParams.get('scope'), 'openid email profile groups');
});

test('a person gets an account with the role of the groups, which follows them', async () => {
  const visitor = new Visitor(cellar);
  assert.equal(await signInBy(provider, 'grace', visitor), '/');
  const first = await accountOf(visitor);
  assert.deepEqual([first.name, first.email, first.role], ['grace', 'grace@example.com', 'member']);
  const created = await visitor.ask('POST', '/v1/apps', { slug: 'of-grace' });
  assert.equal(created.body.owner, first.id);
  provider.people.get('grace')!.groups = ['ops'];
  const again = new Visitor(cellar);
  await signInBy(provider, 'grace', again);
  assert.deepEqual([(await accountOf(again)).id, (await accountOf(again)).role], [first.id, 'admin']);
  provider.people.get('grace')!.groups = ['dev'];
  await signInBy(provider, 'grace', again);
  assert.equal((await accountOf(again)).role, 'member');
  // A new address at the provider, even an unverified one, does not change the person's account.
  Object.assign(provider.people.get('grace')!, { email: 'other@example.com', email_verified: false });
  const moved = new Visitor(cellar);
  assert.equal(await signInBy(provider, 'grace', moved), '/');
  assert.deepEqual((await accountOf(moved)).email, 'grace@example.com');
  const { items } = await rpc('audit.list', { account: first.id, operation: 'sign_in' });
  assert.deepEqual(
    items.map(({ via, details, address }: AuditEntry) => [via, details.by, address]),
    Array.from({ length: 4 }, () => ['ui', 'provider', '127.0.0.1']),
  );
});

test('an account is linked by its address only when the provider has verified it', async () => {
  const { id } = await rpc('accounts.create', { name: 'Mallory?', email: 'mallory@example.com' });
  const visitor = new Visitor(cellar);
  assert.match(await signInBy(provider, 'mallory', visitor), /^\/sign-in\?error=email_not_verified$/);
  assert.equal(await accountOf(visitor), null);
  provider.people.get('mallory')!.email_verified = true;
  assert.equal(await signInBy(provider, 'mallory', visitor), '/');
  assert.equal((await accountOf(visitor)).id, id);
});

test('without a group that has a role nobody gets in, and no account is made', async () => {
  const visitor = new Visitor(cellar);
  assert.equal(await signInBy(provider, 'nobody', visitor), '/sign-in?error=no_role');
  assert.equal(await accountOf(visitor), null);
  const { items } = await rpc('accounts.list', { limit: 200 });
  assert.ok(items.every(({ email }: { email: string | null }) => email !== 'nobody@example.com'));
  const { items: refused } = await rpc('audit.list', { operation: 'sign_in', outcome: 'refused' });
  assert.deepEqual(
    refused.map(({ account, details, address, outcome }: AuditEntry) => [
      account === null,
      details.by,
      address,
      outcome,
    ]),
    [
      [true, 'provider', '127.0.0.1', 'no_role'],
      [false, 'provider', '127.0.0.1', 'email_not_verified'],
    ],
  );
});

test('an account that was deleted is not back: the person gets a new one', async () => {
  const visitor = new Visitor(cellar);
  await signInBy(provider, 'linus', visitor);
  const { id } = await accountOf(visitor);
  assert.equal(await rpc('accounts.delete', { id }), null);
  assert.equal(await accountOf(visitor), null);
  await signInBy(provider, 'linus', visitor);
  assert.notEqual((await accountOf(visitor)).id, id);
});

test('an answer of the provider works once, in the browser that asked for it', async () => {
  const visitor = new Visitor(cellar);
  const other = new Visitor(cellar);
  const { body } = await visitor.ask('POST', '/oidc', {});
  const back = await provider.signIn('linus', body.url);
  for (const forged of [back, back.replace(/state=[^&]+/, 'state=forged')]) {
    const to = await comeBack(other, forged);
    assert.match(new URL(to, other.origin).pathname, /^\/sign-in$/);
    assert.match(to, /error=/);
    assert.equal(await accountOf(other), null);
  }
  const fresh = await visitor.ask('POST', '/oidc', {});
  const good = await provider.signIn('linus', fresh.body.url);
  assert.equal(await comeBack(visitor, good), '/');
  assert.match(await comeBack(visitor, good), /\/sign-in\?error=/);
});

test('nobody has people sent elsewhere, and other sites begin nothing', async () => {
  const visitor = new Visitor(cellar);
  const evil = {
    callbackURL: 'https://evil.example',
    errorCallbackURL: 'https://evil.example',
    provider: 'x',
  };
  const { body } = await visitor.ask('POST', '/oidc', evil);
  assert.equal(await comeBack(visitor, await provider.signIn('linus', body.url)), '/');
  const foreign = { origin: 'http://evil.localhost', 'sec-fetch-site': 'same-site' };
  assert.equal((await visitor.ask('POST', '/oidc', {}, foreign)).status, 403);
  assert.equal((await visitor.ask('POST', '/api/auth/sign-in/social', evil)).status, 404);
  assert.equal((await visitor.ask('POST', '/api/auth/link-social', evil)).status, 404);
  const scripted = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' };
  assert.equal(
    (await visitor.ask('GET', '/api/auth/callback/oidc?state=x', undefined, scripted)).status,
    403,
  );
});

test('where the provider is required, passwords and passkeys are refused', async () => {
  await using strict = new Cellar({ ...settings, RUNNER_OIDC_REQUIRED: 'on' });
  await strict.start();
  provider.serve(new Visitor(strict).origin);
  const visitor = new Visitor(strict);
  const { body } = await visitor.ask('GET', '/session');
  assert.deepEqual(body.provider, { name: 'Example ID', required: true });
  const ways: [string, string, unknown][] = [
    ['POST', '/api/auth/sign-in/email', { email: 'a@example.com', password: 'a long enough password' }],
    ['GET', '/api/auth/passkey/generate-authenticate-options', undefined],
    ['POST', '/api/auth/passkey/verify-authentication', {}],
  ];
  for (const [method, path, sent] of ways) {
    const refused = await visitor.ask(method, path, sent);
    assert.equal(refused.status, 403, path);
    assert.match(refused.text, /sign in with Example ID/);
  }
  const token = await welcomeOf(strict);
  const person = { name: 'Ada', email: 'ada@example.com', password: 'a long enough password' };
  assert.equal((await visitor.ask('POST', '/welcome', { ...person, token })).status, 403);
  assert.equal(await signInBy(provider, 'linus', visitor), '/');
  assert.equal((await accountOf(visitor)).role, 'admin');
});
