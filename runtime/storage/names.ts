// Storage ids that never change: what a project calls its classes, databases and namespaces may change with every
// deploy, where their data lies may not.
import type { Bundle, ClassMigration, Release } from '../../bundler/release.ts';

/** Where a class keeps its storage. `id` is workerd's `uniqueKey`; `sql`: whether `ctx.storage.sql` works. */
export interface ClassStorage {
  id: string;
  sql: boolean;
}

/** An app's storage ids, kept by the host as JSON. Replaced only when the deploy that made the new ones goes live. */
export interface StorageNames {
  /** Tags of the class migrations applied so far. */
  appliedTags: string[];
  classes: Record<string, ClassStorage>;
  /** Names that classes had before a migration renamed them, for code that goes back before it. */
  formerClasses: Record<string, ClassStorage>;
  /** By `Bundle.databases[].key`. */
  databases: Record<string, string>;
  /** By `Bundle.namespaces[].key`. */
  namespaces: Record<string, string>;
  /** By `Bundle.buckets[].key`. Left out by a Cellar that had none. */
  buckets?: Record<string, string>;
  /** Classes that the project has deleted, by storage id: their data goes once no release that serves has it. */
  deletedClasses?: Record<string, string>;
}

/** The names of an app that was never deployed. */
export function emptyNames(): StorageNames {
  return { appliedTags: [], classes: {}, formerClasses: {}, databases: {}, namespaces: {}, buckets: {} };
}

/**
 * Gives everything of `bundle` that keeps data its storage id.
 * @param live the release that serves now; its classes are found again after a rollback and a push of older code
 * @param newId makes a fresh id
 * @returns the names to keep once the deploy is live, and the parts of its release that name storage
 */
export function resolveNames(
  current: StorageNames,
  bundle: Bundle,
  live: Release | null,
  newId: () => string,
): { names: StorageNames } & Pick<
  Release,
  'classes' | 'durableObjects' | 'databases' | 'namespaces' | 'buckets'
> {
  const names = toMaps(current);
  for (const migration of bundle.classMigrations.slice(appliedTogether(names, bundle))) {
    if (migration.tag === null || !names.appliedTags.has(migration.tag))
      applyMigration(names, migration, newId);
  }
  return {
    classes: resolveClasses(names, bundle, live, newId),
    durableObjects: bundle.durableObjects,
    databases: bundle.databases.map(({ key, ...database }) => ({
      ...database,
      storageId: idOf(names.databases, key, newId),
    })),
    namespaces: bundle.namespaces.map(({ binding, key }) => ({
      binding,
      storageId: idOf(names.namespaces, key, newId),
    })),
    ...(bundle.buckets && {
      buckets: bundle.buckets.map(({ binding, key }) => ({
        binding,
        storageId: idOf(names.buckets, key, newId),
      })),
    }),
    names: fromMaps(names),
  };
}

/**
 * How many of a bundle's migrations were applied by uploads. An upload names the last tag alone, as `…v3`: that stands for
 * `v3` and all that a project has before it.
 */
function appliedTogether(names: Names, { classMigrations }: Bundle): number {
  return classMigrations.findLastIndex(({ tag }) => tag !== null && names.appliedTags.has(`…${tag}`)) + 1;
}

/** `StorageNames` while they change: projects choose the keys, and `constructor` is a property of every object. */
interface Names {
  appliedTags: Set<string>;
  classes: Map<string, ClassStorage>;
  formerClasses: Map<string, ClassStorage>;
  databases: Map<string, string>;
  namespaces: Map<string, string>;
  buckets: Map<string, string>;
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
    deletedClasses = {},
  } = names;
  return {
    appliedTags: new Set(appliedTags),
    classes: new Map(Object.entries(classes)),
    formerClasses: new Map(Object.entries(formerClasses)),
    databases: new Map(Object.entries(databases)),
    namespaces: new Map(Object.entries(namespaces)),
    buckets: new Map(Object.entries(buckets)),
    deletedClasses: new Map(Object.entries(deletedClasses)),
  };
}

function fromMaps(names: Names): StorageNames {
  const { appliedTags, classes, formerClasses, databases, namespaces, buckets, deletedClasses } = names;
  return {
    appliedTags: [...appliedTags],
    classes: Object.fromEntries(classes),
    formerClasses: Object.fromEntries(formerClasses),
    databases: Object.fromEntries(databases),
    namespaces: Object.fromEntries(namespaces),
    buckets: Object.fromEntries(buckets),
    ...(deletedClasses.size > 0 && { deletedClasses: Object.fromEntries(deletedClasses) }),
  };
}

function idOf(ids: Map<string, string>, key: string, newId: () => string): string {
  const id = ids.get(key) ?? newId();
  ids.set(key, id);
  return id;
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
      // Code that goes back before a rename finds nothing either.
      for (const [former, storage] of formerClasses) if (storage.id === id) formerClasses.delete(former);
    }
    classes.delete(className);
    formerClasses.delete(className);
  }
  if (migration.tag !== null) names.appliedTags.add(migration.tag);
}

/**
 * The classes of a release: those bound, and those a migration made that the Worker still exports. A class without a
 * name goes back to what the live release or an undone rename calls so, unless another class has that storage.
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
