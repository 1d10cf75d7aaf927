// The data directory: its layout, its lock, and the secrets kept in it.
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { log, reason } from '../log.ts';

/** Unix socket paths may have 103 bytes on every system; this leaves room for `/run/<app id>/new/<socket>`. */
export const DATA_DIRECTORY_MAX = 65;

/** How long a claim waits for the command line, which looks at the lock for a moment. */
const CLAIM_TIMEOUT_MS = 100;

/**
 * The directories and files of a data directory, which is made (mode 0700), as absolute paths without symbolic links:
 * a build whose files lie elsewhere than its path says would seem to leave its project.
 * @throws {Error} that names the setting: when the directory cannot be made, or its path without links is too long for sockets
 */
export function layout(directory: string) {
  try {
    makeDirectory(directory);
  } catch (error) {
    throw new Error(
      `RUNNER_DATA_DIR: the directory ${directory} cannot be made (${reason(error)}); name one that this user may make and write to`,
    );
  }
  const root = realpathSync(directory);
  if (Buffer.byteLength(root) > DATA_DIRECTORY_MAX) {
    throw new Error(
      `RUNNER_DATA_DIR: ${directory} is really ${root}, and may have at most ${DATA_DIRECTORY_MAX} bytes, because Unix sockets lie below it; name a shorter directory`,
    );
  }
  return layoutOf(root);
}

/** Makes a directory and those above it. Node's own `recursive` never ends where the kernel makes none, as in `/proc`. */
function makeDirectory(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  if (dirname(path) !== path) makeDirectory(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Somebody else has made it meanwhile.
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

/** The same of a directory that is there, by a path that is short enough. */
export function layoutOf(root: string) {
  const { dev, ino } = statSync(root);
  return {
    root,
    /** Names what this Cellar has outside the directory, such as control groups. No other one on this machine has the same. */
    machineName: `cellar-${createHash('sha256').update(`${dev}:${ino}:${root}`).digest('hex').slice(0, 12)}`,
    /** Tells this directory from a copy of it. Not by its device, whose number may change with a restart of the machine. */
    place: `${ino}:${root}`,
    lock: join(root, 'host.lock'),
    pid: join(root, 'host.pid'),
    /** Where the API answers, while it does. The command line sends the token there. */
    address: join(root, 'api-address'),
    token: join(root, 'token'),
    apiKey: join(root, 'api-key'),
    alertKey: join(root, 'alert-key'),
    /** Encrypts the secrets of apps, which lie in the database. */
    secretsKey: join(root, 'secrets-key'),
    /** Signs who is signed in to the control UI. */
    signInKey: join(root, 'sign-in-key'),
    database: join(root, 'host.sqlite'),
    control: join(root, 'control'),
    /** The database of sign-in: like the control plane's, a part of what there is about people. */
    signIn: join(root, 'control', 'sign-in'),
    /** The program, files and socket of the control UI. */
    ui: join(root, 'ui'),
    hooks: join(root, 'hooks'),
    repositories: join(root, 'repos'),
    repository: (appId: string) => `${root}/repos/${appId}.git`,
    allReleases: join(root, 'releases'),
    releases: (appId: string) => `${root}/releases/${appId}`,
    release: (appId: string, deployId: string) => `${root}/releases/${appId}/${deployId}`,
    data: (appId: string) => `${root}/data/${appId}`,
    allBuckets: join(root, 'buckets'),
    /** An app's buckets, and the socket at which it reaches them. */
    buckets: (appId: string) => `${root}/buckets/${appId}`,
    /** Sockets of buckets are made here. */
    doors: join(root, 'doors'),
    /** Where the streams of children come together. */
    spawner: join(root, 'spawner'),
    runs: join(root, 'run'),
    run: (appId: string) => `${root}/run/${appId}`,
    caches: join(root, 'caches'),
    cache: (appId: string) => `${root}/caches/${appId}`,
    /**
     * What is made of our own code once: the handlers, bundled, and what the host, the bundler and the process of snapshots
     * have compiled. `../start.js` makes it, and decides whether it is used: see `compiledDirectory`.
     */
    compiled: join(root, 'compiled'),
    builds: join(root, 'builds'),
    build: (appId: string) => `${root}/builds/${appId}`,
    /** What Wrangler uploads, until it is deployed. */
    uploads: join(root, 'uploads'),
    trash: join(root, 'trash'),
    snapshots: join(root, 'snapshots'),
    /** What a snapshot that is being taken needs. */
    snapshotting: join(root, 'snapshotting'),
    /** What is restored lies here until it is whole. */
    restoring: join(root, 'restoring'),
    diskReserve: join(root, 'ballast'),
    caddy: join(root, 'caddy'),
    accessLog: join(root, 'log', 'access.ndjson'),
    telemetry: join(root, 'telemetry'),
  };
}
export type Layout = ReturnType<typeof layout>;

/** Locks of this process. One that nothing names would be let go when its memory is collected. */
const held = new Set<Database.Database>();

/**
 * Claims the directory for this process until the returned function is called or the process ends. The claim is a
 * SQLite lock, which the kernel lets go with its owner: no stale one can be left.
 * @throws {Error} naming the owner when another host has it
 */
export function claim(paths: Layout): () => void {
  const lock = openLock(paths);
  try {
    // No journal in a file: claiming must need no room on the disk.
    lock.pragma('journal_mode = MEMORY');
    lock.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    lock.close();
    if ((error as { code?: string }).code !== 'SQLITE_BUSY') throw error;
    throw new Error(`${paths.root} belongs to another Cellar, process ${ownerOf(paths)}; stop it first`);
  }
  held.add(lock);
  // Left by a host that was killed.
  rmSync(paths.address, { force: true });
  try {
    writeAtomic(paths.pid, `${process.pid}\n`);
  } catch (error) {
    // It tells people whose the directory is; the claim is the lock.
    log('warn', 'the process id of the host could not be written', { error: reason(error) });
  }
  return () => {
    rmSync(paths.pid, { force: true });
    held.delete(lock);
    lock.close();
  };
}

/** @throws {Error} that names the setting when nothing can be written there */
function openLock({ root, lock }: Layout): Database.Database {
  try {
    return new Database(lock, { timeout: CLAIM_TIMEOUT_MS });
  } catch (error) {
    throw new Error(`RUNNER_DATA_DIR: ${root} cannot be written to (${reason(error)})`);
  }
}

function ownerOf(paths: Layout): string {
  try {
    return readFileSync(paths.pid, 'utf8').trim();
  } catch {
    return 'unknown';
  }
}

/** The directories in which each app has one that its users need. */
export function directoriesOfUsers(paths: Layout): string[] {
  return ['buckets', 'builds', 'caches', 'data', 'releases', 'run'].map((name) => join(paths.root, name));
}

/**
 * Lets other users pass through to what apps' builds and processes need, which is made, and closes everything else.
 * What lies in there is closed to all but its app's users.
 */
export function openToUsers(paths: Layout): void {
  const open = directoriesOfUsers(paths);
  for (const path of open) mkdirSync(path, { recursive: true });
  for (const entry of readdirSync(paths.root, { withFileTypes: true })) {
    const path = join(paths.root, entry.name);
    if (open.includes(path)) chmodSync(path, 0o711);
    // Closed now, what others may have written there would seem good to the next start.
    else if (path !== paths.compiled && !entry.isSymbolicLink())
      chmodSync(path, entry.isDirectory() ? 0o700 : 0o600);
  }
  chmodSync(paths.root, 0o711);
}

/** The secret kept in `path`, made (256 bits, with `prefix`) when there is none. Mode 0600. */
export function keptSecret(path: string, prefix = ''): string {
  try {
    const kept = readFileSync(path, 'utf8').trim();
    if (kept !== '') return kept;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const made = prefix + randomBytes(32).toString('base64url');
  writeAtomic(path, `${made}\n`);
  return made;
}

/** Writes a file unless it has that content: what is there already needs no room on the disk. Makes its directory. */
export function writeUnlessSame(path: string, content: string, mode: number): void {
  try {
    if (readFileSync(path, 'utf8') === content && (statSync(path).mode & 0o777) === mode) return;
  } catch {
    // It is not there, or not to be read: it is written anew.
  }
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeAtomic(path, content, mode);
}

/** Writes a file whole or not at all, also through a power cut. */
export function writeAtomic(path: string, content: string, mode = 0o600): void {
  const beside = `${path}.new`;
  const file = openSync(beside, 'w', mode);
  try {
    writeSync(file, content);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(beside, path);
  const directory = openSync(dirname(path), 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
