// Finds out what a restore would change, while the app keeps running.

import type { StorageNames } from '../../storage/names.ts';
import { objectId } from '../../storage/object-id.ts';
import type { Compared, NamedStorage } from './compare.ts';
import { type ReplaceOptions, restoredObject, type Wanted } from './replace.ts';

/** Unique key of the objects of D1 databases. */
const DATABASES = 'D1Database';
/** Unique key of the objects of KV namespaces. */
const NAMESPACES = 'KVNamespace';

/** Returns what a restore would change. @throws {NotThere}, {Unusable} as the restore would; {Error} when the store fails */
export async function dryRun(
  { apps, snapshots, storageNames, users }: ReplaceOptions,
  { snapshot, app: id, database }: Wanted,
): Promise<Compared> {
  const names = storageNames(id);
  const app = {
    ...{ id, slug: apps.get(id)?.wanted.slug ?? id, liveDeployId: null, user: users(id).cell },
    isInBucket: apps.clusterOf(id) !== null,
  };
  const only = restoredObject(names, database);
  return snapshots.compare({ snapshot, app, only, storages: namedStorages(names) });
}

function namedStorages(names: Partial<StorageNames>): NamedStorage[] {
  const { databases = {}, namespaces = {}, classes = {}, deletedClasses = {} } = names;
  const single = (kind: 'database' | 'namespace', uniqueKey: string, ids: Record<string, string>) =>
    Object.entries(ids).map(([name, id]) => ({ kind, name, uniqueKey, object: objectId(uniqueKey, id) }));
  const many = (name: string, uniqueKey: string) =>
    ({ kind: 'class', name, uniqueKey, object: null }) as const;
  return [
    ...single('database', DATABASES, databases),
    ...single('namespace', NAMESPACES, namespaces),
    ...Object.entries(classes).map(([name, { id }]) => many(name, id)),
    ...Object.entries(deletedClasses).map(([id, name]) => many(name, id)),
  ];
}
