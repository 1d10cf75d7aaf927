// Access control: every operation, as every kind of caller.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { operations } from '../../../handlers/contract/index.ts';
import type { Operation } from '../../../handlers/contract/operation.ts';
import { fittingInput, VALID_FIELDS } from '../../support/handlers/arbitraries.ts';
import { TestControl } from '../../support/handlers/control.ts';

const declared: readonly Operation[] = operations;
const ROLES = ['none', 'view', 'push', 'admin'] as const;
type Role = (typeof ROLES)[number];
interface Person {
  account: string;
  key: string;
}

let control: TestControl;
let people: Record<Role | 'owner', Person>;

before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '1000' });
  const person = async (name: string): Promise<[string, Person]> => {
    const { id } = await control.call('accounts.create', { name, email: `${name}@example.com` });
    const { key } = await control.call('keys.create', { account: id });
    return [name, { account: id, key }];
  };
  people = Object.fromEntries(await Promise.all([...ROLES, 'owner'].map(person))) as typeof people;
});
after(() => control.stop());

/** Returns the error code of a call; null when it succeeded. */
async function refusal({ key }: { key: string }, method: string, params: object): Promise<string | null> {
  const response = await fetch(`${control.url}/rpc`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    signal: AbortSignal.timeout(60_000),
  });
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
    await response.body?.cancel();
    return null;
  }
  const { error } = (await response.json()) as { error?: { data: { code: string } } };
  return error?.data.code ?? null;
}

let made = 0;
/** Makes an app of the owner. Each other caller gets the role that it is named after. */
async function sharedApp(): Promise<{ id: string; slug: string }> {
  const slug = `shared-${made++}`;
  const { body } = await control.api('POST', '/v1/apps', { slug, owner: people.owner.account });
  for (const role of ['view', 'push', 'admin'] as const)
    await control.call('collaborators.set', { id: body.id, account: people[role].account, role });
  return { id: body.id, slug };
}

const ofApps = declared.filter(({ needs }) => needs === 'view' || needs === 'push' || needs === 'admin');

test('an operation on an app names the app', () => {
  for (const { name, input } of ofApps) assert.ok('id' in input.shape || 'slug' in input.shape, name);
});

for (const operation of ofApps) {
  const { name, needs, input } = operation;
  test(`${name} needs the role ${needs}`, async () => {
    const { id, slug } = await sharedApp();
    const [sample] = fc.sample(fittingInput(operation, VALID_FIELDS), { numRuns: 1, seed: 1 });
    const params = { ...(sample as object), ...('id' in input.shape ? { id } : { slug }) };
    for (const role of ROLES) {
      const code = await refusal(people[role], name, params);
      const may = ROLES.indexOf(role) >= ROLES.indexOf(needs as Role);
      if (may) assert.notEqual(code, 'forbidden', role);
      else assert.equal(code, 'forbidden', role);
    }
    const unknown = 'id' in input.shape ? { id: '0000000000000000' } : { slug: 'nobody-has-this' };
    assert.equal(await refusal(people.admin, name, { ...params, ...unknown }), 'app_not_found');
  });
}

for (const operation of declared.filter(({ needs }) => needs === 'runner')) {
  const { name } = operation;
  test(`${name} needs the runner token`, async () => {
    const [sample] = fc.sample(fittingInput(operation, VALID_FIELDS), { numRuns: 1, seed: 1 });
    for (const role of [...ROLES, 'owner'] as const)
      assert.equal(await refusal(people[role], name, sample as object), 'forbidden');
  });
}

test('an account makes apps for itself, and lists those that it may see', async () => {
  const { none, owner, view } = people;
  const create = (body: object) =>
    control.fetch('POST', '/v1/apps', {
      headers: { authorization: `Bearer ${none.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  assert.equal((await create({ slug: 'of-another', owner: owner.account })).body.code, 'forbidden');
  const { status, body } = await create({ slug: 'of-my-own' });
  assert.deepEqual([status, body.owner], [201, none.account]);

  const seen = async ({ key }: Person) =>
    (await control.fetch('GET', '/v1/apps?limit=100', { headers: { authorization: `Bearer ${key}` } })).body
      .items as { owner: string; slug: string }[];
  assert.deepEqual(
    (await seen(none)).map(({ slug }) => slug),
    ['of-my-own'],
  );
  const { slug } = await sharedApp();
  const ofView = await seen(view);
  assert.ok(ofView.some((app) => app.slug === slug));
  assert.ok(ofView.every((app) => app.owner === owner.account));
});

test('an overview has the apps that the caller may see, and no figures while the host does not answer', async () => {
  const { id } = await sharedApp();
  const overviewOf = async ({ key }: Person) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'apps.overview' });
    return (await control.fetch('POST', '/rpc', { headers, body })).body.result;
  };
  const { items, more, memory } = await overviewOf(people.view);
  const { figures, last_deploy, ...app } = items.find((item: { id: string }) => item.id === id);
  assert.deepEqual([figures, last_deploy, more, memory], [null, null, false, null]);
  assert.deepEqual(app, (await control.api('GET', `/v1/apps/${id}`)).body);
  const ofNone = await overviewOf(people.none);
  assert.ok(ofNone.items.every((item: { owner: string }) => item.owner === people.none.account));
});

test('an account sees its own keys, and no other account’s', async () => {
  const { none, owner } = people;
  assert.equal(await refusal(none, 'keys.create', { account: owner.account }), 'forbidden');
  assert.equal(await refusal(none, 'accounts.rename', { account: owner.account, name: 'X' }), 'forbidden');
  assert.equal(await refusal(none, 'accounts.rename', { account: none.account, name: 'Renamed' }), null);
  assert.equal(await refusal(none, 'keys.list', { account: owner.account }), 'forbidden');
  const { items } = await control.call('keys.list', { account: owner.account });
  assert.equal(await refusal(none, 'keys.revoke', { id: items[0].id }), 'key_not_found');
  assert.equal(await refusal(owner, 'keys.list', { account: owner.account }), null);
  const extra = await control.call('keys.create', { account: none.account });
  assert.equal(await refusal({ key: extra.key }, 'apps.list', {}), null);
  assert.equal(await refusal(none, 'keys.revoke', { id: extra.id }), null);
  const headers = { authorization: `Bearer ${none.key}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'accounts.me', params: {} });
  assert.equal((await control.fetch('POST', '/rpc', { headers, body })).body.result.id, none.account);
  const gone = await control.fetch('GET', '/v1/apps', { headers: { authorization: `Bearer ${extra.key}` } });
  assert.equal(gone.status, 401);
});

test('an API key does not open the internal routes', async () => {
  const { status } = await control.fetch('POST', '/internal/git-auth', {
    headers: { authorization: `Bearer ${people.owner.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ slug: 'x', key: 'y', need: 'view' }),
  });
  assert.equal(status, 401);
});
