// The values of secrets in Secrets Stores, as apps get them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secrets } from '../../runtime/apps/secrets.ts';
import { StoreSecrets } from '../../runtime/apps/store-secrets.ts';

const KEY = Buffer.alloc(32, 7).toString('base64url');
const secrets = new Secrets({} as never, KEY);
const asked = { owner: 'owner', store: 'store', name: 'key' };
const sealed = (value: string, name = asked.name) =>
  secrets.seal('store store', name, value).toString('base64');

test('a value is asked for once in five seconds, also by many at once', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] });
  let calls = 0;
  const store = new StoreSecrets(secrets, async () => sealed(`value ${++calls}`));
  const many = await Promise.all(Array.from({ length: 100 }, () => store.get(asked)));
  assert.deepEqual([...new Set(many)], ['value 1']);
  t.mock.timers.tick(4_999);
  assert.equal(await store.get(asked), 'value 1');
  t.mock.timers.tick(1);
  assert.equal(await store.get(asked), 'value 2');
  assert.equal(await store.get({ ...asked, owner: 'another' }), 'value 3');
});

test('without an answer the last value stays, and is asked for again', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] });
  let answer: () => string | null = () => assert.fail('away');
  const store = new StoreSecrets(secrets, async () => answer());
  await assert.rejects(store.get(asked), /away/);
  answer = () => sealed('first');
  assert.equal(await store.get(asked), 'first', 'a failure is not kept');
  for (let round = 0; round < 2; round++) {
    answer = () => assert.fail('away');
    t.mock.timers.tick(5_000);
    assert.equal(await store.get(asked), 'first');
  }
  t.mock.timers.tick(5_000);
  answer = () => null;
  assert.equal(await store.get(asked), null);
});

test('a value is only for its name and its store', async () => {
  const store = new StoreSecrets(secrets, async () => sealed('value', 'another'));
  await assert.rejects(store.get(asked), /cannot be decrypted/);
  const moved = new StoreSecrets(secrets, async () => sealed('value'));
  await assert.rejects(moved.get({ ...asked, store: 'other' }), /cannot be decrypted/);
});

test('few values stay in memory', async () => {
  let calls = 0;
  const store = new StoreSecrets(secrets, async () => {
    calls++;
    return null;
  });
  for (let n = 0; n < 1_001; n++) await store.get({ ...asked, name: `key-${n}` });
  await store.get({ ...asked, name: 'key-1000' });
  assert.equal(calls, 1_001);
  await store.get({ ...asked, name: 'key-0' });
  assert.equal(calls, 1_002);
});
