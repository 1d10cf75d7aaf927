// The e-mail addresses to which an account may send alerts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestControl, TOKEN } from '../support/handlers/control.ts';

test('an alert is mailed to the address of an account; an admin may name any', async () => {
  const control = await TestControl.start();
  try {
    const { id: account } = await control.call('accounts.create', { name: 'ada', email: 'ada@example.com' });
    const { key } = await control.call('keys.create', { account });
    const { id } = await control.call('apps.create', { slug: 'shop', owner: account });
    /** Returns the code and the fields of the error. An accepted address also gets an error, because there is no host. */
    const refusal = async (token: string, url: string) => {
      const response = await fetch(`${control.url}/rpc`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'alerts.set', params: { id, url } }),
        signal: AbortSignal.timeout(60_000),
      });
      const { error } = (await response.json()) as {
        error?: { data: { code: string; errors?: { path: string }[] } };
      };
      return [error?.data.code, ...(error?.data.errors ?? []).map(({ path }) => path)];
    };
    const next = await refusal(key, 'https://example.com/hook');
    assert.notEqual(next[0], 'invalid_input');
    assert.deepEqual(await refusal(key, 'mailto:Ada@Example.com'), next);
    assert.deepEqual(await refusal(key, 'mailto:stranger@example.com'), ['invalid_input', 'url']);
    assert.deepEqual(await refusal(TOKEN, 'mailto:stranger@example.com'), next);
  } finally {
    await control.stop();
  }
});
