import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import type { DeployFact, WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import { appsOfCopy, prepareCopy } from '../../../sqlite/host/snapshots.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const wanted = (id: string, generation: number): WantedApp => ({
  id,
  slug: `slug-${id}`,
  generation,
  desired_state: 'running',
  hostnames: [],
  env: {},
  limits: { clientRpm: null, appRpm: null },
});

const deploy = (id: string, status: DeployFact['status']): DeployFact => ({
  id,
  app_id: 'a',
  sha: '0'.repeat(40),
  ref: 'refs/heads/main',
  message: '',
  author: '',
  trigger: 'push',
  status,
  can_roll_back: false,
  steps: [],
  error: null,
  created_at: '',
  started_at: null,
  finished_at: null,
});

test('commits are there after the database is reopened', (t) => {
  const path = join(temporaryDirectory(t), 'host.sqlite');
  const names = { appliedTags: ['v1'], classes: {}, databases: { main: 'x' }, namespaces: {} };
  const first = openHostStore(path);
  first.apps.want(wanted('a', 3));
  first.apps.setLive('a', 'd1', '2026-01-01T00:00:00.000Z', names, ['jobs']);
  first.deploys.save(deploy('d1', 'live'));
  first.deploys.saveLog('d1', 'built\n');
  const name = first.outbox.name();
  first.close();

  const second = openHostStore(path);
  t.after(() => second.close());
  assert.deepEqual(second.apps.all(), [
    {
      // An older host stored the wanted state without `storage`.
      wanted: { ...wanted('a', 3), storage: 'local' },
      liveDeployId: 'd1',
      deployedAt: '2026-01-01T00:00:00.000Z',
      consumes: ['jobs'],
      sleep: { asleepSince: null, wokeAt: null },
    },
  ]);
  assert.deepEqual(second.apps.storageNames('a'), names);
  assert.equal(second.deploys.log('a', 'd1'), 'built\n');
  assert.equal(second.deploys.log('b', 'd1'), undefined);
  assert.equal(second.outbox.name(), name);
});

test('a tombstone keeps the highest generation and is not listed', (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  store.apps.want(wanted('a', 5));
  store.apps.delete('a', 4, 'now');
  assert.equal(store.apps.generation('a'), 5);
  assert.ok(store.apps.isDeleted('a'));
  assert.deepEqual(store.apps.all(), []);
  store.apps.delete('never-seen', 9, 'now');
  assert.ok(store.apps.isDeleted('never-seen'));
  assert.equal(store.apps.highestGeneration(), 9);
});

test('unfinished deploys are those queued or building', (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  store.apps.want(wanted('a', 1));
  for (const status of ['queued', 'building', 'live', 'failed', 'superseded'] as const)
    store.deploys.save(deploy(status, status));
  assert.deepEqual(
    store.deploys.unfinished().map(({ id }) => id),
    ['building', 'queued'],
  );
  store.deploys.save(deploy('queued', 'failed'));
  assert.deepEqual(
    store.deploys.unfinished().map(({ id }) => id),
    ['building'],
  );
});

test('the outbox never reuses a number', (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  store.outbox.add({ type: 'deploy', deploy: deploy('d', 'queued') });
  const [first] = store.outbox.next(10, 1_000_000).events;
  store.outbox.remove([first!]);
  assert.deepEqual(store.outbox.next(10, 1_000_000).events, []);
  store.outbox.add({ type: 'deploy', deploy: deploy('d', 'live') });
  assert.equal(store.outbox.next(10, 1_000_000).events[0]!.seq, first!.seq + 1);
});

test('a transaction that throws changes nothing', (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  assert.throws(() =>
    store.transaction(() => {
      store.apps.want(wanted('a', 1));
      throw new Error('no');
    }),
  );
  assert.deepEqual(store.apps.all(), []);
});

test('a database of a newer version is refused and not changed', (t) => {
  const path = join(temporaryDirectory(t), 'host.sqlite');
  const newer = new Database(path);
  newer.pragma('user_version = 99');
  newer.close();
  assert.throws(() => openHostStore(path), /written by a newer Cellar/);
});

test('old deploys of an app are deleted, but not unfinished ones or those kept for a rollback', (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  store.apps.want(wanted('a', 1));
  const rows = { d1: 'live', d2: 'building', d3: 'failed', d4: 'live', d5: 'failed', d6: 'live' } as const;
  for (const [id, status] of Object.entries(rows)) store.deploys.save(deploy(id, status));
  const left = () => Object.keys(rows).filter((id) => store.deploys.find('a', id));
  store.deploys.prune('a', 6, []);
  assert.deepEqual(left(), Object.keys(rows));
  store.deploys.prune('a', 2, ['d4']);
  assert.deepEqual(left(), ['d2', 'd4', 'd5', 'd6']);
  store.apps.delete('a', 2, 'now');
  store.deploys.save(deploy('d2', 'failed'));
  store.deploys.save(deploy('d7', 'failed'));
  store.deploys.deleteOfDeletedApps();
  assert.deepEqual(left(), []);
  assert.equal(store.deploys.find('a', 'd7'), undefined);
});

test('previews are not apps of the control plane, report nothing to it, and are not in copies', async (t) => {
  const directory = temporaryDirectory(t);
  const path = join(directory, 'host.sqlite');
  const store = openHostStore(path);
  const [parent, preview] = ['a'.repeat(16), 'b'.repeat(16)];
  const row = { parentId: parent, name: 'one', source: 'refs/heads/one', versionId: null };
  store.transaction(() => {
    store.apps.want(wanted(parent, 1));
    store.apps.want(wanted(preview, 1));
    store.previews.add({ ...row, id: preview, createdAt: 1, expiresAt: 2 });
  });
  store.activity.setRest(preview, { dueAt: null });
  const idOf = ({ wanted }: { wanted: { id: string } }) => wanted.id;
  assert.deepEqual(store.apps.all().map(idOf), [parent]);
  for (const id of [parent, preview])
    store.outbox.add({
      type: 'app',
      app: {
        ...{ id, generation: 1, process_state: 'idle', live_deploy_id: null },
        ...{ deployed_at: null, last_error: null, asleep_since: null, woke_at: null },
      },
    });
  assert.deepEqual(
    store.outbox.next(10, 1e6).events.map((event) => event.type === 'app' && event.app.id),
    [parent],
  );
  const copy = join(directory, 'copy.sqlite');
  await store.snapshots.copy(copy);
  assert.deepEqual(
    appsOfCopy(copy).map(({ id }) => id),
    [parent],
  );
  prepareCopy(copy);
  const restored = openHostStore(copy);
  assert.deepEqual([restored.previews.all(), restored.apps.all().map(idOf)], [[], [parent]]);
  restored.close();
  store.transaction(() => store.previews.remove(preview));
  assert.deepEqual(store.previews.all(), []);
  store.close();
});
