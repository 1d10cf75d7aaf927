// A cell's directories, and its sockets, which the host takes out of its reach.
import { lstatSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { handOver, letRead, makeOwn, renewOwn } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';

/** Where a cell runs, and as whom. */
export interface CellPlace {
  /** Who runs it; `null`: the host's own user. */
  user: User | null;
  /** Where the process runs. */
  directory: string;
  /** Path of the config, in a directory of which the process may read everything. */
  config: string;
  /** Paths of the config's writable disks, by name. Made if missing, and the user's. */
  disks: Record<string, string>;
  /** Where its sockets go; made if missing, open to the host only. */
  runDirectory: string;
  /** Names of the config's sockets. Socket `http` listens at `<runDirectory>/http.sock`. */
  sockets: string[];
}

/** Longest path of a unix socket that every system takes, in bytes. */
const SOCKET_PATH_BYTES = 103;
/** Longest time to give the storage of an app from before it had a user of its own to that user, in ms. */
const HAND_OVER_TIMEOUT_MS = 60_000;

/** Where the host finds a cell's socket. */
export function socketPath(runDirectory: string, socket: string): string {
  return join(runDirectory, `${socket}.sock`);
}

function newDirectory(runDirectory: string): string {
  return join(runDirectory, 'new');
}

/** Where the cell makes it. Nothing is opened there: what lies in it is the cell's to change. */
export function newSocketPath(runDirectory: string, socket: string): string {
  const path = socketPath(newDirectory(runDirectory), socket);
  if (Buffer.byteLength(path) <= SOCKET_PATH_BYTES) return path;
  throw new Error(
    `${path} is too long for a socket (${SOCKET_PATH_BYTES} bytes): choose a data directory with a shorter path`,
  );
}

/** The directories that are a cell's to change. */
export function ownDirectories({ disks, runDirectory }: Pick<CellPlace, 'disks' | 'runDirectory'>): string[] {
  return [newDirectory(runDirectory), ...Object.values(disks)];
}

/** What the process may read and write, and nobody else but the host. */
export async function makeCellDirectories({
  directory,
  config,
  disks,
  runDirectory,
  sockets,
  user,
}: CellPlace): Promise<void> {
  renewOwn(newDirectory(runDirectory), user);
  for (const path of Object.values(disks)) makeOwn(path, user);
  for (const socket of sockets) rmSync(socketPath(runDirectory, socket), { force: true });
  if (user === null) return;
  await handOver(Object.values(disks), user, HAND_OVER_TIMEOUT_MS);
  for (const path of new Set([directory, dirname(config)])) await letRead(path, user);
}

/**
 * Moves a socket out of the cell's reach: whatever the cell puts in its place, the host does not follow it.
 * @throws {Error} when the file is no socket, or belongs to another user
 */
export function takeSocket({ runDirectory, user }: CellPlace, socket: string): void {
  const [made, path] = [newSocketPath(runDirectory, socket), socketPath(runDirectory, socket)];
  renameSync(made, path);
  const stat = lstatSync(path);
  if (stat.isSocket() && (user === null || stat.uid === user.uid)) return;
  renameSync(path, made);
  throw new Error(`workerd made something else than a socket: ${made}`);
}
