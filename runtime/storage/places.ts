// Where an app keeps what: from the names that its owner knows to the files that workerd has.
import { createHash, createHmac } from 'node:crypto';
import { join } from 'node:path';
import type { QueueConsumer, Release, Workflow } from '../../bundler/release.ts';
import type { StorageNames } from './names.ts';

/**
 * Something that keeps data. `id`: what never changes of its names for the owner. `name`, `binding`: those of the live release;
 * null when it has none.
 */
export interface Stored {
  id: string;
  name: string | null;
  binding: string | null;
  storageId: string;
}

/** All that an app's releases have made so far. */
export interface Places {
  databases: Stored[];
  namespaces: Stored[];
  buckets: Stored[];
  classes: { className: string; storageId: string }[];
  queues: string[];
  /** Queues of the live release that it sends to. */
  producers: string[];
  consumers: QueueConsumer[];
  /** Those that the live release binds. */
  workflows: Workflow[];
}

/** @param release the live one, if there is one */
export function placesOf(names: StorageNames, release: Release | null): Places {
  const { triggers, classes = [] } = release ?? {};
  const kept = new Map(Object.entries(names.classes).map(([className, { id }]) => [className, id]));
  for (const { className, storageId } of classes) kept.set(className, storageId);
  const queues = [...(triggers?.producers ?? []), ...(triggers?.consumers ?? [])].map(({ queue }) => queue);
  return {
    databases: stored(names.databases, release?.databases),
    namespaces: stored(names.namespaces, release?.namespaces),
    buckets: stored(names.buckets ?? {}, release?.buckets),
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

/** The one that a caller means by its id, its binding or its name. */
export function find(all: Stored[], asked: string): Stored | undefined {
  return (
    all.find(({ id }) => id === asked) ??
    all.find(({ binding }) => binding === asked) ??
    all.find(({ name }) => name === asked)
  );
}

/** The file of an object. @param data the app's data directory */
export function objectFile(data: string, uniqueKey: string, objectId: string): string {
  return join(data, 'do', uniqueKey, `${objectId}.sqlite`);
}

/** The id of an object that was made by name, as workerd makes it. */
export function objectId(uniqueKey: string, name: string): string {
  const key = createHash('sha256').update(uniqueKey).digest();
  const half = (of: string | Buffer) => createHmac('sha256', key).update(of).digest().subarray(0, 16);
  const first = half(name);
  return Buffer.concat([first, half(first)]).toString('hex');
}
