// Maps the owner's names of storage to workerd's files.
import { join } from 'node:path';
import type { QueueConsumer, Release, Workflow } from '../../bundler/release.ts';
import type { StorageNames } from './names.ts';

/** A database, namespace, bucket or vector index. */
export interface Stored {
  /** The permanent name that the owner sees. */
  id: string;
  /** The name in the live release; null when it has none. */
  name: string | null;
  /** The binding in the live release; null when it has none. */
  binding: string | null;
  /** The name from which workerd or a service derives the files. */
  storageId: string;
}

/** An app's storage, from all its releases. Queues and Workflows are only those of the live release. */
export interface Places {
  databases: Stored[];
  namespaces: Stored[];
  buckets: Stored[];
  vectorIndexes: Stored[];
  classes: { className: string; storageId: string }[];
  queues: string[];
  /** Queues that the live release sends to. */
  producers: string[];
  consumers: QueueConsumer[];
  /** Workflows of the live release. */
  workflows: Workflow[];
}

/** Returns an app's storage. @param release the live release; null for none */
export function placesOf(names: StorageNames, release: Release | null): Places {
  const { triggers, classes = [] } = release ?? {};
  const kept = new Map(Object.entries(names.classes).map(([className, { id }]) => [className, id]));
  for (const { className, storageId } of classes) kept.set(className, storageId);
  const queues = [...(triggers?.producers ?? []), ...(triggers?.consumers ?? [])].map(({ queue }) => queue);
  return {
    databases: stored(names.databases, release?.databases),
    namespaces: stored(names.namespaces, release?.namespaces),
    buckets: stored(names.buckets ?? {}, release?.buckets),
    vectorIndexes: stored(names.vectorIndexes ?? {}, release?.vectorIndexes),
    classes: [...kept].map(([className, storageId]) => ({ className, storageId })),
    queues: [...new Set(queues)],
    producers: (triggers?.producers ?? []).map(({ queue }) => queue),
    consumers: triggers?.consumers ?? [],
    workflows: release?.workflows ?? [],
  };
}

function stored(
  names: Record<string, string>,
  bound: { binding: string; storageId: string; name?: string }[] = [],
): Stored[] {
  return Object.entries(names).map(([id, storageId]) => {
    const { name = null, binding = null } = bound.find((each) => each.storageId === storageId) ?? {};
    return { id, storageId, name, binding };
  });
}

/** Finds a storage by its id, else by its binding, else by its name. */
export function find(all: Stored[], asked: string): Stored | undefined {
  return (
    all.find(({ id }) => id === asked) ??
    all.find(({ binding }) => binding === asked) ??
    all.find(({ name }) => name === asked)
  );
}

/** Returns the file of an object. @param data the app's data directory */
export function objectFile(data: string, uniqueKey: string, objectId: string): string {
  return join(data, 'do', uniqueKey, `${objectId}.sqlite`);
}
