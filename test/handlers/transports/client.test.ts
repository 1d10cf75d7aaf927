// The typed client. It validates every answer against the contract, so these calls check the answers too.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { CellarClient, Refused, UnexpectedAnswer } from '../../../client/index.ts';
import { SNAPSHOT_DEADLINE_MS, SOURCE_DEADLINE_MS } from '../../../handlers/contract/host/deadlines.ts';
import { operations } from '../../../handlers/contract/index.ts';
import { TestControl, TOKEN } from '../../support/handlers/control.ts';

let control: TestControl;
let client: CellarClient;
before(async () => {
  control = await TestControl.start();
  client = new CellarClient({ url: control.url, token: TOKEN });
});
after(() => control.stop());

test('every implemented operation answers as the contract says', async () => {
  const called = new Set<string>();
  const call: CellarClient['call'] = (name, ...rest) => {
    called.add(name);
    return client.call(name, ...rest);
  };
  const { id } = await call('apps.create', { slug: 'typed' });
  const account = await call('accounts.create', { name: 'A', email: 'a@example.com' });
  assert.equal((await call('accounts.rename', { account: account.id, name: 'B' })).name, 'B');
  assert.equal((await call('accounts.set_max_apps', { account: account.id, max_apps: 3 })).max_apps, 3);
  const key = await call('keys.create', { account: account.id });
  await call('apps.list', { limit: 1 });
  await call('apps.overview', {});
  await call('apps.get', { id });
  await call('apps.get_by_slug', { slug: 'typed' });
  await call('apps.templates', {});
  assert.deepEqual((await call('dispatch.list', {})).items, []);
  await call('apps.update', { id, desired_state: 'stopped', replicas: 1 });
  await call('apps.rename', { id, slug: 'typed-2' });
  await call('deploys.list', { id, status: 'live' });
  await call('git.remote', { id });
  await call('env.set', { id, name: 'A', value: '1' });
  await call('env.list', { id });
  await call('env.delete', { id, name: 'A' });
  await call('domains.add', { id, hostname: 'a.example' });
  await call('domains.list', { id });
  await call('domains.remove', { id, hostname: 'a.example' });
  await call('domains.add', { id, hostname: 'mail.example' });
  assert.equal((await call('mail.routes.set', { id, address: '*@Mail.example' })).address, '*@mail.example');
  assert.equal((await call('mail.routes.list', { id })).items.length, 1);
  await call('mail.routes.delete', { id, address: '*@mail.example' });
  await call('domains.remove', { id, hostname: 'mail.example' });
  assert.equal((await call('tcp.ports.set', { id, port: 20_000 })).port, 20_000);
  assert.equal((await call('tcp.ports.list', { id })).items.length, 1);
  await call('tcp.ports.delete', { id, port: 20_000 });
  await call('limits.set', { id, appRpm: 5 });
  await call('limits.get', { id });
  await call('maintenance.set', { id, enabled: true });
  assert.deepEqual(await call('maintenance.get', { id }), { enabled: true, html: null });
  await call('builds.set', { id, root_directory: 'apps/web' });
  assert.equal((await call('builds.get', { id })).root_directory, 'apps/web');
  assert.deepEqual(await call('previews.get', { id }), { branches: false, storage: 'empty', vars: {} });
  assert.equal((await call('previews.set', { id, branches: true })).branches, true);
  await call('events.log', { id, channel: 'a/b', event: 'e', tags: { a: 1 } });
  assert.equal((await call('events.list', { id, channel: 'a/b' })).items.length, 1);
  await call('events.channels', { id });
  await call('users.identify', { id, user_id: 'u/ü?', properties: { a: true } });
  assert.equal((await call('users.list', { id })).items[0]!.user_id, 'u/ü?');
  assert.equal((await call('users.props', { id, user_id: 'u/ü?' })).user_id, 'u/ü?');
  await call('insights.set', { id, title: 't', value: { $inc: 1 } });
  await call('insights.list', { id });
  await call('admin.stats', {});
  assert.deepEqual((await call('hosts.list', {})).items, []);
  await call('accounts.list', {});
  assert.equal((await call('accounts.me', {})).role, 'owner');
  await call('keys.list', { account: account.id });
  assert.equal((await call('audit.list', { app: 'typed-2', limit: 1 })).items[0]!.app?.slug, 'typed-2');
  await call('collaborators.set', { id, account: account.id, role: 'view' });
  await call('collaborators.list', { id });
  await call('collaborators.remove', { id, account: account.id });
  const invite = await call('invites.create', { email: 'b@example.com', app: { id, role: 'push' } });
  assert.deepEqual((await call('invites.list', {})).items[0]!.app, { id, slug: 'typed-2', role: 'push' });
  await call('invites.revoke', { id: invite.id });
  const guest = await call('collaborators.invite', { id, email: 'c@example.com', role: 'view' });
  assert.equal((await call('collaborators.invites', { id })).items[0]!.id, guest.id);
  await call('collaborators.revoke_invite', { id, invite: guest.id });
  await call('keys.revoke', { id: key.id });
  await call('accounts.delete', { id: account.id });
  assert.equal(await call('apps.delete', { id }), null);
  assert.equal((await call('apps.list_deleted', {})).items[0]!.slug, 'typed-2');
  assert.equal((await call('apps.undelete', { app: 'typed-2', slug: 'typed-3' })).slug, 'typed-3');
  // The next tests follow streams. End-to-end tests cover operations that need a real host, a repository or a release.
  const elsewhere =
    /^((alerts|bindings|secrets|vars|storage|snapshots|source|metrics|split|devices|paths|refs|countries|requests|traces|spans|datapoints|logs|errors|crons|workflows)\..*|dispatch\.delete|admin\.(settings|snapshot|restore)|domains\.check|previews\.(list|log|promote|delete)|apps\.(figures|move|sleep)|hosts\.(drain|remove)|deploys\.(get|log|rollback|create|cancel|begin_upload|upload_files|finish_upload)|.*\.stream)$/;
  const left = operations
    .map(({ name }) => name as string)
    .filter((name) => !called.has(name) && !elsewhere.test(name));
  assert.deepEqual(left, []);
});

test('a refusal is thrown with its problem, over REST and RPC', async () => {
  for (const name of ['apps.get', 'limits.get'] as const) {
    await assert.rejects(
      client.call(name, { id: 'no' }),
      (error: Refused) => error.problem.code === 'app_not_found',
    );
  }
});

test('a parameter that a path cannot carry reaches its own operation, and no other one', async () => {
  const { id } = await client.call('apps.create', { slug: 'victim' });
  for (const word of ['', '.', '..']) {
    const refusedAs = (code: string) => (error: Refused) =>
      error.problem.code === (word === '' ? 'invalid_input' : code);
    await assert.rejects(
      client.call('domains.remove', { id, hostname: word }),
      refusedAs('domain_not_found'),
    );
    await assert.rejects(client.call('env.delete', { id, name: word }), refusedAs('env_not_found'));
    await assert.rejects(client.call('apps.get', { id: word }), refusedAs('app_not_found'));
    await assert.rejects(client.stream('logs.stream', { id: word }).next(), refusedAs('app_not_found'));
  }
  await assert.rejects(client.call('env.delete', { id, name: '\ud800' }), Refused);
  await client.call('users.identify', { id, user_id: '..', properties: { a: true } });
  assert.equal((await client.call('users.props', { id, user_id: '..' })).user_id, '..');
  assert.equal((await client.call('apps.get', { id })).slug, 'victim');
});

test('an idempotency key is sent, and a stream is followed and resumed', async () => {
  const { id } = await client.call('apps.create', { slug: 'followed' });
  const event = { id, channel: 'c', event: 'one' };
  await client.call('events.log', event, { idempotencyKey: 'k' });
  await client.call('events.log', event, { idempotencyKey: 'k' });
  await client.call('events.log', { ...event, event: 'two' });
  const abort = new AbortController();
  const seen: unknown[] = [];
  for await (const event of client.stream(
    'events.stream',
    { id, last_event_id: '0' },
    { signal: abort.signal },
  )) {
    assert.ok(!event.reset);
    seen.push([event.id, event.data.event]);
    if (seen.length === 2) break;
  }
  abort.abort();
  assert.deepEqual(seen, [
    ['1', 'one'],
    ['2', 'two'],
  ]);
});

test('a stream that cannot be resumed says so, and goes on', async () => {
  const { id } = await client.call('apps.create', { slug: 'resumed' });
  await client.call('events.log', { id, channel: 'c', event: 'one' });
  const stream = client.stream('events.stream', { id, last_event_id: '7' });
  const { value } = await stream.next();
  assert.ok(value?.reset && /read the list again/.test(value.reason));
  await stream.return(undefined);
});

test('a stream whose reader is slow reports how many events were left out', async (t) => {
  const server = createServer((_, response) => {
    response
      .writeHead(200, { 'content-type': 'text/event-stream' })
      .end('event: skipped\ndata: {"count":7}\n\n');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { value } = await new CellarClient({ url, token: TOKEN })
    .stream('logs.stream', { id: 'slow' })
    .next();
  assert.ok(value?.reset && /^7 events/.test(value.reason));
});

test('its timeout covers the API’s longest answer, even hours', async (t) => {
  const waits: number[] = [];
  t.mock.method(AbortSignal, 'timeout', (ms: number) => {
    waits.push(ms);
    return AbortSignal.abort();
  });
  for (const name of ['apps.list', 'source.diff', 'deploys.create', 'admin.snapshot'] as const)
    await assert.rejects(client.call(name, { id: 'any' } as never), { name: 'AbortError' });
  const most = [150_000, SOURCE_DEADLINE_MS, SOURCE_DEADLINE_MS + 150_000, SNAPSHOT_DEADLINE_MS];
  assert.ok(
    waits.every((wait, n) => wait > most[n]!),
    `${waits}`,
  );
});

test('an answer from another server is distinguished from a refusal', async (t) => {
  const answers: [number, string][] = [
    [502, '<html>Bad Gateway</html>'],
    [200, '<html>Sign in</html>'],
    [503, '{"message": "no"}'],
    [503, 'null'],
    [200, '{"message": "hello"}'],
    [200, 'null'],
  ];
  const server = createServer((_, response) => {
    const [status, text] = answers[0]!;
    response.writeHead(status).end(text);
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const other = new CellarClient({ url: `http://127.0.0.1:${port}`, token: TOKEN });
  for (const [status, text] of [...answers]) {
    const isUnexpected = (error: unknown) =>
      error instanceof UnexpectedAnswer && error.status === status && error.message.includes(text);
    await assert.rejects(other.call('apps.list', {}), isUnexpected);
    await assert.rejects(other.call('limits.get', { id: 'a' }), isUnexpected);
    await assert.rejects(other.call('admin.snapshot', {}), isUnexpected);
    await assert.rejects(other.stream('events.stream', { id: 'a' }).next(), isUnexpected);
    answers.shift();
  }
});

test('fields that a newer Cellar added are passed on, and other faults of an answer are not', async (t) => {
  let answer: unknown;
  const server = createServer((_, response) => response.end(JSON.stringify(answer))).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const newer = new CellarClient({ url: `http://127.0.0.1:${port}`, token: TOKEN });
  const { id } = await client.call('apps.create', { slug: 'newer' });
  const app = { ...(await client.call('apps.get', { id })), added: { a: 1 } };
  answer = app;
  assert.deepEqual(await newer.call('apps.get', { id }), app);
  answer = { items: [app], next_cursor: null, also_added: true };
  assert.deepEqual(await newer.call('apps.list', {}), answer);
  answer = { items: [{ ...app, slug: 1 }], next_cursor: null };
  await assert.rejects(newer.call('apps.list', {}), UnexpectedAnswer);
  const write = { id, index: 'texts', call: 'upsert' } as const;
  answer = { jsonrpc: '2.0', id: 1, result: { mutationId: 'a', added: true } };
  assert.deepEqual(await newer.call('storage.vectorize.write', write), { mutationId: 'a', added: true });
  answer = { jsonrpc: '2.0', id: 1, result: { mutationId: 1, added: true } };
  await assert.rejects(newer.call('storage.vectorize.write', write), UnexpectedAnswer);
});
