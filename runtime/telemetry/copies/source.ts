// Rows of telemetry that are copied to the bucket.
import type { CopyQueries } from '../../../sqlite/telemetry/copies.ts';
import type { CopiedRow } from './content.ts';

/** Folder of all copies, below the prefix of the bucket. */
export const COPIES = 'telemetry/';

const HOSTS = `${COPIES}hosts/`;

/** Returns the folder of a host's copies. @param host the host's id; null for the only host */
export function copiesOf(host: string | null): string {
  return host === null ? COPIES : `${HOSTS}${host}/`;
}

/** Returns the ids of the hosts that have a folder of copies. @param names of objects */
export function hostsWithCopies(names: string[]): Set<string> {
  const ofHosts = names.filter((name) => name.startsWith(HOSTS));
  return new Set(ofHosts.map((name) => name.slice(HOSTS.length).split('/')[0]!));
}

/** The other hosts and all apps, as one of several hosts knows them when it loads copies. */
export interface KnownHosts {
  /**
   * Ids of the other hosts that may come back with their rows. All others are lost: an empty host takes over their copies.
   */
  notLost: string[];
  /** Ids of all apps that exist. Rows of deleted apps are not taken over. */
  apps: string[];
}

/** The copies of one table. Its folder has folders of periods or ids, each with numbered objects. */
export interface CopySource {
  /** Such as `minutes/`, in the folder of the host's copies. */
  readonly table: string;
  /** Such as `telemetry/minutes/`. */
  readonly folder: string;
  readonly copies: CopyQueries;
  /** Returns the folders that may have changed since they were copied. */
  changed(now: number): string[];
  /** Yields the rows of a folder, one list for each object. The same rows always give the same lists. */
  parts(folder: string): Iterable<CopiedRow[]>;
  /** Called when all folders that the last call of `changed` returned are copied. */
  copied?(): void;
  /** Whether an object of the bucket is one of these copies. */
  has(name: string): boolean;
  /** Whether an object is too old to be kept. */
  isOld(name: string, now: number): boolean;
  /** Adds an object's rows to the table and stores its hash, in one transaction. The object may be of a lost host. */
  take(name: string, rows: CopiedRow[], hash: string): void;
  /** Called before the rows of an app are removed. */
  forget?(appId: string): void;
}
