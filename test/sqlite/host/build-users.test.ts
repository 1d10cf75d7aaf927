import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { BUILD_UIDS } from '../../../sqlite/host/build-users.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

test('each app has a user id of its own, which it keeps when the database is reopened', (t) => {
  const path = join(temporaryDirectory(t), 'host.sqlite');
  const first = openHostStore(path);
  const [a, b] = ['a', 'b'].map((id) => first.buildUsers.uid(id)) as [number, number];
  first.close();
  const second = openHostStore(path);
  assert.notEqual(a, b);
  assert.deepEqual([second.buildUsers.uid('b'), second.buildUsers.uid('a')], [b, a]);
  assert.deepEqual(second.buildUsers.all().sort(), [a, b].sort());
  for (const uid of [a, b]) {
    assert.ok(uid >= BUILD_UIDS.first && uid < BUILD_UIDS.first + BUILD_UIDS.count, String(uid));
  }
  second.close();
});

test('a database that was moved gives every app another user', (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const { buildUsers } = store;
  const first = buildUsers.uid('a');
  assert.equal(buildUsers.place(), null);
  buildUsers.recordPlace('here');
  buildUsers.recordPlace('here');
  assert.equal(buildUsers.uid('a'), first, 'it did not lie elsewhere');
  buildUsers.recordPlace('there');
  assert.deepEqual(buildUsers.all(), []);
  assert.notEqual(buildUsers.uid('a'), first);
  assert.equal(buildUsers.place(), 'there');
});
