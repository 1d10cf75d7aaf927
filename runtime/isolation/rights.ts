// Owners and permissions of the files in a data directory.
import { chmodSync, chownSync, mkdirSync, renameSync, rmdirSync, statSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { log, reason } from '../log.ts';
import { endFirst, limited } from '../resources/limited.ts';
import { run, runAs, type User } from './users.ts';

/** Number of files to change before yielding to the event loop. */
const ENTRIES_AT_ONCE = 256;
/** Timeout for removing a user's files, in ms. */
const REMOVE_TIMEOUT_MS = 60_000;
/** For chown: keeps the owner. */
const SAME = -1;
/** Owner and group may pass through the directory; the group cannot list it. */
const PASSED_BY_GROUP = 0o710;

/** Makes a user the owner of directories and their contents. Skips directories that the user owns already. */
export async function changeOwner(
  directories: string[],
  { uid, gid }: User,
  timeoutMs: number,
): Promise<void> {
  const foreign = directories.filter((path) => statSync(path).uid !== uid);
  if (foreign.length === 0) return;
  // Changes a symbolic link itself, not its target.
  await run([...limited(), 'chown', '-R', '-h', '-P', `${uid}:${gid}`, '--', ...foreign], timeoutMs);
}

/** Makes a directory of the host, if missing. Besides the host, only the group of `user` may pass through it. */
export function makeTraversable(directory: string, user: User | null): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (user === null) return;
  const { gid, mode } = statSync(directory);
  if (gid === user.gid && (mode & 0o777) === PASSED_BY_GROUP) return;
  chownSync(directory, SAME, user.gid);
  chmodSync(directory, PASSED_BY_GROUP);
}

/** Lets only `user` connect to a socket of the host. */
export function giveSocket(path: string, user: User | null): void {
  if (user !== null) chownSync(path, user.uid, user.gid);
  chmodSync(path, 0o600);
}

/** Makes a directory that `user` owns, if missing, inside a directory of the host. */
export function makeOwnDirectory(directory: string, user: User | null): void {
  makeTraversable(dirname(directory), user);
  const isNew = mkdirSync(directory, { recursive: true, mode: 0o700 }) !== undefined;
  if (isNew && user !== null) chownSync(directory, user.uid, user.gid);
  // Root owns the directory while apps have no users. Later `changeOwner` sees that by this owner, and changes all contents.
  else if (user === null && process.getuid?.() === 0) chownSync(directory, 0, 0);
}

/** Makes an empty directory that `user` owns. The old contents are removed in the background. */
export function renewOwnDirectory(directory: string, user: User | null): void {
  removeOwnDirectory(directory, user);
  makeOwnDirectory(directory, user);
}

/** Removes a directory of `user`, if it exists: it disappears at once, its contents later. */
export function removeOwnDirectory(directory: string, user: User | null): void {
  if (removeEmpty(directory)) return;
  const aside = `${directory}-${Date.now()}`;
  renameSync(directory, aside);
  removeOwnDirectories([aside], user).catch((error: unknown) =>
    log('warn', 'files of an app could not be removed', { path: aside, error: reason(error) }),
  );
}

/** Lets the group of `user` read a directory of the host with its contents. Does nothing if it may already. */
export async function allowReading(directory: string, user: User): Promise<void> {
  makeTraversable(dirname(directory), user);
  if (statSync(directory).gid === user.gid) return;
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  for (const [index, entry] of entries.entries()) {
    const mode = entry.isDirectory() ? 0o750 : 0o640;
    if (entry.isDirectory() || entry.isFile()) grant(join(entry.parentPath, entry.name), mode, user);
    if (index % ENTRIES_AT_ONCE === 0) await setImmediate();
  }
  // The directory itself comes last, because its group shows that all contents are done. An interrupted run starts again.
  grant(directory, 0o750, user);
}

/**
 * Removes directories of `user`. Runs as that user: the user could replace an entry with a link meanwhile, which root would
 * follow.
 * @throws {Error} when a directory could not be removed
 */
export async function removeOwnDirectories(directories: string[], user: User | null): Promise<void> {
  const full = directories.filter((path) => !removeEmpty(path));
  if (user === null) for (const path of full) await rm(path, { recursive: true });
  else if (full.length > 0) {
    await runAs(user, [...endFirst(), 'find', '-P', ...full, '-mindepth', '1', '-delete'], REMOVE_TIMEOUT_MS);
    for (const path of full) rmdirSync(path);
  }
}

/** @returns whether the directory is gone */
function removeEmpty(directory: string): boolean {
  try {
    rmdirSync(directory);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOTEMPTY' && code !== 'ENOENT') throw error;
    return code === 'ENOENT';
  }
}

function grant(path: string, mode: number, { gid }: User): void {
  chmodSync(path, mode);
  chownSync(path, SAME, gid);
}
