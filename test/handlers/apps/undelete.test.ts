// Deleted apps in the control plane: what they keep, who may bring them back, and what prevents that.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
beforeEach(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '2' });
});
afterEach(() => control.stop());

const slugs = async () =>
  (await control.call('apps.list_deleted', {})).items.map(({ slug }: { slug: string }) => slug);

test('an undeleted app has its settings, variables, people and free domains again', async () => {
  const { id } = await control.create('shop');
  const other = await control.create('blog');
  await control.call('env.set', { id, name: 'A', value: '1' });
  await control.call('limits.set', { id, appRpm: 5 });
  const friend = await control.call('accounts.create', { name: 'F', email: 'f@example.com' });
  await control.call('collaborators.set', { id, account: friend.id, role: 'view' });
  for (const hostname of ['a.example', 'b.example']) await control.call('domains.add', { id, hostname });
  await control.call('apps.delete', { id });
  assert.deepEqual(await slugs(), ['shop']);
  assert.equal((await control.refusal('apps.get', { id })).code, 'app_not_found');
  await control.call('domains.add', { id: other.id, hostname: 'b.example' });

  assert.equal((await control.call('apps.undelete', { app: 'shop' })).id, id);
  const wanted = control.host.wanted.get(id)!;
  assert.deepEqual([wanted.env, wanted.limits.appRpm, wanted.hostnames], [{ A: '1' }, 5, ['a.example']]);
  assert.equal(wanted.undeleted, wanted.generation);
  assert.equal((await control.call('collaborators.list', { id })).items.length, 1);
  assert.deepEqual(await slugs(), []);
  assert.equal((await control.refusal('apps.undelete', { app: id })).code, 'app_not_found');
});

test('a taken slug and a full quota stand in the way, and another slug helps', async () => {
  const { id } = await control.create('shop');
  await control.call('apps.delete', { id });
  const second = await control.create('shop');
  assert.equal((await control.refusal('apps.undelete', { app: id })).code, 'slug_taken');
  const third = await control.create('third');
  assert.equal((await control.refusal('apps.undelete', { app: id, slug: 'old' })).code, 'quota_exceeded');
  await control.call('apps.delete', { id: third.id });
  assert.equal((await control.call('apps.undelete', { app: id, slug: 'old' })).slug, 'old');
  assert.equal((await control.call('apps.get_by_slug', { slug: 'shop' })).id, second.id);
});

test('an undeletion that failed can be repeated with the slug that the app had', async () => {
  const { id } = await control.create('shop');
  await control.call('apps.delete', { id });
  control.host.failing = 503;
  const again = { app: 'shop', slug: 'shop-2' };
  assert.equal((await control.refusal('apps.undelete', again)).code, 'host_unavailable');
  control.host.failing = null;
  await control.internal('/internal/reconcile', {});
  assert.deepEqual(await slugs(), ['shop']);
  const undeleted = await control.call('apps.undelete', again);
  assert.deepEqual([undeleted.id, undeleted.slug], [id, 'shop-2']);
  await control.call('apps.delete', { id });
  assert.deepEqual(await slugs(), ['shop-2']);
});

test('only the owner, an admin of the app and the machine may bring it back', async () => {
  const person = async (name: string) => {
    const { id } = await control.call('accounts.create', { name, email: `${name}@example.com` });
    return { id, key: (await control.call('keys.create', { account: id })).key };
  };
  const [owner, admin, pusher] = await Promise.all(['owner', 'admin', 'push'].map(person));
  const { id } = await control.call('apps.create', { slug: 'shop', owner: owner!.id });
  await control.call('collaborators.set', { id, account: admin!.id, role: 'admin' });
  await control.call('collaborators.set', { id, account: pusher!.id, role: 'push' });
  for (const [{ key }, status] of [
    [pusher!, 404],
    [admin!, 200],
    [owner!, 200],
  ] as const) {
    await control.call('apps.delete', { id });
    const authorization = { authorization: `Bearer ${key}` };
    const { body } = await control.api('GET', '/v1/deleted-apps', undefined, authorization);
    assert.equal(body.items.length, status === 200 ? 1 : 0);
    const answer = await control.api('POST', `/v1/deleted-apps/${id}/undelete`, {}, authorization);
    assert.equal(answer.status, status, answer.text);
    if (status !== 200) await control.call('apps.undelete', { app: id });
  }
});

test('after 7 days an app is forgotten, and an account with deleted apps only can be deleted', async () => {
  const { id } = await control.create('shop');
  await control.call('apps.delete', { id });
  const account = await control.call('accounts.create', { name: 'B', email: 'b@example.com' });
  const other = await control.call('apps.create', { slug: 'blog', owner: account.id });
  await control.call('apps.delete', { id: other.id });
  assert.equal(await control.call('accounts.delete', { id: account.id }), null);
  assert.deepEqual(await slugs(), ['shop']);
  const database = await control.database();
  const old = new Date(Date.now() - 7 * 24 * 3_600_000 - 1).toISOString();
  await database.prepare('UPDATE apps SET deleted_at = ?').bind(old).run();
  assert.deepEqual(await slugs(), []);
  assert.equal((await control.refusal('apps.undelete', { app: id })).code, 'app_not_found');
  await control.internal('/internal/prune', {});
  assert.equal((await database.prepare('SELECT count(*) AS n FROM apps').first()).n, 0);
});
