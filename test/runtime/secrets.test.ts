// How secrets are stored: encrypted, each for its app and its name alone.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { Secrets, TooManySecrets } from '../../runtime/apps/secrets.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const newKey = () => randomBytes(32).toString('base64url');

/** Opens a store with two apps, `one` and `two`. */
function storeOf(t: TestContext) {
  const path = `${temporaryDirectory(t)}/host.sqlite`;
  const store = openHostStore(path);
  t.after(() => store.close());
  for (const id of ['one', 'two'])
    store.apps.want({
      id,
      slug: id,
      generation: 1,
      desired_state: 'running',
      hostnames: [],
      env: {},
      limits: { clientRpm: null, appRpm: null },
    });
  return { store, path };
}

test('a value reads back unchanged, and its file has no plain text of it', (t) => {
  const { store, path } = storeOf(t);
  const secrets = new Secrets(store, newKey());
  const value = 'a value of “some” length\nand lines';
  assert.deepEqual(secrets.change('one', { A: value, B: 'b' }), []);
  assert.deepEqual(secrets.change('one', { A: value, C: 'c' }), ['A']);
  assert.deepEqual(secrets.change('one', { B: null, D: null }), ['B']);
  assert.deepEqual(secrets.values('one'), { A: value, C: 'c' });
  assert.deepEqual(secrets.values('two'), {});
  for (const file of [path, `${path}-wal`]) assert.ok(!readFileSync(file).includes('of “some” length'), file);
  const [first] = store.secrets.all('one');
  secrets.change('one', { A: value });
  assert.notDeepEqual(store.secrets.all('one')[0]!.sealed, first!.sealed, 'equal values do not look equal');
});

test('a value does not decrypt for another app, under another name, changed, or with another key', (t) => {
  const { store } = storeOf(t);
  const key = newKey();
  const secrets = new Secrets(store, key);
  secrets.change('one', { A: 'value' });
  const { sealed } = store.secrets.all('one')[0]!;
  const refuses = (appId: string, name: string, bytes: Buffer, by = secrets) => {
    store.secrets.deleteAll('one');
    store.secrets.deleteAll('two');
    store.secrets.set(appId, name, bytes, '2026-01-01T00:00:00.000Z');
    assert.throws(() => by.values(appId), new RegExp(`the secret ${name} cannot be decrypted`));
  };
  refuses('two', 'A', sealed);
  refuses('one', 'B', sealed);
  refuses('one', 'A', sealed, new Secrets(store, newKey()));
  refuses('one', 'A', sealed.subarray(0, 20));
  for (const at of [0, 1, 15, sealed.length - 1]) {
    const changed = Buffer.from(sealed);
    changed[at]! ^= 1;
    refuses('one', 'A', changed);
  }
  assert.throws(() => new Secrets(store, 'short'), /the key for secrets is damaged/);
});

test('an app has at most 100 secrets, and a change that would exceed that changes nothing', (t) => {
  const { store } = storeOf(t);
  const secrets = new Secrets(store, newKey());
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`S${n}`, 'x']));
  secrets.change('one', many);
  assert.throws(() => secrets.change('one', { ONE_MORE: 'x', S0: 'y' }), TooManySecrets);
  assert.equal(secrets.values('one').S0, 'x');
  assert.equal(secrets.list('one').length, 100);
  secrets.change('one', { S0: null, ONE_MORE: 'x' });
});
