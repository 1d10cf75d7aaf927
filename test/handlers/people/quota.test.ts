// The quota of apps of one account, which an admin of the machine sets.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

test('the quota of an account replaces that of the settings, in both directions, until it is removed', async () => {
  const control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '1' });
  try {
    const call = async (method: string, params: object) => {
      const { body } = await control.rpc({ jsonrpc: '2.0', id: 1, method, params });
      return body.result ?? body.error.data.code;
    };
    const { id: account } = await call('accounts.me', {});
    const quota = (max_apps: number | null) => call('accounts.set_max_apps', { account, max_apps });
    const create = async (slug: string) => {
      const made = await call('apps.create', { slug });
      return typeof made === 'string' ? made : 'made';
    };
    assert.equal(await create('one'), 'made');
    assert.equal(await create('two'), 'quota_exceeded');
    assert.equal((await quota(2)).max_apps, 2);
    assert.equal(await create('two'), 'made');
    assert.equal((await quota(0)).max_apps, 0);
    assert.equal(await create('three'), 'quota_exceeded');
    assert.equal((await quota(null)).max_apps, null);
    assert.equal(await create('three'), 'quota_exceeded');
    assert.equal(await quota(-1), 'invalid_input');
    const unknown = { account: '0000000000000000', max_apps: 1 };
    assert.equal(await call('accounts.set_max_apps', unknown), 'account_not_found');
  } finally {
    await control.stop();
  }
});
