import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unanswered, whyUnanswered } from '../../../handlers/cloudflare/unanswered.ts';

test('every call that is not implemented has a reason of its own, which no other entry hides', () => {
  const call = (path: string) => path.replaceAll('*', 'one');
  for (const { method = 'GET', path, what, why } of unanswered)
    assert.equal(whyUnanswered(method, call(path)), `${what}: ${why}`);
  const reason = (method: string, path: string) => whyUnanswered(method, `/accounts/one/${path}`) ?? '';
  assert.match(reason('PUT', 'queues/q/purge'), /^purging queues: /);
  assert.match(reason('DELETE', 'queues/q'), /^deleting queues: /);
  assert.match(reason('PATCH', 'queues/q'), /^pausing queues/);
  assert.match(reason('PUT', 'r2/buckets/b/cors'), /^CORS of buckets: /);
  assert.match(reason('PUT', 'storage/kv/namespaces/n'), /^renaming namespaces: /);
  assert.match(reason('GET', 'containers/me'), /^Containers: /);
  assert.match(reason('PUT', 'triggers/app'), /^event triggers/);
  assert.match(reason('POST', 'challenges/widgets'), /^Turnstile: /);
  assert.match(reason('POST', 'email/sending/send'), /send_email/);
  assert.match(reason('GET', 'workers/scripts/app/subdomain/edge-preview'), /^`wrangler dev --remote`: /);
  assert.match(reason('PUT', 'workers/scripts/app/routes'), /^routes: .*cellar domains/);
  assert.match(reason('POST', 'workers/workers'), /^previews of Workers: /);
  assert.equal(whyUnanswered('GET', '/accounts/one/unknown'), null);
});
