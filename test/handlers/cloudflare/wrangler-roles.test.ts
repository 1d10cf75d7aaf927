// Access control of `/client/v4`: every call that Wrangler makes, as every kind of caller. A call needs the same role as the
// API operation that does the same.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

// Imported by its path: it is written for workerd, whose types are missing here.
const { calls } = (await import(new URL('../../../handlers/cloudflare/index.ts', import.meta.url).href)) as {
  calls: { method: string; path: string; needs: string }[];
};

const ROLES = ['none', 'view', 'push', 'admin', 'owner'] as const;
const RANK = { account: 0, view: 1, push: 2, admin: 3 } as const;
/** Texts that no caller below `push` may read: a variable of the Worker, and the names of stored data. */
const HIDDEN = [
  'the value of a variable',
  'hidden-database',
  'hidden-namespace',
  'hidden-bucket',
  'hidden-queue',
];

let control: TestControl;
let people: { role: (typeof ROLES)[number]; account: string; key: string }[];

before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '1000' });
  people = await Promise.all(
    ROLES.map(async (role) => {
      const { id: account } = await control.call('accounts.create', {
        name: role,
        email: `${role}@example.com`,
      });
      const { key } = await control.call('keys.create', { account });
      return { role, account, key };
    }),
  );
  for (const slug of ['shared', 'deleted']) await sharedApp(slug);
  const workflows = [{ id: 'hidden-workflow', class_name: 'Orders', binding: 'ORDERS' }];
  control.host.kept = {
    databases: [{ id: 'hidden-database', binding: 'DB' }],
    namespaces: [{ id: 'hidden-namespace', binding: 'KV' }],
    buckets: [{ id: 'hidden-bucket', binding: 'BUCKET' }],
    vector_indexes: [{ id: 'hidden-index', binding: 'VECTORS' }],
    producers: ['hidden-queue'],
    consumers: [],
    workflows,
  };
  control.host.release = {
    deploy_id: '0123456789abcdef',
    compatibility_date: '2026-10-01',
    compatibility_flags: [],
    migration_tag: null,
    vars: { GREETING: 'the value of a variable' },
    assets: null,
    durable_objects: [],
    containers: [],
    workflows: workflows.map(({ id, ...rest }) => ({ name: id, ...rest })),
    databases: [],
    namespaces: [],
    buckets: [],
    vector_indexes: [],
    rate_limits: [],
    services: [],
    dispatch_namespaces: [],
    store_secrets: [],
    mtls_certificates: [],
    outward: [],
    version_metadata: null,
    worker_loaders: [],
    tail_consumers: [],
    crons: [],
    producers: [],
    consumers: [],
  };
});
after(() => control.stop());

/** Bodies of calls that validate the body before they know the app. */
const BODIES: Record<string, unknown> = {
  '/query': { sql: 'SELECT 1' },
  '/raw': { sql: 'SELECT 1' },
  '/import': { action: 'init', etag: 'x' },
  '/export': {},
  '/bulk': [{ key: 'a', value: 'b' }],
  '/bulk/delete': ['a'],
  '/bulk/get': { keys: ['a'] },
  '/batch/delete': { instances: ['a'] },
  '/status': { status: 'pause' },
};

/** Makes an app of the owner. Each other caller gets the role that it is named after. */
async function sharedApp(slug: string): Promise<void> {
  const { account: owner } = people.find(({ role }) => role === 'owner')!;
  const { body } = await control.api('POST', '/v1/apps', { slug, owner });
  for (const { role, account } of people) {
    if (role !== 'none' && role !== 'owner')
      await control.call('collaborators.set', { id: body.id, account, role });
  }
}

for (const { method, path, needs } of calls) {
  if (needs === 'none') continue;
  test(`${method} ${path} needs ${needs}`, async () => {
    const slug = method === 'DELETE' && path.includes('/services/') ? 'deleted' : 'shared';
    const names: Record<string, string> = {
      script: slug,
      consumer: slug,
      database: 'hidden-database',
      namespace: 'hidden-namespace',
      bucket: 'hidden-bucket',
      index: 'hidden-index',
      queue: 'hidden-queue',
      workflow: 'hidden-workflow',
    };
    const end = Object.keys(BODIES).find((each) => path.endsWith(each));
    const given =
      end === undefined
        ? { script_name: slug, class_name: 'Orders', name: 'x', title: 'x', queue_name: 'x' }
        : BODIES[end];
    const body = path.endsWith('/bulk') && method === 'DELETE' ? ['a'] : given;
    for (const { role, account, key } of people) {
      const address = path
        .replace(':account', account)
        .replace(/:(\w+)\+?/g, (_, name: string) => names[name] ?? 'some');
      const { status, text } = await control.fetch(method, `/client/v4${address}`, {
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(method !== 'GET' && { body: JSON.stringify(body) }),
      });
      const rank = role === 'none' ? 0 : RANK[role === 'owner' ? 'admin' : role];
      const isEnough = rank >= RANK[needs as keyof typeof RANK];
      const seen = `${role}: ${status} ${text}`;
      if (isEnough) assert.ok(status !== 403 && status !== 401, seen);
      else {
        // A list omits an app without a sufficient role. An app that the caller may not know of gets 404.
        assert.ok([200, 403, 404].includes(status), seen);
        if (status === 200) assert.match(text, /"result":(\[\]|\{"buckets":\[\]\})/, seen);
      }
      if (rank < RANK.push)
        for (const hidden of HIDDEN)
          assert.ok(!text.includes(hidden) || status === 403 || status === 404, seen);
    }
  });
}

test('a Wrangler call needs the same role as the API operation that does the same', () => {
  const needs = Object.fromEntries(calls.map(({ method, path, needs }) => [`${method} ${path}`, needs]));
  const script = '/accounts/:account/workers/scripts/:script';
  for (const read of [`GET ${script}/settings`, `GET ${script}/versions/:version`, `GET ${script}/secrets`])
    assert.equal(needs[read], 'push', read);
  assert.equal(needs['DELETE /accounts/:account/workers/services/:script'], 'admin');
});

test('the audit log has the app of the storage that a call changes, or may not change', async () => {
  const call = async (role: string, method: string, path: string, body: unknown) => {
    const { account, key } = people.find((person) => person.role === role)!;
    await control.fetch(method, `/client/v4/accounts/${account}${path}`, {
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const [last] = (await control.call('audit.list', { account, limit: 1 })).items;
    return [last?.operation, last?.app?.slug, last?.app?.id?.length, last?.outcome === 'forbidden'];
  };
  const consumer = { script_name: 'shared' };
  for (const [method, path, operation, body] of [
    ['POST', '/d1/database/hidden-database/query', 'storage.d1.write', { sql: 'SELECT 1' }],
    ['PUT', '/storage/kv/namespaces/hidden-namespace/bulk', 'storage.kv.put', [{ key: 'a', value: 'b' }]],
    ['DELETE', '/r2/buckets/hidden-bucket/objects/some', 'storage.r2.delete', {}],
    ['POST', '/queues/hidden-queue/consumers', 'deploys.create', consumer],
  ] as const) {
    assert.deepEqual(await call('owner', method, path, body), [operation, 'shared', 16, false]);
    assert.deepEqual(await call('view', method, path, body), [operation, 'shared', 16, true]);
  }
  // `wrangler vectorize create` changes the settings of an index that exists.
  const index = { name: 'hidden-index', config: { dimensions: 2, metric: 'cosine' } };
  assert.deepEqual(await call('owner', 'POST', '/vectorize/v2/indexes', index), [
    'storage.vectorize.write',
    'shared',
    16,
    false,
  ]);
});

test('the size of a bucket is read by GraphQL with the role push; other queries are refused', async () => {
  const size = async (role: string, of: string, operationName = 'getR2StorageMetrics') => {
    const { key } = people.find((person) => person.role === role)!;
    const { account } = people.find((person) => person.role === of)!;
    const variables = { accountTag: account, filter: { bucketName: 'hidden-bucket' } };
    const { status, body } = await control.fetch('POST', '/client/v4/graphql', {
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ operationName, query: '', variables }),
    });
    return status === 200 ? body.data.viewer.accounts[0].r2StorageAdaptiveGroups[0].max : status;
  };
  const known = { objectCount: 2, payloadSize: 30, metadataSize: 0 };
  assert.deepEqual(await size('owner', 'owner'), known);
  assert.deepEqual(await size('push', 'push'), known);
  assert.equal(await size('view', 'view'), 403);
  assert.equal(await size('none', 'none'), 404);
  assert.equal(await size('push', 'owner'), 403);
  assert.equal(await size('owner', 'owner', 'getD1Metrics'), 404);
});
