// API keys with fewer rights than their account: every operation, with every scope and role.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { operations } from '../../../handlers/contract/index.ts';
import { type KeyScope, type Operation, scopeOf } from '../../../handlers/contract/operation.ts';
import { fittingInput, VALID_FIELDS } from '../../support/handlers/arbitraries.ts';
import { TestControl, TOKEN } from '../../support/handlers/control.ts';

// Imported by its path: it is written for workerd, whose types are missing here.
const { calls } = (await import(new URL('../../../handlers/cloudflare/index.ts', import.meta.url).href)) as {
  calls: { method: string; path: string; as: Operation | null }[];
};

const SCOPES = ['read', 'deploy', 'admin'] as const;
const ROLES = ['view', 'push', 'admin'] as const;
const declared: readonly Operation[] = operations;

let control: TestControl;
let owner: string;
let account: string;
let shop: { id: string; slug: string };
let other: { id: string; slug: string };
/** A key for each scope. `keys.shop` is a key for the app `shop` only, and may not reach `other`. */
const keys = {} as Record<KeyScope | 'shop', string>;

before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '100000' });
  owner = (await control.call('accounts.create', { name: 'Owner', email: 'owner@example.com' })).id;
  account = (await control.call('accounts.create', { name: 'Person', email: 'person@example.com' })).id;
  shop = await appWith('admin');
  other = await appWith('admin');
  for (const scope of SCOPES) keys[scope] = await keyWith({ scope });
  keys.shop = await keyWith({ scope: 'admin', app: shop.slug });
  // Scripts of a dispatch namespace, named like the two apps.
  const namespaces = `/client/v4/accounts/${account}/workers/dispatch/namespaces`;
  await ask(keys.admin, namespaces, 'POST', { name: 'some' });
  for (const { slug } of [shop, other])
    await ask(keys.admin, `${namespaces}/some/scripts/${slug}`, 'PUT', {});
  assert.equal((await control.call('apps.list', { dispatch_namespace: 'some' })).items.length, 2);
});
after(() => control.stop());

let made = 0;
/** Makes an app on which the account has a role. */
async function appWith(role: (typeof ROLES)[number]): Promise<{ id: string; slug: string }> {
  const slug = `scoped-${made++}`;
  const { body } = await control.api('POST', '/v1/apps', { slug, owner });
  await control.call('collaborators.set', { id: body.id, account, role });
  return { id: body.id, slug };
}

async function keyWith(rights: object): Promise<string> {
  return (await control.call('keys.create', { account, ...rights })).key;
}

interface Refusal {
  code: string;
  detail: string;
}

function ask(key: string, path: string, method: string, body?: unknown): Promise<Response> {
  return fetch(control.url + path, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  });
}

/** Returns why a call was refused; null when it was not. */
async function refusal(key: string, method: string, params: object): Promise<Refusal | null> {
  const response = await ask(key, '/rpc', 'POST', { jsonrpc: '2.0', id: 1, method, params });
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
    await response.body?.cancel();
    return null;
  }
  const { error } = (await response.json()) as { error?: { data: Refusal } };
  return error?.data ?? null;
}

const isOfScope = (found: Refusal | null) => found?.code === 'forbidden' && /API key/.test(found.detail);

function inputOf(operation: Operation, app: { id: string; slug: string }): object {
  const [sample] = fc.sample(fittingInput(operation, VALID_FIELDS), { numRuns: 1, seed: 1 });
  if (operation.needs === 'account') return { ...(sample as object), ...accountIn(operation) };
  return { ...(sample as object), ...('id' in operation.input.shape ? { id: app.id } : { slug: app.slug }) };
}

const accountIn = ({ input }: Operation) => ('account' in input.shape ? { account } : {});
const atLeast = (scope: KeyScope, needed: KeyScope) => SCOPES.indexOf(scope) >= SCOPES.indexOf(needed);

for (const operation of declared.filter(({ needs }) => needs !== 'runner')) {
  const { name, needs, input } = operation;
  const needed = scopeOf(operation);
  test(`${name} needs the scope ${needed}`, async () => {
    for (const scope of SCOPES) {
      const app = await appWith('admin');
      const found = await refusal(keys[scope], name, inputOf(operation, app));
      assert.equal(isOfScope(found), !atLeast(scope, needed), `${scope}: ${JSON.stringify(found)}`);
      if (!atLeast(scope, needed))
        assert.match(found!.detail, new RegExp(`scope ${needed}; this API key has the scope ${scope}`));
    }
    if (needs === 'account') {
      const found = await refusal(keys.shop, name, inputOf(operation, shop));
      assert.equal(isOfScope(found), operation.oneApp !== true, JSON.stringify(found));
      return;
    }
    assert.ok('id' in input.shape || 'slug' in input.shape, name);
    const elsewhere = await refusal(keys.shop, name, inputOf(operation, other));
    assert.equal(elsewhere?.detail, 'This API key is for another app.');
    // A key never has more rights than its account: the role is checked, whatever the scope.
    for (const role of ROLES) {
      if (ROLES.indexOf(role) >= ROLES.indexOf(needs as (typeof ROLES)[number])) continue;
      const found = await refusal(keys.admin, name, inputOf(operation, await appWith(role)));
      assert.match(found?.detail ?? '', /needs the role/, role);
    }
  });
}

test('the same over REST and for agents', async () => {
  const path = `/v1/apps/${shop.id}`;
  assert.equal((await ask(keys.read, path, 'GET')).status, 200);
  const patched = await ask(keys.read, path, 'PATCH', { desired_state: 'stopped' });
  assert.equal(patched.status, 403);
  assert.match(
    await patched.text(),
    /needs an API key with the scope (deploy|admin); this API key has the scope read/,
  );
  const tool = {
    name: 'api_change',
    arguments: { name: 'env.set', params: { id: shop.id, name: 'A', value: '1' } },
  };
  const agent = await ask(keys.read, '/mcp', 'POST', {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: tool,
  });
  assert.match(await agent.text(), /forbidden: This operation needs an API key with the scope admin/);
  const put = await ask(keys.read, `${path}/storage/r2/files/raw?key=a`, 'PUT', 'x');
  assert.equal(put.status, 403);
  assert.equal((await ask(keys.read, `${path}/storage/copy`, 'GET')).status, 403);
});

for (const { method, path, as } of calls) {
  if (as === null) continue;
  const needed = scopeOf(as);
  if (needed === 'read' || !path.includes(':script')) continue;
  test(`Wrangler's ${method} ${path} needs the scope ${needed}`, async () => {
    const address = path
      .replace(':account', account)
      .replace(':script', shop.slug)
      .replace(/:(\w+)\+?/g, 'some');
    const body = method === 'GET' ? undefined : { name: 'x' };
    const { status } = await ask(keys.read, `/client/v4${address}`, method, body);
    assert.equal(status, 403);
    const elsewhere = address.replace(shop.slug, other.slug);
    assert.equal((await ask(keys.shop, `/client/v4${elsewhere}`, method, body)).status, 403);
  });
}

test('a key for one app makes no other app, and sees only its own', async () => {
  const { items } = (await (await ask(keys.shop, '/v1/apps', 'GET')).json()) as { items: { id: string }[] };
  assert.deepEqual(
    items.map(({ id }) => id),
    [shop.id],
  );
  assert.equal((await ask(keys.shop, '/v1/apps', 'POST', { slug: 'escaped' })).status, 403);
  const put = `/client/v4/accounts/${account}/workers/scripts/escaped`;
  assert.equal((await ask(keys.shop, put, 'PUT', {})).status, 403);
});

test('git takes the scope for a role', async () => {
  const status = async (key: string, slug: string, service: string) => {
    const headers = { authorization: `Basic ${btoa(`git:${key}`)}`, 'user-agent': 'git/2.47' };
    const url = `${control.url}/v1/git/${slug}/info/refs?service=${service}`;
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(60_000) });
    return { status: response.status, text: await response.text() };
  };
  assert.notEqual((await status(keys.read, shop.slug, 'git-upload-pack')).status, 403);
  const push = await status(keys.read, shop.slug, 'git-receive-pack');
  assert.equal(push.status, 403);
  assert.match(push.text, /scope deploy/);
  assert.notEqual((await status(keys.deploy, shop.slug, 'git-receive-pack')).status, 403);
  await fetch(`${control.url}/v1/git/${shop.slug}/git-receive-pack`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${btoa(`git:${keys.deploy}`)}`,
      'content-type': 'application/x-git-receive-pack-request',
    },
    body: '0000',
    signal: AbortSignal.timeout(60_000),
  });
  // The account is an admin of the app; the key makes it a pusher, who may not delete.
  const [sent] = control.host.calls('POST', `/git/${shop.id}/git-receive-pack`);
  assert.equal(sent!.headers['x-cellar-role'], 'push');
  assert.equal((await status(keys.shop, other.slug, 'git-upload-pack')).status, 403);
});

test('a key expires, and says when it was last used', async () => {
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const made = await control.call('keys.create', { account, name: 'short', expires_at });
  assert.deepEqual(
    [made.expires_at, made.last_used_at, made.scope, made.app],
    [expires_at, null, 'admin', null],
  );
  assert.equal((await ask(made.key, '/v1/apps', 'GET')).status, 200);
  const listed = async () =>
    (await control.call('keys.list', { account, limit: 200 })).items.find(
      ({ id }: { id: string }) => id === made.id,
    );
  const used = (await listed()).last_used_at;
  assert.ok(Date.now() - Date.parse(used) < 60_000);
  await ask(made.key, '/v1/apps', 'GET');
  assert.equal((await listed()).last_used_at, used);
  assert.equal((await refusal(made.key, 'keys.create', { account }))?.code, 'forbidden');
  assert.equal(await refusal(made.key, 'keys.create', { account, expires_at }), null);
  const db = await control.database();
  await db
    .prepare("UPDATE keys SET expires_at = '2020-01-01T00:00:00.000Z' WHERE id = ?")
    .bind(made.id)
    .run();
  const gone = await ask(made.key, '/v1/apps', 'GET');
  assert.equal(gone.status, 401);
  assert.match(await gone.text(), /expired at 2020/);
  const past = await control.refusal('keys.create', { account, expires_at: '2020-01-01T00:00:00Z' });
  assert.deepEqual([past.code, past.errors[0].path], ['invalid_input', 'expires_at']);
});

test('what Wrangler follows of a log ends with the key that opened it', async () => {
  const expires_at = new Date(Date.now() + 60_000).toISOString();
  const { id, key } = await control.call('keys.create', { account: owner, scope: 'read', expires_at });
  const path = `/client/v4/accounts/${owner}/workers/scripts/${shop.slug}/tails`;
  const { result } = (await (await ask(key, path, 'POST', {})).json()) as {
    result: { url: string; expires_at: string };
  };
  assert.equal(result.expires_at, expires_at);
  const open = async () => (await ask('', new URL(result.url).pathname, 'GET')).status;
  assert.equal(await open(), 426, 'only the upgrade to a WebSocket is missing');
  await control.call('keys.revoke', { id });
  assert.equal(await open(), 401);
});

test('an account has at most a thousand keys', async () => {
  const { id } = await control.call('accounts.create', { name: 'Many', email: 'many@example.com' });
  const db = await control.database();
  const fill = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
    INSERT INTO keys (id, account_id, name, hash, created_at) SELECT 'many-' || i, ?, 'many', 'many-' || i, '' FROM n`;
  await db.prepare(fill).bind(id).run();
  await control.call('keys.create', { account: id });
  assert.equal((await control.refusal('keys.create', { account: id })).code, 'quota_exceeded');
  await control.call('keys.revoke', { id: 'many-1' });
  await control.call('keys.create', { account: id });
});

test('a key for an app needs a role on it', async () => {
  const { body } = await control.api('POST', '/v1/apps', { slug: 'not-mine', owner });
  assert.equal((await control.refusal('keys.create', { account, app: body.id })).code, 'app_not_found');
  assert.equal(
    (await control.refusal('keys.create', { account: 'nobody', app: body.id })).code,
    'account_not_found',
  );
});

test('the runner token and signed-in people have no scope', async () => {
  assert.equal(await refusal(TOKEN, 'apps.get', { id: shop.id }), null);
});
