import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Bundle, ClassMigration, Release } from '../../bundler/release.ts';
import { emptyNames, resolveNames, type StorageNames } from '../../runtime/storage/names.ts';

/** Returns a function that makes ids: `id1`, `id2`, … */
function ids(): () => string {
  let last = 0;
  return () => `id${++last}`;
}

const none: ClassMigration = {
  tag: '',
  newClasses: [],
  newSqliteClasses: [],
  renamedClasses: [],
  deletedClasses: [],
};
const made = (tag: string | null, ...classes: string[]): ClassMigration => ({
  ...none,
  tag,
  newSqliteClasses: classes,
});
const renamed = (tag: string | null, from: string, to: string): ClassMigration => ({
  ...none,
  tag,
  renamedClasses: [{ from, to }],
});
const deleted = (tag: string, ...classes: string[]): ClassMigration => ({
  ...none,
  tag,
  deletedClasses: classes,
});

/** Returns a bundle that exports and binds `classes`. */
function bundleOf(classes: string[], classMigrations: ClassMigration[], more: Partial<Bundle> = {}): Bundle {
  return {
    worker: null,
    exports: ['default', ...classes],
    vars: {},
    assets: null,
    durableObjects: classes.map((className) => ({ binding: className.toUpperCase(), className })),
    classMigrations,
    databases: [],
    namespaces: [],
    ...more,
  };
}

/** Makes an app that can be deployed repeatedly. Each deploy goes live. */
function app(newId = ids()) {
  let names: StorageNames = emptyNames();
  let live: Release | null = null;
  return {
    deploy(bundle: Bundle): Record<string, string> {
      const resolved = resolveNames(names, bundle, live, newId);
      names = JSON.parse(JSON.stringify(resolved.names)) as StorageNames;
      live = resolved as unknown as Release;
      return Object.fromEntries(resolved.classes.map(({ className, storageId }) => [className, storageId]));
    },
    rollBack(classes: Release['classes']): void {
      live = { classes } as Release;
    },
    classes: () => live!.classes,
  };
}

test('a class keeps its storage in deploys that do not change it', () => {
  const it = app();
  assert.deepEqual(it.deploy(bundleOf(['Room'], [made('v1', 'Room')])), { Room: 'id1' });
  assert.deepEqual(it.deploy(bundleOf(['Room'], [made('v1', 'Room')])), { Room: 'id1' });
});

test('a first deploy applies the whole history of migrations', () => {
  const history = [made('v1', 'Old', 'Gone'), renamed('v2', 'Old', 'Room'), deleted('v3', 'Gone')];
  assert.deepEqual(app().deploy(bundleOf(['Room'], history)), { Room: 'id1' });
});

test('a renamed class keeps its storage', () => {
  const it = app();
  it.deploy(bundleOf(['Old'], [made('v1', 'Old')]));
  assert.deepEqual(it.deploy(bundleOf(['Room'], [made('v1', 'Old'), renamed('v2', 'Old', 'Room')])), {
    Room: 'id1',
  });
});

test('two classes that swap names keep their storage under the new names', () => {
  const it = app();
  it.deploy(bundleOf(['A', 'B'], [made('v1', 'A', 'B')]));
  const swap = {
    ...none,
    tag: 'v2',
    renamedClasses: ['A>T', 'B>A', 'T>B'].map((s) => ({ from: s[0]!, to: s[2]! })),
  };
  assert.deepEqual(it.deploy(bundleOf(['A', 'B'], [made('v1', 'A', 'B'), swap])), { A: 'id2', B: 'id1' });
});

test('a deleted class that is created again starts empty', () => {
  const it = app();
  const first = [made('v1', 'Room')];
  it.deploy(bundleOf(['Room'], first));
  it.deploy(bundleOf([], [...first, deleted('v2', 'Room')]));
  assert.deepEqual(it.deploy(bundleOf(['Room'], [...first, deleted('v2', 'Room'), made('v3', 'Room')])), {
    Room: 'id2',
  });
});

test('code pushed after a rollback finds the storage of the live release', () => {
  const it = app();
  const old = bundleOf(['Old'], [made('v1', 'Old')]);
  it.deploy(old);
  const before = it.classes();
  const newer = bundleOf(['Room'], [made('v1', 'Old'), renamed('v2', 'Old', 'Room')]);
  it.deploy(newer);
  it.rollBack(before);
  assert.deepEqual(it.deploy(old), { Old: 'id1' });
  assert.deepEqual(it.deploy(newer), { Room: 'id1' }, 'and goes forward again');
});

test('a reverted commit finds the storage that a rename moved', () => {
  const it = app();
  const old = bundleOf(['Old'], [made('v1', 'Old')]);
  it.deploy(old);
  it.deploy(bundleOf(['Room'], [made('v1', 'Old'), renamed('v2', 'Old', 'Room')]));
  assert.deepEqual(it.deploy(old), { Old: 'id1' });
});

test('no two classes of a release share storage', () => {
  const it = app();
  it.deploy(bundleOf(['Old'], [made('v1', 'Old')]));
  const both = bundleOf(['Old', 'Room'], [made('v1', 'Old'), renamed('v2', 'Old', 'Room')]);
  assert.deepEqual(it.deploy(both), { Old: 'id2', Room: 'id1' });
});

test('a failed deploy changes no names', () => {
  const names = emptyNames();
  resolveNames(
    names,
    bundleOf(['Room'], [made('v1', 'Room')], { databases: [{ binding: 'DB', key: 'db', migrations: [] }] }),
    null,
    ids(),
  );
  assert.deepEqual(names, emptyNames());
});

test('a class has SQL unless a migration created it without', () => {
  const legacy: ClassMigration = { ...none, tag: 'v1', newClasses: ['Legacy'] };
  const bundle = bundleOf(['Legacy', 'Bare'], [legacy]);
  const { classes } = resolveNames(emptyNames(), bundle, null, ids());
  assert.deepEqual(
    classes.map(({ className, sql }) => [className, sql]),
    [
      ['Legacy', false],
      ['Bare', true],
    ],
  );
});

test('a class that only a migration names is part of the release while the Worker exports it', () => {
  const it = app();
  const unbound = { durableObjects: [] };
  assert.deepEqual(it.deploy(bundleOf(['Room'], [made('v1', 'Room')], unbound)), { Room: 'id1' });
  assert.deepEqual(it.deploy(bundleOf([], [made('v1', 'Room')])), {});
});

test('declared exports create, rename and keep classes on every deploy', () => {
  const it = app();
  it.deploy(bundleOf(['Old'], [made(null, 'Old')]));
  const declared = { ...renamed(null, 'Old', 'Room'), newSqliteClasses: ['Room'] };
  const room = it.deploy(bundleOf(['Room'], [declared]));
  assert.deepEqual(room, { Room: 'id1' });
  assert.deepEqual(it.deploy(bundleOf(['Room'], [declared])), room);
});

test('databases, namespaces and buckets keep their storage by key, whatever their bindings are named', () => {
  const newId = ids();
  const bundle = (binding: string) =>
    bundleOf([], [], {
      databases: [{ binding, key: 'main', migrations: [] }],
      namespaces: [{ binding, key: 'constructor' }],
      buckets: [{ binding, key: 'files' }],
    });
  // The names as an older Cellar, which had no buckets, stored them.
  const { buckets: _, ...before } = emptyNames();
  const first = resolveNames(before, bundle('A'), null, newId);
  assert.deepEqual(first.databases, [{ binding: 'A', storageId: 'id1', migrations: [] }]);
  assert.deepEqual(first.namespaces, [{ binding: 'A', storageId: 'id2' }]);
  assert.deepEqual(first.buckets, [{ binding: 'A', storageId: 'id3' }]);
  const second = resolveNames(first.names, bundle('B'), null, newId);
  assert.deepEqual(second.databases, [{ binding: 'B', storageId: 'id1', migrations: [] }]);
  assert.deepEqual(second.namespaces, [{ binding: 'B', storageId: 'id2' }]);
  assert.deepEqual(second.buckets, [{ binding: 'B', storageId: 'id3' }]);
});

test('a binding without an id keeps the storage that it had under another key', () => {
  const keyed = (key: string) => bundleOf([], [], { databases: [{ binding: 'DB', key, migrations: [] }] });
  const first = resolveNames(emptyNames(), keyed('shop-db'), null, ids());
  const live = first as unknown as Release;
  const second = resolveNames(first.names, keyed('DB'), live, () => 'new');
  assert.deepEqual(second.databases, first.databases);
  assert.deepEqual(second.names, first.names);
  const other = resolveNames(first.names, keyed('other-db'), live, () => 'new');
  assert.deepEqual(other.databases, [{ binding: 'DB', storageId: 'new', migrations: [] }]);
});

test('the storage of a deleted class is listed once, under every name that it had', () => {
  const bundle = (...classMigrations: ClassMigration[]) => bundleOf([], classMigrations);
  let n = 0;
  const newId = () => `id${++n}`;
  const history = [made('v1', 'A'), renamed('v2', 'A', 'B')];
  const first = resolveNames(emptyNames(), bundle(...history), null, newId).names;
  assert.equal('deletedClasses' in first, false);
  const second = resolveNames(first, bundle(...history, deleted('v3', 'B')), null, newId).names;
  assert.deepEqual(second.deletedClasses, { id1: 'B' });
  assert.deepEqual([second.classes, second.formerClasses], [{}, {}]);
  const again = resolveNames(
    second,
    bundle(...history, deleted('v3', 'B'), deleted('v4', 'B')),
    null,
    newId,
  ).names;
  assert.deepEqual(again.deletedClasses, { id1: 'B' });
});
