// What Wrangler sends and Cellar cannot do: it is refused with a reason before anything changes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
let account: string;
let key: string;

before(async () => {
  control = await TestControl.start();
  ({ id: account } = await control.call('accounts.create', { name: 'own', email: 'own@example.com' }));
  ({ key } = await control.call('keys.create', { account }));
  await control.api('POST', '/v1/apps', { slug: 'shop', owner: account });
  control.host.kept = { namespaces: [{ id: 'words', binding: 'KV' }] };
});
after(() => control.stop());

async function call(method: string, path: string, body?: unknown) {
  const { status, text } = await control.fetch(method, `/client/v4/accounts/${account}${path}`, {
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status, ...JSON.parse(text) };
}

test('a setting that Cellar lacks, and a value that is no base64, are refused by name', async () => {
  const bulk = [
    { key: 'a', value: 'YQ', base64: true },
    { key: 'b', value: '%', base64: true },
  ];
  for (const [method, path, body, reason] of [
    ['PUT', '/storage/kv/namespaces/words/bulk', bulk, /1\.value: of the key "b" must be base64/],
    [
      'POST',
      '/queues',
      { queue_name: 'jobs', settings: { delivery_delay: 60 } },
      /settings: must be left out: a queue has no settings/,
    ],
    ['POST', '/queues', { queue_name: 'jobs', jurisdiction: 'eu' }, /jurisdiction: must be left out/],
    [
      'POST',
      '/r2/buckets',
      { name: 'files', storageClass: 'InfrequentAccess' },
      /storageClass: must be Standard/,
    ],
    ['POST', '/d1/database', { name: 'notes', jurisdiction: 'eu' }, /jurisdiction: must be left out/],
    [
      'PUT',
      '/workflows/rides',
      { script_name: 'shop', class_name: 'Ride', jurisdiction: 'eu' },
      /jurisdiction: must be left out/,
    ],
    [
      'POST',
      '/d1/database/notes/export',
      { dump_options: { compatibility: 'sqlite3_cli_only' } },
      /dump_options\.compatibility: must be d1/,
    ],
  ] as const) {
    const { status, errors } = await call(method, path, body);
    assert.equal(status, 400, path);
    assert.match(errors[0].message, reason);
  }
  assert.ok(!control.host.sent.some(({ path }) => path.includes('/storage/kv/value')));
});

test('Wrangler learns when to repeat a call that the host cannot answer now', async (t) => {
  t.after(() => {
    control.host.failing = null;
  });
  control.host.failing = 503;
  const { status, headers } = await control.fetch('GET', `/client/v4/accounts/${account}/queues`, {
    headers: { authorization: `Bearer ${key}` },
  });
  assert.deepEqual([status, headers.get('retry-after')], [503, '1']);
});

test('Wrangler finds a namespace by the title that it created, and learns why it cannot be deleted', async () => {
  const { result: made } = await call('POST', '/storage/kv/namespaces', { title: 'words' });
  const { result: listed } = await call('GET', '/storage/kv/namespaces');
  assert.deepEqual(listed, [made]);
  const { errors } = await call('DELETE', `/storage/kv/namespaces/${listed[0].id}`);
  assert.match(errors[0].message, /deleting namespaces: storage belongs to one app/);
});
