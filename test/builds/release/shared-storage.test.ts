// The warning for storage that two apps name: on Cloudflare they would share it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharedStorageWarning } from '../../../runtime/builds/release/shared-storage.ts';

test('storage that two apps name is reported if its name is unique in an account', () => {
  const [uuid, hex] = ['6f1f0a2e-5c3b-4a53-9b8f-0f3c1f4c8a11', 'cc398e983a234aa19de5ea6af571a483'];
  const warning = (names: object, known: object) =>
    sharedStorageWarning(names, { slug: 'status', names: known });
  const databases = { [uuid]: 's1' };
  assert.equal(
    warning({ databases }, { databases: { [uuid]: 's2' } }),
    `d1_databases: the app status names ${uuid} too, but each app has a database of its own here: let one of them bind it, and the other call it by a service binding`,
  );
  assert.match(
    warning({ namespaces: { [hex]: 's1' } }, { namespaces: { [hex]: 's2' } })!,
    /^kv_namespaces: .*cc398e98/,
  );
  assert.match(
    warning({ buckets: { files: 's1' } }, { buckets: { files: 's2' } })!,
    /^r2_buckets: .* files too/,
  );
  assert.match(warning({ vectorIndexes: { i: 's1' } }, { vectorIndexes: { i: 's2' } })!, /^vectorize: /);
  for (const known of [{}, { databases: {} }, { namespaces: databases }])
    assert.equal(warning({ databases }, known), null);
  // The names of a binding, for which the project gives no id.
  assert.equal(warning({ databases: { DB: 's1' } }, { databases: { DB: 's2' } }), null);
  assert.equal(warning({ databases: { constructor: 's1' } }, { databases: {} }), null);
});
