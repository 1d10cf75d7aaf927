// Runs one task on an app's storage in a workerd process of its own, such as D1 migrations. The files and the SQL come from
// the app's author, so the task may loop for ever.
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AppCluster } from '../../bucket/app-cluster.ts';
import type { User } from '../../isolation/users.ts';
import { askSocket } from '../../sockets/ask-socket.ts';
import { configText, type Fields } from '../config/capnp.ts';
import { type ClusterSettings, clusterField } from '../config/cluster/cluster.ts';
import type { Cell } from './cell.ts';
import { lineSink } from './cell-output.ts';
import { startCell } from './start-cell.ts';

/** Who runs a task, and where. */
export interface TaskPlace {
  workerd: string;
  /** The user that runs it; `null`: the host's own. */
  user: User | null;
  /** Memory that the process may use, in MiB. */
  memoryMb: number;
  /** The release's directory. */
  directory: string;
  /** The app's storage. */
  dataDirectory: string;
  runDirectory: string;
  /** The app's cluster; left out for an app whose data is on this machine. */
  cluster?: AppCluster | undefined;
}

interface Task {
  /** Name of the task's socket, unique among the app's processes. */
  name: string;
  /** The task's name in messages. */
  what: string;
  /** The services of its config. `app` answers the calls. A binding to the service `release` reads the release's files. */
  services: Fields[];
  /** Names of the storage directories that the task writes; empty if it needs no exclusive access to the storage. */
  disks: string[];
  signal: AbortSignal;
}

/** Maximum size of an answer, in bytes. An answer has names of migrations, or one message. */
const ANSWER_BYTES = 1024 * 1024;
/** How long a process may take to end after it has closed its connection, in ms. */
const EXIT_MS = 2_000;

/**
 * Starts a process, lets `use` call its Worker, and ends it.
 * @throws {Error} when it does not start, ends early, or answers with a status other than 200
 */
export async function withTask<T>(
  place: TaskPlace,
  task: Task,
  use: (ask: (path: string, body: string) => Promise<unknown>) => Promise<T>,
): Promise<T> {
  const cell = await start(place, task);
  try {
    return await use((path, body) => ask(cell, task, path, body));
  } finally {
    if (task.signal.aborted) cell.kill();
    await cell.stop();
  }
}

async function ask(cell: Cell, { name, what, signal }: Task, path: string, body: string): Promise<unknown> {
  const request = { method: 'POST', limitBytes: ANSWER_BYTES, path, body, signal };
  const answered = askSocket(cell.socketPath(name), request).then(({ status, text }) => {
    if (text === null) throw new Error(`${what} failed, with an error of more than ${ANSWER_BYTES} bytes`);
    if (status !== 200) throw new Error(`${what} failed: ${text}`);
    return JSON.parse(text) as unknown;
  });
  const ended = cell.exited.then(({ reason }) => Promise.reject(new Error(`${what} failed: ${reason}`)));
  // An ending process closes its connections before it exits, and only the exit has the reason. So wait for the exit.
  const explained = answered.catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== undefined && !signal.aborted)
      await Promise.race([ended, sleep(EXIT_MS, undefined, { signal })]);
    throw error;
  });
  return Promise.race([explained, ended]);
}

async function start(place: TaskPlace, { name, services, disks, signal }: Task): Promise<Cell> {
  const { dataDirectory, cluster, ...options } = place;
  const own = disks.length > 0 ? cluster : undefined;
  const directory = join(place.runDirectory, name);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const config = join(directory, `${name}.capnp`);
  await writeFile(config, configOf({ name, services, disks }, own?.settings ?? null));
  try {
    return await startCell({
      ...options,
      config,
      disks: Object.fromEntries(disks.map((disk) => [disk, join(dataDirectory, disk)])),
      sockets: [name],
      ownsStorage: disks.length > 0,
      cluster: own,
      output: lineSink(() => {}),
      signal,
    });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function configOf(
  { name, services, disks }: Pick<Task, 'name' | 'services' | 'disks'>,
  cluster: ClusterSettings | null,
): string {
  return configText({
    structuredLogging: true,
    ...clusterField(cluster),
    services: [
      ...disks.map((disk) => ({ name: disk, disk: { writable: true } })),
      // The process reads the release's files itself, because the host cannot limit their number and size.
      { name: 'release', disk: { path: '.', allowDotfiles: true } },
      { name: 'internet', network: { allow: [] } },
      ...services,
    ],
    sockets: [{ name, http: {}, service: 'app' }],
  });
}
