// The consumers of queues, as Wrangler reads and sets them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

const MOST_DELAY_S = 24 * 3_600;

test('all settings of a consumer are shown, and set up to the limits of Cloudflare', async (t) => {
  const control = await TestControl.start();
  t.after(() => control.stop());
  const { id: account } = await control.call('accounts.create', { name: 'own', email: 'own@example.com' });
  const { key } = await control.call('keys.create', { account });
  const { body: app } = await control.api('POST', '/v1/apps', { slug: 'shop', owner: account });
  const consumer = {
    queue: 'jobs',
    maxBatchSize: 7,
    maxBatchTimeout: 3,
    maxRetries: 2,
    retryDelay: MOST_DELAY_S,
    maxConcurrency: 4,
    deadLetterQueue: 'dead',
  };
  control.host.kept = { consumers: [consumer] };
  const call = async (method: string, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const { text } = await control.fetch(method, `/client/v4/accounts/${account}${path}`, {
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    return JSON.parse(text);
  };
  const settings = {
    batch_size: 7,
    max_retries: 2,
    max_wait_time_ms: 3_000,
    max_concurrency: 4,
    retry_delay: MOST_DELAY_S,
  };
  const [queue] = (await call('GET', '/queues?name=jobs')).result;
  assert.deepEqual(queue.consumers[0].settings, settings);

  const set = (retry_delay: number) =>
    call('POST', '/queues/jobs/consumers', { script_name: 'shop', settings: { ...settings, retry_delay } });
  await set(MOST_DELAY_S);
  const [sent] = control.host.calls('PUT', `/apps/${app.id}/triggers`);
  assert.equal(JSON.parse(sent!.body).consumer.retryDelay, MOST_DELAY_S);
  assert.match(JSON.stringify((await set(MOST_DELAY_S + 1)).errors), /retry_delay/);
});
