// A person's role on an app, which the views check before the API does.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refusal, roleOf } from '../../../ui/role.ts';

test('an owner has the role admin, a collaborator the assigned role, and others none', () => {
  const collaborators = [{ account: 'bob', role: 'view' }] as const;
  assert.equal(roleOf('ada', 'ada', collaborators), 'admin');
  assert.equal(roleOf('bob', 'ada', collaborators), 'view');
  assert.equal(roleOf('eve', 'ada', collaborators), null);
});

test('a role allows what needs it or a lower one, and a refusal says why', () => {
  assert.equal(refusal('push', 'admin'), null);
  assert.equal(refusal('push', 'push'), null);
  assert.equal(
    refusal('admin', 'push'),
    'This operation needs the role admin on the app; your role is push. An administrator of the app can give you another.',
  );
  assert.match(refusal('push', 'view')!, /needs the role push on the app; your role is view/);
});

test('an unknown role disables nothing: the API decides', () => {
  assert.equal(refusal('admin', null), null);
});
