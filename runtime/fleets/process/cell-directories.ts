// Creates the directories of a cell (an app's workerd process). Moves the cell's sockets to where the cell cannot replace
// them.
import { lstatSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { allowReading, changeOwner, makeOwnDirectory, renewOwnDirectory } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';

/** Where a cell runs, and as whom. */
export interface CellPlace {
  /** The user that runs it; `null`: the host's own. */
  user: User | null;
  /** The process's working directory. */
  directory: string;
  /** Path of the config. The process may read all of its directory. */
  config: string;
  /** Paths of the config's writable disks, by name. Created if missing; owned by the user. */
  disks: Record<string, string>;
  /** The directory of its sockets. Created if missing; only the host has access. */
  runDirectory: string;
  /** Names of the config's sockets. Socket `http` listens at `<runDirectory>/http.sock`. */
  sockets: string[];
}

/** Longest path of a unix socket on every supported system, in bytes. */
const SOCKET_PATH_BYTES = 103;
/** Time limit to give the files of an app's storage to the app's user, in ms. */
const HAND_OVER_TIMEOUT_MS = 60_000;

/** Returns the path where the host finds a cell's socket. */
export function socketPath(runDirectory: string, socket: string): string {
  return join(runDirectory, `${socket}.sock`);
}

function newDirectory(runDirectory: string): string {
  return join(runDirectory, 'new');
}

/** Returns the path where the cell creates a socket. The host opens nothing there: the cell can replace any file. */
export function newSocketPath(runDirectory: string, socket: string): string {
  const path = socketPath(newDirectory(runDirectory), socket);
  if (Buffer.byteLength(path) <= SOCKET_PATH_BYTES) return path;
  throw new Error(
    `${path} is too long for a socket (${SOCKET_PATH_BYTES} bytes): choose a data directory with a shorter path`,
  );
}

/** Returns the directories that the cell may change. */
export function ownDirectories({ disks, runDirectory }: Pick<CellPlace, 'disks' | 'runDirectory'>): string[] {
  return [newDirectory(runDirectory), ...Object.values(disks)];
}

/**
 * Creates the directories that only the cell and the host may use. Removes old sockets. Lets the cell's user read the
 * working directory and the config's directory.
 */
export async function makeCellDirectories({
  directory,
  config,
  disks,
  runDirectory,
  sockets,
  user,
}: CellPlace): Promise<void> {
  renewOwnDirectory(newDirectory(runDirectory), user);
  for (const path of Object.values(disks)) makeOwnDirectory(path, user);
  for (const socket of sockets) rmSync(socketPath(runDirectory, socket), { force: true });
  if (user === null) return;
  await changeOwner(Object.values(disks), user, HAND_OVER_TIMEOUT_MS);
  for (const path of new Set([directory, dirname(config)])) await allowReading(path, user);
}

/**
 * Moves a socket from `newSocketPath` to `socketPath`, where the cell cannot replace it.
 * @throws {Error} when the file is not a socket, or belongs to another user
 */
export function takeSocket({ runDirectory, user }: CellPlace, socket: string): void {
  const [made, path] = [newSocketPath(runDirectory, socket), socketPath(runDirectory, socket)];
  renameSync(made, path);
  const stat = lstatSync(path);
  if (stat.isSocket() && (user === null || stat.uid === user.uid)) return;
  renameSync(path, made);
  throw new Error(`workerd created a file that is not a socket: ${made}`);
}
