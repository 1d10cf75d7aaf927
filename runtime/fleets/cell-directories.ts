// A cell's directories, and its sockets, which the host takes out of its reach.
import { lstatSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { handOver, letRead, makeOwn } from '../users.ts';
import type { CellOptions } from './cell.ts';

/** Longest path of a unix socket that every system takes, in bytes. */
const SOCKET_PATH_BYTES = 103;
/** Longest time to give the storage of an app from before it had a user of its own to that user, in ms. */
const HAND_OVER_TIMEOUT_MS = 60_000;

/** Where the host finds a cell's socket. */
export function socketPath(runDirectory: string, socket: string): string {
  return join(runDirectory, `${socket}.sock`);
}

/** Where the cell makes it. Nothing is opened there: what lies in it is the cell's to change. */
export function newSocketPath(runDirectory: string, socket: string): string {
  const path = socketPath(join(runDirectory, 'new'), socket);
  if (Buffer.byteLength(path) <= SOCKET_PATH_BYTES) return path;
  throw new Error(
    `${path} is too long for a socket (${SOCKET_PATH_BYTES} bytes): choose a data directory with a shorter path`,
  );
}

/** What the process may read and write, and nobody else but the host. */
export async function makeCellDirectories({
  directory,
  disks,
  runDirectory,
  sockets,
  user,
}: CellOptions): Promise<void> {
  const own = [dirname(newSocketPath(runDirectory, '')), ...Object.values(disks)];
  for (const path of own) makeOwn(path, user);
  for (const socket of sockets) {
    for (const path of [newSocketPath, socketPath]) rmSync(path(runDirectory, socket), { force: true });
  }
  if (user === null) return;
  await handOver(own, user, HAND_OVER_TIMEOUT_MS);
  await letRead(directory, user);
}

/**
 * Takes a socket out of the cell's reach: what it puts in its place leads the host nowhere.
 * @throws {Error} when it is none
 */
export function takeSocket(runDirectory: string, socket: string): void {
  const path = socketPath(runDirectory, socket);
  renameSync(newSocketPath(runDirectory, socket), path);
  if (!lstatSync(path).isSocket()) throw new Error(`workerd made something else than a socket: ${path}`);
}
