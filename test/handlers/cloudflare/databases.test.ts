// What a deploy by Wrangler learns about databases of other apps.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start();
  control.host.kept = { databases: [{ id: 'main', binding: 'db' }] };
});
after(() => control.stop());

async function accountOf(name: string) {
  const { id } = await control.call('accounts.create', { name, email: `${name}@example.com` });
  const { key } = await control.call('keys.create', { account: id });
  return {
    id,
    async get(database: string) {
      const { status, body } = await control.fetch(
        'GET',
        `/client/v4/accounts/${id}/d1/database/${database}`,
        {
          headers: { authorization: `Bearer ${key}` },
        },
      );
      return [status, body.result?.uuid ?? body.errors[0].code];
    },
  };
}

test('a deploy may use a name that a database of another app has as its name or its binding', async () => {
  const owner = await accountOf('owner');
  const viewer = await accountOf('viewer');
  const { body: app } = await control.api('POST', '/v1/apps', { slug: 'shop', owner: owner.id });
  await control.call('collaborators.set', { id: app.id, account: viewer.id, role: 'view' });
  assert.deepEqual(await owner.get('db'), [200, 'db']);
  // Wrangler sends `fields` only for its commands, not for a deploy.
  for (const name of ['main', 'db']) {
    assert.deepEqual(await viewer.get(name), [404, 7404]);
    assert.deepEqual(await viewer.get(`${name}?fields=uuid,name`), [403, 10000]);
  }
});
