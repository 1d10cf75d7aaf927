// What one may do with an app, as its screens tell it before the API does.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refusal, roleOf } from '../../../ui/role.ts';

test('an owner has the role admin, a collaborator the one given, and others none', () => {
  const collaborators = [{ account: 'bob', role: 'view' }] as const;
  assert.equal(roleOf('ada', 'ada', collaborators), 'admin');
  assert.equal(roleOf('bob', 'ada', collaborators), 'view');
  assert.equal(roleOf('eve', 'ada', collaborators), null);
});

test('a role does for what needs it or a lower one; why it does not is said', () => {
  assert.equal(refusal('push', 'admin'), null);
  assert.equal(refusal('push', 'push'), null);
  assert.equal(
    refusal('admin', 'push'),
    'This needs the role admin; yours is push. An administrator of the app can give you another.',
  );
  assert.match(refusal('push', 'view')!, /needs the role push; yours is view/);
});

test('while a role is not known, nothing is off: the API decides', () => {
  assert.equal(refusal('admin', null), null);
});
