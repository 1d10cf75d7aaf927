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
}

/** The names of an app that was never deployed. */
export function emptyNames(): StorageNames {
  return { appliedTags: [], classes: {}, formerClasses: {}, databases: {}, namespaces: {} };
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
): { names: StorageNames } & Pick<Release, 'classes' | 'durableObjects' | 'databases' | 'namespaces'> {
  const names = structuredClone(current);
  for (const migration of bundle.classMigrations) {
    if (!names.appliedTags.includes(migration.tag)) applyMigration(names, migration, newId);
  }
  const classes = resolveClasses(names, bundle, live, newId);
  const keyed = (ids: Record<string, string>, key: string) => (ids[key] ??= newId());
  return {
    classes,
    durableObjects: bundle.durableObjects,
    databases: bundle.databases.map(({ binding, key, migrations }) => ({
      binding,
      storageId: keyed(names.databases, key),
      migrations,
    })),
    namespaces: bundle.namespaces.map(({ binding, key }) => ({
      binding,
      storageId: keyed(names.namespaces, key),
    })),
    names,
  };
}

function applyMigration(names: StorageNames, migration: ClassMigration, newId: () => string): void {
  const make = (className: string, sql: boolean) => {
    names.classes[className] ??= { id: newId(), sql };
    delete names.formerClasses[className];
  };
  for (const className of migration.newClasses) make(className, false);
  for (const className of migration.newSqliteClasses) make(className, true);
  for (const { from, to } of migration.renamedClasses) {
    const storage = names.classes[from];
    if (storage === undefined) continue;
    delete names.classes[from];
    names.classes[to] = storage;
    names.formerClasses[from] = storage;
    delete names.formerClasses[to];
  }
  for (const className of migration.deletedClasses) {
    delete names.classes[className];
    delete names.formerClasses[className];
  }
  names.appliedTags.push(migration.tag);
}

/**
 * The classes of a release: those bound, and those a migration made that the Worker still exports. A class without a
 * name goes back to what the live release or an undone rename calls so, unless another class has that storage.
 */
function resolveClasses(
  names: StorageNames,
  bundle: Bundle,
  live: Release | null,
  newId: () => string,
): Release['classes'] {
  const wanted = new Set(bundle.durableObjects.map(({ className }) => className));
  for (const className of Object.keys(names.classes))
    if (bundle.exports.includes(className)) wanted.add(className);
  const taken = new Set([...wanted].map((className) => names.classes[className]?.id));
  return [...wanted].map((className) => {
    let storage = names.classes[className];
    if (storage === undefined) {
      storage = earlierStorage(names, live, className).find(({ id }) => !taken.has(id));
      storage ??= names.classes[className] = { id: newId(), sql: true };
      taken.add(storage.id);
    }
    return { className, storageId: storage.id, sql: storage.sql };
  });
}

function earlierStorage(names: StorageNames, live: Release | null, className: string): ClassStorage[] {
  const served = live?.classes.find((entry) => entry.className === className);
  const former = names.formerClasses[className];
  return [...(served ? [{ id: served.storageId, sql: served.sql }] : []), ...(former ? [former] : [])];
}
