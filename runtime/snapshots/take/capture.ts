// Captures files of the host and of apps for a snapshot. Files that have not changed since the previous snapshot are not
// read.
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { openFolder, openObjectsFolder, R2_OBJECTS } from '../../bucket/app-folder.ts';
import { type CodePart, codePlace } from '../../bucket/code/code-names.ts';
import type { S3Place } from '../../bucket/place.ts';
import { S3Store } from '../../bucket/s3-store.ts';
import { clusterDirectory, DATABASES, isInBucket } from '../../control/config.ts';
import { loadDatabases } from '../../control/load-databases.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { socketPath } from '../../fleets/process/cell-directories.ts';
import {
  changeOwner,
  makeTraversable,
  removeOwnDirectory,
  renewOwnDirectory,
} from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';
import type { FileEntry, Part } from '../store/manifest.ts';
import { type Chunk, chunkSize, type PackWriter } from '../store/packs.ts';
import { captureRelease, captureRepository } from './capture-code.ts';
import { captureFolder } from './capture-folder.ts';
import type { ObjectsCapture } from './capture-objects.ts';
import { dumpDatabase } from './dump-database.ts';
import { type Listed, type ListOptions, list } from './listing.ts';
import { Reader } from './reader.ts';
import { captureWholeObjects } from './whole-objects.ts';

/** An app from the host's database. */
export interface CapturedApp {
  id: string;
  slug: string;
  liveDeployId: string | null;
  /** Owner of its files; `null`: the host's own user. */
  user: User | null;
  /** Whether its data is in the bucket. */
  isInBucket: boolean;
}

export interface CaptureOptions {
  paths: Layout;
  packs: PackWriter;
  /** Where apps in the bucket have their data; null without a bucket. */
  bucket: S3Place | null;
  holdBuckets: HoldBuckets;
  /** Whether several hosts have the control plane, so that this disk may not have its databases. Default: false. */
  isShared?: boolean;
  /** The parts of the previous snapshot. */
  before: readonly Part[];
}

/** Starts or ends deferring the removal of files of an app's R2 objects. */
export type HoldBuckets = (appId: string, isHeld: boolean) => Promise<void>;

/** Directories of an app's data that contain no data of the app. */
const NOT_DATA = ['alarms'];
/** Files and directories of the control plane that contain no data of its own. */
const NOT_CONTROL_DATA = ['cluster', 'moving', 'control.capnp', 'worker.js', 'cell.pid'];
/** Maximum listings of a directory that still gets new files. */
const ROUNDS = 5;
const PIECE_BYTES = 256 * 1024;
const HAND_OVER_TIMEOUT_MS = 60_000;
/** Paths of unfinished files of git in a repository. Below `refs` only locks are unfinished: a branch may have any other name. */
const GIT_UNFINISHED = /^(?!refs\/)(.*\/)?(tmp_|incoming-)|^packed-refs\.new$|\.lock$/;

export class Capture {
  readonly #paths: Layout;
  readonly #packs: PackWriter;
  readonly #bucket: S3Place | null;
  readonly #holdBuckets: HoldBuckets;
  readonly #isShared: boolean;
  /** Files of the previous snapshot, by path. */
  readonly #before: ReadonlyMap<string, FileEntry>;

  constructor({ paths, packs, bucket, holdBuckets, isShared = false, before }: CaptureOptions) {
    this.#paths = paths;
    this.#packs = packs;
    this.#bucket = bucket;
    this.#holdBuckets = holdBuckets;
    this.#isShared = isShared;
    const files = before.flatMap(({ files }) => files);
    this.#before = new Map(files.map((file) => [file.path, file]));
  }

  /** Captures the host's database. @param copy path of a copy of it */
  async hostDatabase(copy: string): Promise<Part> {
    const { content } = readOwn(copy);
    const path = this.#paths.database.slice(this.#paths.root.length + 1);
    const file = await this.#store({ path, mode: 0o600, stamp: '' }, statSync(copy).size, content);
    return { kind: 'host', id: '', slug: '', files: [file] };
  }

  /** Captures the control plane's databases, and its objects if it keeps its data on this machine. */
  async control(): Promise<Part> {
    const directory = this.#paths.control;
    const isClustered = isInBucket(directory);
    if (isClustered && this.#isShared) return this.#sharedControl(directory);
    const files = new Map<string, FileEntry>();
    if (isClustered) await loadDatabases(directory);
    const root = isClustered ? clusterDirectory(directory) : directory;
    const place = { user: null, theirs: false, skip: isClustered ? ['do', 'kv'] : NOT_CONTROL_DATA };
    await this.#storage(root, place, files);
    // The snapshot has the paths of a control plane on this machine, so that a restore works with or without a bucket.
    const own = this.#pathOf(directory, '');
    const list = [...files.values()].map((file) => ({
      ...file,
      path: join(own, file.path.slice(this.#pathOf(root, '').length)),
    }));
    if (isClustered && DATABASES.some(({ file }) => !list.some(({ path }) => path === join(own, file))))
      throw new Error("the control plane's database could not be read from the bucket");
    return { kind: 'control', id: '', slug: '', files: list };
  }

  async #sharedControl(directory: string): Promise<Part> {
    const files: FileEntry[] = [];
    mkdirSync(this.#paths.snapshotting, { recursive: true, mode: 0o700 });
    for (const { socket, file } of DATABASES) {
      const dump = join(this.#paths.snapshotting, 'control.sqlite');
      rmSync(dump, { force: true });
      await dumpDatabase(socketPath(directory, socket), dump);
      const { size, content } = readOwn(dump);
      files.push(
        await this.#store({ path: this.#pathOf(directory, file), mode: 0o600, stamp: '' }, size, content),
      );
    }
    return { kind: 'control', id: '', slug: '', files };
  }

  /**
   * Captures an app's repository, live release and storage. Each database is consistent in itself; they are read one after
   * another.
   */
  async app(app: CapturedApp): Promise<Part> {
    const { id, slug, liveDeployId } = app;
    const files = new Map<string, FileEntry>();
    if (!(app.isInBucket && (await this.#storedRepository(id, files))))
      await this.#repository(this.#paths.repository(id), files);
    if (liveDeployId !== null && !(app.isInBucket && (await this.#storedRelease(id, liveDeployId, files))))
      await this.#own(this.#paths.release(id, liveDeployId), {}, files);
    await this.#data(app, files);
    await this.#buckets(app, files);
    return { kind: 'app', id, slug, files: [...files.values()] };
  }

  /** Captures only the storage of an app, as `app` does. @param hasBuckets whether to capture R2 objects on this machine */
  async storage(app: CapturedApp, hasBuckets: boolean): Promise<FileEntry[]> {
    const files = new Map<string, FileEntry>();
    await this.#data(app, files);
    if (hasBuckets) await this.#buckets(app, files);
    return [...files.values()];
  }

  async #data({ id, user, isInBucket }: CapturedApp, files: Files): Promise<void> {
    if (isInBucket) {
      await this.#folder(id, files);
      await this.#objects(id, files);
    } else await this.#storage(this.#paths.data(id), { user, theirs: true, skip: NOT_DATA }, files);
  }

  /** Captures R2 objects on this machine. */
  async #buckets({ id, user }: CapturedApp, files: Files): Promise<void> {
    // These files belong to the bucket service, which has a user of its own.
    const buckets = this.#paths.buckets(id);
    const hold = (isHeld: boolean) => this.#holdBuckets(id, isHeld);
    await this.#storage(buckets, { user: user && ownerOf(buckets), theirs: false, skip: [], hold }, files);
  }

  async #folder(id: string, files: Files): Promise<void> {
    const place = this.#requireBucket();
    const pathOf = (name: string) => this.#pathOf(this.#paths.importing(id), name);
    this.#requireImported(id);
    const captured = await captureFolder(openFolder({ place, appId: id }), {
      before: (name) => this.#before.get(pathOf(name)),
      add: (name, stamp, bytes) =>
        this.#store({ path: pathOf(name), mode: 0o600, stamp }, bytes.length, [bytes]),
    });
    this.#requireImported(id);
    for (const file of captured) files.set(file.path, file);
  }

  /** Captures a repository in the bucket. @returns false when it is only on the disk, where an older Cellar has left it */
  async #storedRepository(id: string, files: Files): Promise<boolean> {
    const captured = await captureRepository(...this.#code(id, 'repository'));
    for (const file of captured ?? []) files.set(file.path, file);
    return captured !== null;
  }

  /**
   * Captures a release in the bucket.
   * @returns false when it is only on the disk
   * @throws {Error} when it is neither in the bucket nor on the disk
   */
  async #storedRelease(id: string, deployId: string, files: Files): Promise<boolean> {
    const [store, capture] = this.#code(id, 'releases');
    const captured = await captureRelease(store, deployId, capture);
    if (captured !== null) files.set(captured.path, captured);
    else if (!existsSync(this.#paths.release(id, deployId)))
      throw new Error('its live release is neither in the bucket nor on this machine: deploy the app again');
    return captured !== null;
  }

  #code(id: string, part: CodePart): [S3Store, ObjectsCapture] {
    const store = new S3Store(codePlace(this.#requireBucket(), id, part));
    return [store, this.#storing(this.#pathOf(this.#paths.allCode, `${id}/${part}/`))];
  }

  /** Returns the callbacks that capture objects under paths which begin with `prefix`. */
  #storing(prefix: string): ObjectsCapture {
    return {
      before: (name) => this.#before.get(prefix + name),
      add: (name, stamp, size, content) =>
        this.#store({ path: prefix + name, mode: 0o600, stamp }, size, content),
    };
  }

  #requireBucket(): S3Place {
    if (this.#bucket === null) throw new Error('the host has no bucket any more, see RUNNER_BUCKET');
    return this.#bucket;
  }

  /** Captures the R2 objects of an app in the bucket. */
  async #objects(id: string, files: Files): Promise<void> {
    const capture = this.#storing(this.#pathOf(this.#paths.importing(id), R2_OBJECTS));
    await this.#holdBuckets(id, true);
    try {
      const captured = await captureWholeObjects(
        openObjectsFolder({ place: this.#requireBucket(), appId: id }),
        capture,
      );
      this.#requireImported(id);
      for (const file of captured) files.set(file.path, file);
    } finally {
      await this.#holdBuckets(id, false);
    }
  }

  #requireImported(id: string): void {
    if (existsSync(this.#paths.importing(id)))
      throw new Error('a restore is not in the bucket yet: it is finished once the bucket answers');
  }

  /**
   * Reads refs before objects: git only adds objects, so those that a ref names exist then. Reads loose refs before packed
   * ones, because git moves refs from loose to packed.
   */
  async #repository(root: string, files: Files): Promise<void> {
    await this.#own(root, { skip: ['objects', 'packed-refs'], but: GIT_UNFINISHED }, files);
    await this.#own(root, { only: ['packed-refs'] }, files);
    await this.#own(root, { only: ['objects'], but: GIT_UNFINISHED }, files);
  }

  /** Reads the host's own files until a listing has no new ones: git may pack many objects into one file meanwhile. */
  async #own(root: string, { but, ...where }: Own, files: Files): Promise<void> {
    for (let round = 0; round < ROUNDS; round++) {
      const listed = list(root, { databases: false, ...where });
      const fresh = listed.filter(
        ({ path }) => but?.test(path) !== true && !files.has(this.#pathOf(root, path)),
      );
      if (fresh.length === 0) return;
      for (const file of fresh)
        await this.#take(root, file, ({ path }) => readIfThere(join(root, path)), files);
    }
  }

  /**
   * Reads storage, which changes meanwhile. Large values are files: an app writes one before its database entry, and removes
   * it after the entry. So files come first, then databases, then new files. With `hold`, no file is removed once a database
   * is being read.
   */
  async #storage(root: string, { user, theirs, skip, hold }: StoragePlace, files: Files): Promise<void> {
    if (!existsSync(root)) return;
    // Done before the listing, because a change of the owner changes a file's stamp.
    if (theirs) await giveTo(user, root);
    const scratch = join(this.#paths.snapshotting, 'reader');
    let starting: Promise<Reader> | null = null;
    let isHeld = false;
    const start = async () => {
      renewOwnDirectory(scratch, user);
      return Reader.start({ root, user, copy: join(scratch, 'copy') });
    };
    const read = async (file: Listed) => {
      if (file.kind === 'sqlite' && hold !== undefined && !isHeld) {
        isHeld = true;
        await hold(true);
      }
      // Files at the top of an app's data directory are the host's own: only the host can write there.
      if (theirs && !file.path.includes('/')) return readIfThere(join(root, file.path));
      starting ??= start();
      return (await starting).read(file);
    };
    try {
      for (const kind of ['plain', 'sqlite', 'plain']) {
        for (const file of list(root, { databases: true, skip })) {
          const isTurn = file.kind === kind || file.kind === 'directory';
          const taken = files.get(this.#pathOf(root, file.path));
          // A file with another stamp may have changed while it was read.
          const isSure = taken?.stamp === file.stamp && (file.stamp !== '' || file.kind === 'directory');
          if (isTurn && !isSure) await this.#take(root, file, read, files);
        }
      }
    } finally {
      if (isHeld) await hold?.(false);
      const reader = await (starting as Promise<Reader> | null)?.catch(() => null);
      reader?.end();
      if (starting !== null) removeOwnDirectory(scratch, user);
    }
  }

  async #take(root: string, file: Listed, read: Read, files: Files): Promise<void> {
    const { mode, stamp } = file;
    const path = this.#pathOf(root, file.path);
    const before = this.#before.get(path);
    if (file.kind === 'directory') files.set(path, { path, size: 0, mode, stamp: '', chunks: [] });
    else if (stamp !== '' && before?.stamp === stamp) files.set(path, { ...before, mode });
    else {
      const found = await read(file);
      if (found !== null)
        files.set(path, await this.#store({ path, mode, stamp }, found.size, found.content));
    }
  }

  async #store(
    about: Pick<FileEntry, 'path' | 'mode' | 'stamp'>,
    size: number,
    content: Bytes,
  ): Promise<FileEntry> {
    const chunks: Chunk[] = [];
    for await (const piece of cut(content, chunkSize(size))) chunks.push(await this.#packs.add(piece));
    return { ...about, size, chunks };
  }

  #pathOf(root: string, path: string): string {
    return join(root, path).slice(this.#paths.root.length + 1);
  }
}

type Files = Map<string, FileEntry>;
type Bytes = Iterable<Buffer> | AsyncIterable<Buffer>;
type Read = (file: Listed) => Promise<Content | null> | Content | null;

interface Content {
  size: number;
  content: Bytes;
}

/** Selects files in a directory of the host. */
interface Own extends Pick<ListOptions, 'skip' | 'only'> {
  /** Paths that are left out. */
  but?: RegExp;
}

interface StoragePlace {
  user: User | null;
  /** Whether to give its directories to the user: copied ones belong to the host until the app runs. */
  theirs: boolean;
  skip: string[];
  /** Starts or ends deferring the removal of files. Undefined for files that the app itself removes. */
  hold?: (isHeld: boolean) => Promise<void>;
}

/** Gives the directories in an app's data to its user: after a copy they belong to the host until the app runs. */
async function giveTo(user: User | null, root: string): Promise<void> {
  if (user === null) return;
  const directories = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  makeTraversable(root, user);
  const paths = directories.map(({ name }) => join(root, name));
  await changeOwner(paths, user, HAND_OVER_TIMEOUT_MS);
}

/** Yields pieces of `size` bytes; the last may be shorter. They share a buffer: use each before you ask for the next. */
async function* cut(content: Bytes, size: number): AsyncIterable<Buffer> {
  const piece = Buffer.alloc(size);
  let filled = 0;
  for await (let bytes of content) {
    while (bytes.length > 0) {
      const copied = bytes.copy(piece, filled);
      filled += copied;
      bytes = bytes.subarray(copied);
      if (filled < size) continue;
      yield piece;
      filled = 0;
    }
  }
  if (filled > 0) yield piece.subarray(0, filled);
}

/** Returns the owner of a directory; null for this process's user, and for a missing directory. */
function ownerOf(directory: string): User | null {
  const { uid } = lstatSync(directory, { throwIfNoEntry: false }) ?? { uid: process.getuid!() };
  return uid === process.getuid!() ? null : { uid, gid: uid };
}

function readIfThere(path: string): Content | null {
  try {
    return readOwn(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return null;
  }
}

/** Reads a file that only the host writes. */
function readOwn(path: string): Content {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  const { size } = fstatSync(file);
  function* pieces(): Generator<Buffer> {
    try {
      const piece = Buffer.alloc(PIECE_BYTES);
      for (let left = size; left > 0; ) {
        const read = readSync(file, piece, 0, Math.min(left, piece.length), null);
        if (read === 0) throw new Error(`${path} became shorter while it was read`);
        left -= read;
        yield piece.subarray(0, read);
      }
    } finally {
      closeSync(file);
    }
  }
  return { size, content: pieces() };
}
