// The audit log: its entries, who may read them, and what they never contain.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { operations } from '../../../handlers/contract/index.ts';
import type { Operation } from '../../../handlers/contract/operation.ts';
import type { AuditEntry } from '../../../handlers/contract/people/audit.ts';
import { TestControl, TOKEN } from '../../support/handlers/control.ts';
import { eventually } from '../../support/processes.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '1000' });
});
after(() => control.stop());

let made = 0;
async function person(): Promise<{ id: string; key: string }> {
  const { id } = await control.call('accounts.create', {
    name: `Person ${made}`,
    email: `p${made++}@example.com`,
  });
  const { key } = await control.call('keys.create', { account: id });
  return { id, key };
}

async function entries(filter: object = {}): Promise<AuditEntry[]> {
  return (await control.call('audit.list', { limit: 200, ...filter })).items;
}

function as(key: string, headers: Record<string, string> = {}): Record<string, string> {
  return { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers };
}

function rpcAs(key: string, method: string, params: object, headers: Record<string, string> = {}) {
  return control.fetch('POST', '/rpc', {
    headers: as(key, headers),
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
}

test('a change says who, what, when, from where and by which interface', async () => {
  const { id, key } = await person();
  const from = Date.now();
  const { body: app } = await control.fetch('POST', '/v1/apps', {
    headers: as(key, { 'x-real-ip': '203.0.113.7' }),
    body: JSON.stringify({ slug: 'audited' }),
  });
  await rpcAs(key, 'env.set', { id: 'audited', name: 'COLOUR', value: 'sentinel-value' });
  await rpcAs(key, 'env.delete', { id: app.id, name: 'COLOUR' }, { 'user-agent': 'cellar-cli' });
  const call = { name: 'env_set', arguments: { id: 'audited', name: 'COLOUR', value: 'sentinel-value' } };
  const tool = { name: 'api_change', arguments: { name: 'env.set', params: call.arguments } };
  await control.fetch('POST', '/mcp', {
    headers: as(key, { accept: 'application/json, text/event-stream' }),
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: tool }),
  });
  await control.fetch('DELETE', `/client/v4/accounts/${id}/workers/services/audited`, { headers: as(key) });
  const seen = await entries({ account: id });
  assert.deepEqual(
    seen.map(({ operation, via, outcome }) => [operation, via, outcome]),
    [
      ['apps.delete', 'wrangler', 'ok'],
      ['env.set', 'mcp', 'ok'],
      ['env.delete', 'cli', 'ok'],
      ['env.set', 'rpc', 'ok'],
      ['apps.create', 'rest', 'ok'],
    ],
  );
  const first = seen.at(-1)!;
  assert.match(first.key ?? '', /^[0-9a-z]{16}$/);
  assert.deepEqual(
    [first.account, first.address, first.app],
    [id, '203.0.113.7', { id: app.id, slug: 'audited' }],
  );
  assert.ok(Date.parse(first.at) >= from && Date.parse(first.at) <= Date.now());
  assert.deepEqual(seen[3]!.details, { name: 'COLOUR' });
  assert.ok(seen.every(({ app: on }) => on?.slug === 'audited'));
  assert.doesNotMatch(JSON.stringify(seen), /sentinel/);
});

test('what was refused is in it too, and reading is not', async () => {
  const owner = await person();
  const other = await person();
  await rpcAs(owner.key, 'apps.create', { slug: 'guarded' });
  await rpcAs(other.key, 'apps.delete', { id: 'guarded' });
  await rpcAs(other.key, 'accounts.delete', { id: owner.id });
  await rpcAs(other.key, 'apps.get', { id: 'guarded' });
  await rpcAs(other.key, 'apps.list', {});
  const seen = await entries({ account: other.id });
  assert.deepEqual(
    seen.map(({ operation, outcome, app, details }) => [operation, outcome, app?.slug, details]),
    [
      ['accounts.delete', 'forbidden', undefined, { id: owner.id }],
      ['apps.delete', 'forbidden', 'guarded', {}],
    ],
  );
});

test('the end of an app and its return are in it with the slug that people know', async () => {
  const { key } = await person();
  const { id } = (await rpcAs(key, 'apps.create', { slug: 'returned' })).body.result;
  for (const app of ['returned', id]) {
    await rpcAs(key, 'apps.delete', { id });
    await rpcAs(key, 'apps.undelete', { app });
  }
  const seen = await entries({ app: id });
  assert.deepEqual(
    seen.map(({ operation, app }) => [operation, app]),
    ['undelete', 'delete', 'undelete', 'delete', 'create'].map((word) => [
      `apps.${word}`,
      { id, slug: 'returned' },
    ]),
  );
});

test('a push is in it, with its refs, and so is one that the role does not allow', async () => {
  const owner = await person();
  const pusher = await person();
  const { body } = await control.fetch('POST', '/v1/apps', {
    headers: as(owner.key),
    body: JSON.stringify({ slug: 'pushed' }),
  });
  await control.call('collaborators.set', { id: body.id, account: pusher.id, role: 'push' });
  const [none, sha] = ['0'.repeat(40), 'a'.repeat(40)];
  const send = (body: string) =>
    control.fetch('POST', '/v1/git/pushed/git-receive-pack', {
      headers: {
        authorization: `Basic ${btoa(`git:${pusher.key}`)}`,
        'content-type': 'application/x-git-receive-pack-request',
        'x-real-ip': '203.0.113.9',
      },
      body,
    });
  const push = (before: string, after: string) => {
    const command = `${before} ${after} refs/heads/main\0 report-status`;
    const line = (command.length + 4).toString(16).padStart(4, '0') + command;
    return send(`${line}0000`);
  };
  // Before a large pack, git asks with an empty list of commands whether it may push.
  await send('0000');
  await push(none, sha);
  await push(sha, none);
  const headers = { authorization: `Basic ${btoa(`git:${(await person()).key}`)}` };
  await control.fetch('GET', '/v1/git/pushed/info/refs?service=git-receive-pack', { headers });
  const seen = await entries({ app: 'pushed', operation: 'git.push' });
  assert.deepEqual(
    seen.map(({ via, outcome, details }) => [via, outcome, details]),
    [
      ['git', 'forbidden', {}],
      ['git', 'forbidden', { 'refs/heads/main': none }],
      ['git', 'ok', { 'refs/heads/main': sha }],
    ],
  );
  assert.deepEqual(
    [seen[2]!.account, seen[2]!.address, seen[2]!.app?.id],
    [pusher.id, '203.0.113.9', body.id],
  );
});

test('an account reads its own entries, and only admins those of others', async () => {
  const one = await person();
  const other = await person();
  await rpcAs(one.key, 'apps.create', { slug: 'of-one' });
  await rpcAs(other.key, 'apps.create', { slug: 'of-other' });
  const own = (await rpcAs(one.key, 'audit.list', {})).body.result.items as AuditEntry[];
  assert.deepEqual([...new Set(own.map(({ account }) => account))], [one.id]);
  const asked = await rpcAs(one.key, 'audit.list', { account: other.id });
  assert.equal(asked.body.error.data.code, 'forbidden');
  const all = await entries();
  assert.ok(all.some(({ account }) => account === other.id) && all.some(({ account }) => account === null));
  const db = await control.database();
  await db.prepare('UPDATE accounts SET is_admin = 1 WHERE id = ?').bind(one.id).run();
  const signedIn = await rpcAs(TOKEN, 'audit.list', {}, { 'x-cellar-account': one.id });
  assert.ok(signedIn.body.result.items.some(({ account }: AuditEntry) => account === other.id));
  await rpcAs(TOKEN, 'env.set', { id: 'of-one', name: 'A', value: '1' }, { 'x-cellar-account': one.id });
  const [last] = await entries();
  assert.deepEqual([last!.via, last!.account, last!.key], ['ui', one.id, null]);
  await rpcAs(one.key, 'env.set', { id: 'of-one', name: 'B', value: '1' }, { 'x-cellar-account': one.id });
  assert.equal((await entries())[0]!.via, 'rpc', 'a key cannot pass for the browser');
});

test('it has filters and pages, and is exported as lines of JSON', async () => {
  const { id, key } = await person();
  await rpcAs(key, 'apps.create', { slug: 'paged' });
  for (const name of ['A', 'B', 'C', 'D']) await rpcAs(key, 'env.set', { id: 'paged', name, value: '1' });
  await rpcAs(key, 'env.delete', { id: 'paged', name: 'MISSING' });
  const names = (found: AuditEntry[]) => found.map(({ details }) => details.name);
  assert.deepEqual(names(await entries({ app: 'paged', operation: 'env.set' })), ['D', 'C', 'B', 'A']);
  assert.deepEqual(names(await entries({ account: id, outcome: 'refused' })), ['MISSING']);
  assert.deepEqual(await entries({ account: id, via: 'ui' }), []);
  const [last] = await entries({ account: id });
  assert.deepEqual(await entries({ account: id, until: last!.at, operation: 'env.delete' }), []);
  assert.equal((await entries({ account: id, since: last!.at, operation: 'env.delete' })).length, 1);
  const paged: AuditEntry[] = [];
  let cursor: string | undefined;
  do {
    const page = await control.call('audit.list', { account: id, limit: 2, ...(cursor && { cursor }) });
    paged.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  assert.deepEqual(paged, await entries({ account: id }));
  const exported = await fetch(`${control.url}/v1/audit/export?account=${id}`, {
    headers: as(TOKEN),
    signal: AbortSignal.timeout(60_000),
  });
  assert.equal(exported.headers.get('content-type'), 'application/x-ndjson');
  assert.deepEqual(
    (await exported.text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
    paged,
  );
  const own = await control.fetch('GET', '/v1/audit/export?via=ui', { headers: as(key) });
  assert.deepEqual([own.status, own.text], [200, '']);
  assert.equal((await control.api('GET', '/v1/audit/export?via=fax')).body.code, 'invalid_input');
});

test('entries end after 90 days, and an account cannot push out those of others', async () => {
  const db = await control.database();
  const { id, key } = await person();
  await rpcAs(key, 'apps.create', { slug: 'bounded' });
  await db
    .prepare("UPDATE audit SET nth = 30000, at = '2020-01-01T00:00:00.000Z' WHERE actor = ?")
    .bind(id)
    .run();
  const before = (await entries()).length;
  await rpcAs(key, 'env.set', { id: 'bounded', name: 'A', value: '1' });
  await db.prepare('UPDATE audit SET nth = 60000 WHERE actor = ? AND nth = 30001').bind(id).run();
  await rpcAs(key, 'env.set', { id: 'bounded', name: 'B', value: '1' });
  assert.deepEqual(
    (await entries({ account: id })).map(({ details }) => details.name),
    ['B', 'A'],
  );
  assert.equal((await entries()).length, before + 1);
});

test('refused sign-ins are in it, of an account or of nobody, and are limited', async () => {
  const { id } = await person();
  const { items } = await control.call('accounts.list', { limit: 200 });
  const { email } = items.find((each: { id: string }) => each.id === id)!;
  const refuse = (who: object) =>
    control.internal('/internal/sign-in/refused', {
      account: null,
      email: null,
      by: 'sign-in/email',
      address: '203.0.113.8',
      code: 'unauthorized',
      ...who,
    });
  const refused = async (filter: object, count: number) => {
    let found: AuditEntry[] = [];
    const areThere = async () => {
      found = await entries({ operation: 'sign_in', ...filter });
      return found.length >= count;
    };
    await eventually(areThere, `${count} entries are there`);
    return found;
  };
  await refuse({ email });
  await refuse({ account: id, code: 'no_role' });
  const own = await refused({ account: id }, 2);
  assert.deepEqual(own.map(({ outcome }) => outcome).sort(), ['no_role', 'unauthorized']);
  assert.deepEqual(
    [own[0]!.via, own[0]!.address, own[0]!.details],
    ['ui', '203.0.113.8', { by: 'sign-in/email' }],
  );
  await refuse({ email: 'a secret that was entered by mistake' });
  const ofNobody = (await refused({}, 3)).find(({ account }) => account === null);
  assert.deepEqual([ofNobody?.name, ofNobody?.details], [null, { by: 'sign-in/email' }]);
  for (let i = 0; i < 105; i++) assert.equal((await refuse({ account: id })).status, 200);
  assert.equal((await refused({ account: id }, 100)).length, 100);
  await refuse({});
  assert.equal((await refused({}, 102)).length, 102, 'each account has a limit of its own');
});

test('changes are logged, except reports of apps about themselves, and files before their deploy', () => {
  const declared: readonly Operation[] = operations;
  const silent = declared.filter(({ method, audited }) => method !== 'GET' && audited === false);
  assert.deepEqual(
    silent.map(({ name }) => name),
    [
      'deploys.begin_upload',
      'deploys.upload_files',
      'git.remote',
      'events.log',
      'users.identify',
      'insights.set',
    ],
  );
});
