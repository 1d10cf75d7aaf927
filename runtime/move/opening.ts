// A process that opens Durable Objects of an app in the bucket, without the app's code.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { AppCluster } from '../bucket/app-cluster.ts';
import { removeTree } from '../disk/remove.ts';
import { SERVICE_DATE } from '../fleets/config/bundled-services.ts';
import type { Fields } from '../fleets/config/capnp.ts';
import { textOf } from '../fleets/config/texts.ts';
import { withTask } from '../fleets/process/task-cell.ts';
import type { User } from '../isolation/users.ts';
import { aborted } from '../threads/aborted.ts';

const MODULE = textOf(new URL('./open-worker.js', import.meta.url).href);
const TASK = 'move';
/** Timeout of one batch of objects, in ms. */
const OPEN_MS = 10 * 60_000;

/** Where the process runs, and as which user. */
export interface OpeningPlace {
  workerd: string;
  user: User | null;
  memoryMb: number;
  runDirectory: string;
}

/** Ids of objects by the unique key of their namespace. */
export type Objects = Record<string, string[]>;

/**
 * Objects to open, by the unique key of their namespace. A known name is used instead of the id, because workerd stores the
 * name with the object's alarm.
 */
export type Wanted = Record<string, (string | { id: string })[]>;

export interface Opening {
  /** The directory with a folder for each unique key, which has the files of opened objects. */
  directory: string;
  /** Opens objects, and creates one in each namespace of `fresh`. @returns the ids of the created ones, by unique key */
  open: (objects: Wanted, fresh?: string[]) => Promise<Record<string, string>>;
}

/**
 * Calls `use` with a process that has these namespaces. Nothing else may use the app's data.
 * @throws {Error} when the process does not start, or ends early
 */
export async function withOpening<T>(
  place: OpeningPlace,
  cluster: AppCluster,
  keys: string[],
  signal: AbortSignal,
  use: (opening: Opening) => Promise<T>,
): Promise<T> {
  const directory = join(place.runDirectory, 'moving');
  await removeTree(directory);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  try {
    const task = { name: TASK, what: 'the move', services: services(keys), disks: ['do'], signal };
    return await withTask({ ...place, directory, dataDirectory: directory, cluster }, task, (ask) =>
      use({
        directory: join(directory, 'do'),
        open: async (objects, fresh = []) => {
          const late = aborted(AbortSignal.timeout(OPEN_MS));
          const made = await Promise.race([ask('/', JSON.stringify({ objects, fresh })), late]);
          return made as Record<string, string>;
        },
      }),
    );
  } finally {
    await removeTree(directory);
  }
}

/** Returns a service for each namespace, because a class of a service belongs to only one namespace. */
function services(keys: string[]): Fields[] {
  const worker = { modules: [{ name: 'open.js', esModule: MODULE }], compatibilityDate: SERVICE_DATE };
  return [
    {
      name: 'app',
      worker: {
        ...worker,
        bindings: keys.map((key, at) => ({
          name: key,
          durableObjectNamespace: { className: 'Opened', serviceName: `namespace-${at}` },
        })),
      },
    },
    ...keys.map((key, at) => ({
      name: `namespace-${at}`,
      worker: {
        ...worker,
        durableObjectNamespaces: [
          // An evicted object's files may be removed before they are read.
          { className: 'Opened', uniqueKey: key, enableSql: true, preventEviction: true },
        ],
        durableObjectStorage: { localDisk: 'do' },
      },
    })),
  ];
}
