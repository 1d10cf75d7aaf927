// The data directory: its layout, its lock and its secrets.
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

/**
 * Maximum bytes of the directory's path. A path of a Unix socket may have 103 bytes on every supported system. The rest is
 * for `/run/<app id>/new/<socket>`.
 */
export const DATA_DIRECTORY_MAX = 65;

/** Timeout for the lock, in ms. The command line (`cli/login-file.ts`) holds it briefly to see whether a host runs. */
const CLAIM_TIMEOUT_MS = 100;

/**
 * Makes the data directory (mode 0700). Returns its directories and files as absolute paths without symbolic links: behind a
 * link, a build would seem to leave its project.
 * @throws {Error} naming the setting: when the directory cannot be made, or its resolved path is too long for sockets
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

/** Makes a directory and its parents. Does not use Node's option `recursive`, which loops for ever below `/proc`. */
function makeDirectory(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  if (dirname(path) !== path) makeDirectory(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    // Another process may have made it meanwhile.
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}

/** Like `layout`, for an existing directory with a short enough path. */
export function layoutOf(root: string) {
  const { dev, ino } = statSync(root);
  return {
    root,
    /** Names resources of this Cellar outside the directory, such as control groups. Unique on this machine. */
    machineName: `cellar-${createHash('sha256').update(`${dev}:${ino}:${root}`).digest('hex').slice(0, 12)}`,
    /** Distinguishes this directory from a copy. Without the device number, which may change at a reboot. */
    place: `${ino}:${root}`,
    lock: join(root, 'host.lock'),
    pid: join(root, 'host.pid'),
    /** The address of the running API. The command line sends the token there. */
    address: join(root, 'api-address'),
    token: join(root, 'token'),
    apiKey: join(root, 'api-key'),
    alertKey: join(root, 'alert-key'),
    /** Encrypts the secrets of apps in the database. */
    secretsKey: join(root, 'secrets-key'),
    /** Signs and encrypts what the control UI's server stores, such as sessions. */
    signInKey: join(root, 'sign-in-key'),
    /** Authenticates calls between the host, the control plane and the control UI's server. */
    hostSecret: join(root, 'host-secret'),
    /** Secrets of apps in the bucket are derived from it. */
    clusterKey: join(root, 'cluster-key'),
    database: join(root, 'host.sqlite'),
    control: join(root, 'control'),
    /** The program, files and socket of the control UI. */
    ui: join(root, 'ui'),
    hooks: join(root, 'hooks'),
    /** The hooks of repositories in the bucket. They ask the host before git changes a ref. */
    askingHooks: join(root, 'asking-hooks'),
    repositories: join(root, 'repos'),
    repository: (appId: string) => `${root}/repos/${appId}.git`,
    allReleases: join(root, 'releases'),
    releases: (appId: string) => `${root}/releases/${appId}`,
    release: (appId: string, deployId: string) => `${root}/releases/${appId}/${deployId}`,
    data: (appId: string) => `${root}/data/${appId}`,
    allBuckets: join(root, 'buckets'),
    /** An app's buckets and their socket. */
    buckets: (appId: string) => `${root}/buckets/${appId}`,
    /** An app's vector indexes, which are stored as its buckets are. */
    vectors: (appId: string) => `${root}/buckets/${appId}/vectors`,
    /** Restored data of an app whose storage is in the bucket, until the bucket has it. */
    importing: (appId: string) => `${root}/importing/${appId}`,
    /** Path under which a snapshot holds the code of apps in the bucket. A restore writes the code there. */
    allCode: join(root, 'code'),
    /** The listening sockets of app services are created here. */
    serviceSockets: join(root, 'doors'),
    /** Directory of the socket through which the spawner passes the streams of children. */
    spawner: join(root, 'spawner'),
    runs: join(root, 'run'),
    run: (appId: string) => `${root}/run/${appId}`,
    /** The sandboxes of browsers, and the sockets that connect them with their service. */
    browsers: join(root, 'browsers'),
    /** The sockets that connect containers with their service. */
    containers: join(root, 'containers'),
    caches: join(root, 'caches'),
    cache: (appId: string) => `${root}/caches/${appId}`,
    /**
     * Compile cache of our own code: the bundled handlers, and the compiled code of the host, the bundler and the snapshot
     * process. `../start.js` makes it, and decides whether it is used: see `compiledDirectory`.
     */
    compiled: join(root, 'compiled'),
    builds: join(root, 'builds'),
    build: (appId: string) => `${root}/builds/${appId}`,
    /** Wrangler's uploads, until they are deployed. */
    uploads: join(root, 'uploads'),
    trash: join(root, 'trash'),
    snapshots: join(root, 'snapshots'),
    /** Files of a snapshot in progress. */
    snapshotting: join(root, 'snapshotting'),
    /** Files of a restore in progress. */
    restoring: join(root, 'restoring'),
    /** Data that replaces an app's data once the app has moved: see `runtime/move/moved-data.ts`. */
    allMoving: join(root, 'moving'),
    moving: (appId: string) => `${root}/moving/${appId}`,
    diskReserve: join(root, 'ballast'),
    caddy: join(root, 'caddy'),
    accessLog: join(root, 'log', 'access.ndjson'),
    telemetry: join(root, 'telemetry'),
  };
}
export type Layout = ReturnType<typeof layout>;

/** Locks of this process. Garbage collection would release one without a reference. */
const held = new Set<Database.Database>();

/**
 * Locks the directory until the returned function is called or this process ends. The lock is SQLite's: the kernel releases
 * it when the process that holds it ends, so it cannot be stale.
 * @throws {Error} naming the other process when it has locked the directory; also when the directory cannot be written to
 */
export function claim(paths: Layout): () => void {
  const lock = openLock(paths);
  try {
    // No journal file: locking must work on a full disk.
    lock.pragma('journal_mode = MEMORY');
    lock.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    lock.close();
    if ((error as { code?: string }).code !== 'SQLITE_BUSY') throw error;
    throw new Error(`${paths.root} belongs to another Cellar, process ${ownerOf(paths)}; stop it first`);
  }
  held.add(lock);
  // A host that was killed may have left this file.
  rmSync(paths.address, { force: true });
  try {
    writeAtomic(paths.pid, `${process.pid}\n`);
  } catch (error) {
    // The file only informs people; the lock decides.
    log('warn', 'the process id of the host could not be written', { error: reason(error) });
  }
  return () => {
    rmSync(paths.pid, { force: true });
    held.delete(lock);
    lock.close();
  };
}

/** @throws {Error} naming the setting when the directory is not writable */
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

/** Returns the parent directories of the directories that belong to apps' users. */
export function directoriesOfUsers(paths: Layout): string[] {
  return ['buckets', 'builds', 'caches', 'data', 'releases', 'run'].map((name) => join(paths.root, name));
}

/**
 * Makes the directories of `directoriesOfUsers` if needed. Lets other users traverse them, but not list them. Closes the
 * other entries of the data directory, except `compiled` and symbolic links. Does not change the directories of single apps.
 */
export function openToUsers(paths: Layout): void {
  const open = directoriesOfUsers(paths);
  for (const path of open) mkdirSync(path, { recursive: true });
  for (const entry of readdirSync(paths.root, { withFileTypes: true })) {
    const path = join(paths.root, entry.name);
    if (open.includes(path)) chmodSync(path, 0o711);
    // The compile cache keeps its mode. Closed now, it would look safe at the next start, though others may have written it.
    else if (path !== paths.compiled && !entry.isSymbolicLink())
      chmodSync(path, entry.isDirectory() ? 0o700 : 0o600);
  }
  chmodSync(paths.root, 0o711);
}

/** Returns the secret in `path`. Makes it (256 bits, with `prefix`, mode 0600) when it is missing or empty. */
export function keptSecret(path: string, prefix = '', encoding: 'base64url' | 'hex' = 'base64url'): string {
  try {
    const kept = readFileSync(path, 'utf8').trim();
    if (kept !== '') return kept;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const made = prefix + randomBytes(32).toString(encoding);
  writeAtomic(path, `${made}\n`);
  return made;
}

/** Writes a file and makes its directory. Does nothing if content and mode are the same, so it then works on a full disk. */
export function writeUnlessSame(path: string, content: string, mode: number): void {
  try {
    if (readFileSync(path, 'utf8') === content && (statSync(path).mode & 0o777) === mode) return;
  } catch {
    // The file is missing or unreadable: write it.
  }
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeAtomic(path, content, mode);
}

/** Writes a file atomically, even through a power cut. */
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
