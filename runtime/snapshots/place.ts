// Where snapshots go, as the settings say.
import type { Config } from '../config.ts';
import type { Layout } from '../machine/data-directory.ts';
import { DirectoryStore } from './directory-store.ts';
import type { Store } from './store.ts';

/** Says which store to open. It crosses to the process that takes snapshots, as JSON. */
export interface StorePlace {
  directory: string;
}

/** @returns a directory of the data directory when no other place is set */
export function storePlace({ RUNNER_SNAPSHOT_URL }: Config, paths: Layout): StorePlace {
  return { directory: RUNNER_SNAPSHOT_URL || paths.snapshots };
}

export function openStore({ directory }: StorePlace): Store {
  return new DirectoryStore(directory);
}
