// Assigns permanent storage ids: a deploy may rename classes, databases and namespaces, but must not lose their data.
import type { Bundle, ClassMigration, Release } from '../../bundler/release.ts';

/** Storage of a Durable Object class. `id` is workerd's `uniqueKey`. `sql`: whether `ctx.storage.sql` works. */
export interface ClassStorage {
  id: string;
  sql: boolean;
}

/** An app's storage ids, stored by the host as JSON. A deploy's new ids are stored when the deploy goes live. */
export interface StorageNames {
  /** Tags of the class migrations applied so far. */
  appliedTags: string[];
  classes: Record<string, ClassStorage>;
  /** Storage by the names that classes had before a migration renamed them, for a rollback to older code. */
  formerClasses: Record<string, ClassStorage>;
  /** Storage ids by `Bundle.databases[].key`. */
  databases: Record<string, string>;
  /** Storage ids by `Bundle.namespaces[].key`. */
  namespaces: Record<string, string>;
  /** Storage ids by `Bundle.buckets[].key`. Left out by an older version of Cellar. */
  buckets?: Record<string, string>;
  /** Storage ids by `Bundle.vectorIndexes[].key`. Left out while the app has none. */
  vectorIndexes?: Record<string, string>;
  /** Names of deleted classes by storage id. Their data is removed once the live release no longer has the classes. */
  deletedClasses?: Record<string, string>;
}

/** Returns the storage names of a new app. */
export function emptyNames(): StorageNames {
  return { appliedTags: [], classes: {}, formerClasses: {}, databases: {}, namespaces: {}, buckets: {} };
}

/**
 * Assigns a storage id to everything in `bundle` that stores data.
 * @param live the live release; null without one. Older code that is pushed after a rollback takes class ids from it
 * @param newId makes a new id
 * @returns the names to store once the deploy is live, and the release's parts that name storage
 */
export function resolveNames(
  current: StorageNames,
  bundle: Bundle,
  live: Release | null,
  newId: () => string,
): { names: StorageNames } & Pick<
  Release,
  'classes' | 'durableObjects' | 'databases' | 'namespaces' | 'buckets' | 'vectorIndexes'
> {
  const names = toMaps(current);
  for (const migration of bundle.classMigrations.slice(appliedTogether(names, bundle))) {
    if (migration.tag === null || !names.appliedTags.has(migration.tag))
      applyMigration(names, migration, newId);
  }
  return {
    classes: resolveClasses(names, bundle, live, newId),
    durableObjects: bundle.durableObjects,
    databases: withIds(bundle.databases, names.databases, live?.databases, newId),
    namespaces: withIds(bundle.namespaces, names.namespaces, live?.namespaces, newId),
    ...(bundle.buckets && { buckets: withIds(bundle.buckets, names.buckets, live?.buckets, newId) }),
    ...(bundle.vectorIndexes && {
      vectorIndexes: withIds(bundle.vectorIndexes, names.vectorIndexes, live?.vectorIndexes, newId),
    }),
    names: fromMaps(names),
  };
}

/**
 * Returns how many of a bundle's migrations were applied by uploads. An upload has only its last tag, stored as `…v3`.
 * This stands for `v3` and all the project's migrations before it.
 */
function appliedTogether(names: Names, { classMigrations }: Bundle): number {
  return classMigrations.findLastIndex(({ tag }) => tag !== null && names.appliedTags.has(`…${tag}`)) + 1;
}

/** A mutable `StorageNames`, with maps: projects choose the keys, and `constructor` is a property of every object. */
interface Names {
  appliedTags: Set<string>;
  classes: Map<string, ClassStorage>;
  formerClasses: Map<string, ClassStorage>;
  databases: Map<string, string>;
  namespaces: Map<string, string>;
  buckets: Map<string, string>;
  vectorIndexes: Map<string, string>;
  deletedClasses: Map<string, string>;
}

function toMaps(names: StorageNames): Names {
  const {
    appliedTags,
    classes,
    formerClasses,
    databases,
    namespaces,
    buckets = {},
    vectorIndexes = {},
    deletedClasses = {},
  } = names;
  return {
    appliedTags: new Set(appliedTags),
    classes: new Map(Object.entries(classes)),
    formerClasses: new Map(Object.entries(formerClasses)),
    databases: new Map(Object.entries(databases)),
    namespaces: new Map(Object.entries(namespaces)),
    buckets: new Map(Object.entries(buckets)),
    vectorIndexes: new Map(Object.entries(vectorIndexes)),
    deletedClasses: new Map(Object.entries(deletedClasses)),
  };
}

function fromMaps(names: Names): StorageNames {
  const {
    appliedTags,
    classes,
    formerClasses,
    databases,
    namespaces,
    buckets,
    vectorIndexes,
    deletedClasses,
  } = names;
  return {
    appliedTags: [...appliedTags],
    classes: Object.fromEntries(classes),
    formerClasses: Object.fromEntries(formerClasses),
    databases: Object.fromEntries(databases),
    namespaces: Object.fromEntries(namespaces),
    buckets: Object.fromEntries(buckets),
    ...(vectorIndexes.size > 0 && { vectorIndexes: Object.fromEntries(vectorIndexes) }),
    ...(deletedClasses.size > 0 && { deletedClasses: Object.fromEntries(deletedClasses) }),
  };
}

/**
 * Replaces the keys of bindings by storage ids. A key that equals its binding may come from a configuration without an
 * id. If such a key is new, the binding keeps its storage in the live release, where `wrangler deploy` may have used
 * another key.
 */
function withIds<Bound extends { binding: string; key: string }>(
  bound: Bound[],
  ids: Map<string, string>,
  live: { binding: string; storageId: string }[] = [],
  newId: () => string,
): (Omit<Bound, 'key'> & { storageId: string })[] {
  return bound.map(({ key, ...rest }) => {
    const served = key === rest.binding ? live.find(({ binding }) => binding === key) : undefined;
    const storageId = ids.get(key) ?? served?.storageId ?? newId();
    if (storageId !== served?.storageId) ids.set(key, storageId);
    return { ...rest, storageId };
  });
}

function applyMigration(names: Names, migration: ClassMigration, newId: () => string): void {
  const { classes, formerClasses, deletedClasses } = names;
  const make = (className: string, sql: boolean) => {
    if (!classes.has(className)) classes.set(className, { id: newId(), sql });
    formerClasses.delete(className);
  };
  for (const className of migration.newClasses) make(className, false);
  for (const className of migration.newSqliteClasses) make(className, true);
  for (const { from, to } of migration.renamedClasses) {
    const storage = classes.get(from);
    if (storage === undefined) continue;
    classes.delete(from);
    classes.set(to, storage);
    formerClasses.delete(to);
    formerClasses.set(from, storage);
  }
  for (const className of migration.deletedClasses) {
    const id = classes.get(className)?.id;
    if (id !== undefined) {
      deletedClasses.set(id, className);
      // A rollback to a release before a rename must not find the deleted class.
      for (const [former, storage] of formerClasses) if (storage.id === id) formerClasses.delete(former);
    }
    classes.delete(className);
    formerClasses.delete(className);
  }
  if (migration.tag !== null) names.appliedTags.add(migration.tag);
}

/**
 * Returns a release's classes: those that are bound, and those with a storage id that the Worker exports. A class without
 * a storage id gets one. This is its id in the live release, else the id that it had before a rename. Without such an id,
 * or when another class uses it, this is a new id.
 */
function resolveClasses(
  names: Names,
  bundle: Bundle,
  live: Release | null,
  newId: () => string,
): Release['classes'] {
  const wanted = new Set(bundle.durableObjects.map(({ className }) => className));
  for (const className of names.classes.keys()) if (bundle.exports.includes(className)) wanted.add(className);
  const taken = new Set([...wanted].map((className) => names.classes.get(className)?.id));
  return [...wanted].map((className) => {
    let storage = names.classes.get(className);
    if (storage === undefined) {
      storage = earlierStorage(names, live, className).find(({ id }) => !taken.has(id));
      if (storage === undefined) {
        storage = { id: newId(), sql: true };
        names.classes.set(className, storage);
      }
      taken.add(storage.id);
    }
    return { className, storageId: storage.id, sql: storage.sql };
  });
}

function earlierStorage(names: Names, live: Release | null, className: string): ClassStorage[] {
  const served = live?.classes.find((entry) => entry.className === className);
  const former = names.formerClasses.get(className);
  return [...(served ? [{ id: served.storageId, sql: served.sql }] : []), ...(former ? [former] : [])];
}
