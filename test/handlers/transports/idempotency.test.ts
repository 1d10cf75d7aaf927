// The request header `Idempotency-Key`: a repeated call gets the first answer again.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Answer, TestControl, TOKEN } from '../../support/handlers/control.ts';
import { eventually } from '../../support/processes.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '100' });
});
after(() => control.stop());

const key = (name: string) => ({ 'idempotency-key': name });

test('the same key and body get the first answer, with its status, and nothing is done twice', async () => {
  const create = () => control.api('POST', '/v1/apps', { slug: 'once' }, key('create-1'));
  const first = await create();
  const second = await create();
  assert.equal(first.status, 201);
  assert.deepEqual([second.status, second.body], [201, first.body]);
  const { id } = first.body;
  const log = () => control.api('POST', `/v1/apps/${id}/events`, { channel: 'c', event: 'e' }, key('log-1'));
  assert.deepEqual((await log()).body, (await log()).body);
  assert.equal((await control.api('GET', `/v1/apps/${id}/events`)).body.items.length, 1);
});

test('over RPC a key belongs to one operation, and each call of a batch counts separately', async () => {
  const { id } = await control.create('mirrored');
  const call = (n: number) => ({
    jsonrpc: '2.0',
    id: n,
    method: 'insights.set',
    params: { id, title: 'n', value: { $inc: 1 } },
  });
  await control.rpc(call(1), key('increment'));
  assert.equal((await control.rpc(call(2), key('increment'))).body.result.value, 1);
  const rest = await control.api(
    'POST',
    `/v1/apps/${id}/insights`,
    { value: { $inc: 1 }, title: 'n' },
    key('increment'),
  );
  assert.deepEqual([rest.status, rest.body.value], [201, 1]);
  for (let n = 0; n < 2; n++) {
    const { body } = await control.rpc([call(1), call(2)], key('batch'));
    assert.deepEqual(body.map((answer: { result: { value: number } }) => answer.result.value).sort(), [2, 3]);
  }
});

test('another body or operation with the same key is refused with 422', async () => {
  await control.api('POST', '/v1/apps', { slug: 'first-body' }, key('mixed'));
  const other = await control.api('POST', '/v1/apps', { slug: 'other-body' }, key('mixed'));
  assert.deepEqual([other.status, other.body.code], [422, 'idempotency_mismatch']);
  const { body } = await control.api('GET', '/v1/apps');
  assert.ok(!body.items.some(({ slug }: { slug: string }) => slug === 'other-body'));
});

test('a refusal is repeated too, an internal error is not', async () => {
  const doomed = () => control.api('POST', '/v1/apps', { slug: 'unlucky' }, key('unlucky'));
  control.host.failing = 500;
  assert.equal((await doomed()).status, 503);
  control.host.failing = null;
  assert.equal((await doomed()).status, 201);
  const taken = () => control.api('POST', '/v1/apps', { slug: 'unlucky' }, key('taken'));
  const first = await taken();
  assert.equal(first.status, 409);
  await control.api('DELETE', `/v1/apps/${(await control.call('apps.get_by_slug', { slug: 'unlucky' })).id}`);
  assert.deepEqual((await taken()).body, first.body);
});

test('a secret is in the first answer only', async () => {
  const { items } = await control.call('accounts.list', {});
  const create = async () =>
    (
      await control.rpc(
        { jsonrpc: '2.0', id: 1, method: 'keys.create', params: { account: items[0].id } },
        key('key-1'),
      )
    ).body.result;
  const { key: shown, ...rest } = await create();
  assert.match(shown, /^cellar_/);
  assert.deepEqual(await create(), rest);
  const { id } = await control.create('secretive');
  const set = () => control.api('POST', `/v1/apps/${id}/env`, { name: 'A', value: 'hush' }, key('env-1'));
  assert.equal((await set()).body.value, 'hush');
  assert.equal((await set()).body.value, undefined);
  const database = await control.database();
  const { results } = await database.prepare('SELECT * FROM kept_answers').all();
  assert.doesNotMatch(JSON.stringify(results), new RegExp(`hush|${shown}`));
});

test('while the first request runs, a second one is refused with 409; an interrupted one may run again', async () => {
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => control.api('POST', '/v1/apps', { slug: 'at-once' }, key('at-once'))),
  );
  const made = answers.filter(({ status }) => status === 201);
  assert.ok(made.length >= 1);
  assert.ok(answers.every(({ status, body }) => status === 201 || body.code === 'idempotency_in_progress'));
  assert.equal(new Set(made.map(({ body }) => body.id)).size, 1);
  const database = await control.database();
  const cut = (expiry: number) =>
    database
      .prepare("UPDATE kept_answers SET answer = NULL, expires_at = ? WHERE key = 'at-once'")
      .bind(new Date(expiry).toISOString())
      .run();
  const again = () => control.api('POST', '/v1/apps', { slug: 'at-once' }, key('at-once'));
  await cut(Date.now() + 10_000);
  assert.equal((await again()).body.code, 'idempotency_in_progress');
  await cut(Date.now() - 1);
  assert.equal((await again()).body.code, 'slug_taken');
});

test('an invalid key is refused, and reads ignore keys', async () => {
  for (const name of ['', 'two words', 'x'.repeat(201)]) {
    const { status } = await control.api('POST', '/v1/apps', { slug: 'keyless' }, key(name));
    assert.equal(status, 400, name);
  }
  for (const name of ['read', 'read', 'two words'])
    assert.equal((await control.api('GET', '/v1/apps', undefined, key(name))).status, 200, name);
});

test('a change that was made keeps its key even when the host is unreachable, and its answer is repeated', async () => {
  const { id } = await control.create('made');
  const set = () => control.api('POST', `/v1/apps/${id}/env`, { name: 'A', value: '1' }, key('made'));
  control.host.failing = 500;
  const first = await set();
  control.host.failing = null;
  assert.equal(first.status, 503);
  const sent = control.host.sent.length;
  const second = await set();
  assert.deepEqual([second.status, second.body.detail], [503, first.body.detail]);
  assert.equal(control.host.sent.length, sent, 'nothing is done again');
  const { items } = (await control.api('GET', `/v1/apps/${id}/env`)).body;
  assert.equal(items.length, 1);
});

test('a repeated answer names the same fields', async () => {
  const { id } = await control.create('fields');
  const add = () => control.api('POST', `/v1/apps/${id}/domains`, { hostname: 'a.localhost' }, key('fields'));
  const first = await add();
  assert.equal(first.body.errors[0].path, 'hostname');
  assert.deepEqual((await add()).body, first.body);
});

test('a request continues after its client has left, and a retry meanwhile does not run beside it', async () => {
  const { id } = await control.create('gone');
  const held = Promise.withResolvers<void>();
  control.host.held = held.promise;
  const sent = () => control.host.calls('PUT', `/apps/${id}`).length;
  const before = sent();
  const leaving = new AbortController();
  const set = (signal: AbortSignal) =>
    fetch(`${control.url}/v1/apps/${id}/env`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', ...key('gone') },
      body: '{"name":"A","value":"1"}',
      signal,
    });
  const first = set(leaving.signal).catch(() => null);
  await eventually(() => sent() === before + 1, 'the host is asked');
  leaving.abort();
  await first;
  const meanwhile = await set(AbortSignal.timeout(60_000));
  assert.equal(((await meanwhile.json()) as { code: string }).code, 'idempotency_in_progress');
  held.resolve();
  control.host.held = Promise.resolve();
  let again = await set(AbortSignal.timeout(60_000));
  await eventually(async () => {
    again = await set(AbortSignal.timeout(60_000));
    return again.status !== 409;
  }, 'the first request has its answer');
  assert.equal(again.status, 201);
  assert.equal(sent(), before + 1);
});

test('keys belong to the caller: the same key of another account is another key', async () => {
  const { items } = await control.call('accounts.list', {});
  const create = (slug: string, token: string) =>
    control.api('POST', '/v1/apps', { slug }, { ...key('shared'), authorization: `Bearer ${token}` });
  const { key: other } = await control.call('keys.create', { account: items[0].id });
  const runners = await create('runners-own', TOKEN);
  const accounts = await create('accounts-own', other);
  assert.deepEqual([runners.status, accounts.status], [201, 201], accounts.text);
  assert.deepEqual((await create('accounts-own', other)).body, accounts.body);
  assert.deepEqual((await create('runners-own', TOKEN)).body, runners.body);
});

test('an internal error that changed nothing may be retried; one that may have changed something is repeated', async () => {
  const database = await control.database();
  /** Calls once while inserts into a table fail, which is an internal error, and once when they succeed again. */
  const twice = async (table: string, ask: () => Promise<Answer>) => {
    const broken = `CREATE TRIGGER broken BEFORE INSERT ON ${table} BEGIN SELECT raise(ABORT, 'broken'); END`;
    await database.prepare(broken).run();
    const first = await ask();
    await database.prepare('DROP TRIGGER broken').run();
    return [first, await ask()] as const;
  };
  const call = {
    ...{ jsonrpc: '2.0', id: 1, method: 'accounts.create' },
    params: { name: 'Faulty', email: 'faulty@example.com' },
  };
  const [refused, created] = await twice('accounts', () => control.rpc(call, key('refused')));
  assert.equal(refused.body.error.data.code, 'internal_error');
  assert.equal(created.body.result?.email, 'faulty@example.com', created.text);

  const { id } = await control.create('faulty');
  const log = () => control.api('POST', `/v1/apps/${id}/events`, { channel: 'c', event: 'e' }, key('faulty'));
  // `events.log` runs in the app's Durable Object, which does not report how far it got.
  const answers = await twice('events', log);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [500, 500],
  );
});

test('a repeated deletion or rename gets the first answer, by id and by slug, also with an API key', async () => {
  const { items } = await control.call('accounts.list', {});
  const { key: owner } = await control.call('keys.create', { account: items[0].id });
  const asOwner = { authorization: `Bearer ${owner}` };
  const { body } = await control.api('POST', '/v1/apps', { slug: 'by-id' }, asOwner);
  const twice = async (method: string, path: string, given?: object, headers = {}) => {
    const send = () => control.api(method, path, given, { ...headers, ...key(`again-${path}`) });
    return [(await send()).status, (await send()).status];
  };
  assert.deepEqual(await twice('DELETE', `/v1/apps/${body.id}`, undefined, asOwner), [204, 204]);
  await control.create('by-slug');
  assert.deepEqual(await twice('POST', '/v1/apps/by-slug/rename', { slug: 'renamed' }), [200, 200]);
  assert.deepEqual(await twice('DELETE', '/v1/apps/renamed'), [204, 204]);
  assert.equal((await control.api('DELETE', '/v1/apps/renamed', undefined, key('unused'))).status, 404);
});

test('a request that came too early may be retried with its key', async () => {
  const { id } = await control.create('eager');
  const call = { jsonrpc: '2.0', id: 1, method: 'alerts.test', params: { id, alert_id: 'a'.repeat(16) } };
  const early = async () => (await control.rpc(call, key('early'))).body.error.data.code;
  control.host.failing = 429;
  assert.equal(await early(), 'rate_limited');
  control.host.failing = null;
  assert.notEqual(await early(), 'rate_limited');
});
