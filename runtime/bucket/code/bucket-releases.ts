// The releases of an app in the bucket, each as one archive. A release never changes, so a copy on the disk is never stale.
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rmdir } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { publish, syncFiles } from '../../disk/publish.ts';
import { removeTree } from '../../disk/remove.ts';
import { removeWhole } from '../../disk/trash.ts';
import { log, logRarely, reason } from '../../log.ts';
import { type ChildResult, type RunOptions, runChild } from '../../processes/child.ts';
import { limited } from '../../resources/limited.ts';
import { CodeFolder, type CodeFolderOptions } from './code-folder.ts';
import { ARCHIVE } from './code-names.ts';

/** Timeout of packing, unpacking or checking, in ms. */
const DEADLINE_MS = 10 * 60_000;
/** Makes tar print one byte for each MB that it unpacks, so that `limitBytes` limits the unpacked size. */
const COUNTED = ['--checkpoint=100', '--checkpoint-action=dot'];
const PATH_BYTES = 16 * 1024;

export interface BucketReleasesOptions extends CodeFolderOptions {
  /** Returns the directory of a release. */
  directory: (deployId: string) => string;
  /** An existing directory for temporary files. */
  scratch: string;
  isDeleted: () => boolean;
}

export class BucketReleases {
  readonly #options: BucketReleasesOptions;
  readonly #folder: CodeFolder;
  /** Releases that are known to be in the bucket, or are being stored. */
  readonly #stored = new Set<string>();
  readonly #loading = new Map<string, Promise<void>>();
  /** When each release was last used, in ms since 1970. */
  readonly #usedAt = new Map<string, number>();
  #allUsedAt = 0;

  constructor(options: BucketReleasesOptions) {
    this.#options = options;
    this.#folder = new CodeFolder(options, 'releases');
  }

  /** Stores a release. @throws {Error} when it cannot be packed, the bucket does not take it, or `signal` aborts */
  async store(deployId: string, signal?: AbortSignal): Promise<void> {
    const { directory, scratch, isDeleted } = this.#options;
    const work = await mkdtemp(join(scratch, 'archive-'));
    try {
      const archive = join(work, 'archive');
      await tar(['-czf', archive, '-C', directory(deployId), '.'], { ...(signal && { signal }) }).catch(
        because('the release could not be packed on this machine'),
      );
      await this.#folder
        .send(deployId + ARCHIVE, archive, signal)
        .catch(because('the bucket did not take the release'));
    } finally {
      await removeTree(work);
    }
    this.#stored.add(deployId);
    // During the upload, the app may have been deleted and its folder removed.
    if (isDeleted()) await this.#folder.remove(deployId + ARCHIVE);
  }

  /**
   * Loads a release from the bucket, unless the disk has it.
   * @throws {MissingObject}; {Error} when the bucket does not answer, the disk has no room, or the app was deleted
   */
  async load(deployId: string): Promise<void> {
    this.#usedAt.set(deployId, Date.now());
    if (existsSync(this.#options.directory(deployId))) {
      void this.storeIfMissing(deployId);
      return;
    }
    const loading =
      this.#loading.get(deployId) ??
      this.#load(deployId).finally(() => {
        this.#loading.delete(deployId);
      });
    this.#loading.set(deployId, loading);
    await loading;
    this.#usedAt.set(deployId, Date.now());
  }

  /** Returns when a release was last used since the host's start, in ms since 1970; 0 if never. */
  usedAt(deployId: string): number {
    if (this.#loading.has(deployId)) return Date.now();
    return Math.max(this.#allUsedAt, this.#usedAt.get(deployId) ?? 0);
  }

  /** Records that all releases on the disk are used now. Call it before reading them. */
  useAll(): void {
    this.#allUsedAt = Date.now();
  }

  /**
   * Removes a release from the disk, if the bucket has it. The next use loads it again.
   * @param mayGo is asked directly before the removal
   * @returns whether it was removed
   * @throws {Error} when the bucket does not answer
   */
  async evict(deployId: string, trash: string, mayGo: () => boolean): Promise<boolean> {
    const directory = this.#options.directory(deployId);
    if (!(await this.#folder.has(deployId + ARCHIVE))) return false;
    // From here to the removal nothing is awaited, so that no use can begin.
    if (!existsSync(directory) || this.#loading.has(deployId) || !mayGo()) return false;
    this.#usedAt.delete(deployId);
    await removeWhole(trash, directory);
    return true;
  }

  /** Stores a release that only the disk has, as after a restore or from an older version of Cellar. Never rejects. */
  async storeIfMissing(deployId: string, signal?: AbortSignal): Promise<void> {
    if (this.#stored.has(deployId) || !existsSync(this.#options.directory(deployId))) return;
    this.#stored.add(deployId);
    try {
      if (!(await this.#folder.has(deployId + ARCHIVE))) await this.store(deployId, signal);
    } catch (error) {
      this.#stored.delete(deployId);
      const { appId: app } = this.#options;
      logRarely('warn', 'a release could not be stored in the bucket; Cellar tries again in a minute', {
        app,
        error: reason(error),
      });
    }
  }

  /**
   * Removes all releases except `deployIds` from the bucket. Never rejects; the next call tries again.
   * @param until when the caller decided which to keep, in ms since 1970. Releases stored later stay: while this host was
   *   frozen, another host may have taken over the app and stored them
   */
  async keepOnly(deployIds: ReadonlySet<string>, until: number): Promise<void> {
    for (const deployId of this.#usedAt.keys()) if (!deployIds.has(deployId)) this.#usedAt.delete(deployId);
    try {
      for (const { name, writtenAt } of await this.#folder.list())
        if (writtenAt <= until && !deployIds.has(basename(name, ARCHIVE))) await this.#folder.remove(name);
    } catch (error) {
      const { appId: app } = this.#options;
      log('warn', 'old releases could not be removed from the bucket', { app, error: reason(error) });
    }
  }

  async #load(deployId: string): Promise<void> {
    const { directory, scratch, isDeleted } = this.#options;
    const target = directory(deployId);
    const beside = `${target}.new`;
    const work = await mkdtemp(join(scratch, 'archive-'));
    try {
      const archive = join(work, 'archive');
      await this.#folder.receive(deployId + ARCHIVE, archive);
      this.#requireApp();
      await removeTree(beside);
      await mkdir(dirname(target), { recursive: true, mode: 0o700 });
      await mkdir(beside, { mode: 0o700 });
      const roomMb = this.#folder.roomMb(work);
      const unpack = ['-xzpf', archive, '--no-same-owner', ...COUNTED, '-C', beside];
      const { cut } = await tar(unpack, { limitBytes: roomMb, longer: 'cut' });
      if (cut) throw new Error(`the release has more than the ${roomMb} MB that the disk has room for`);
      await requireFiles(beside);
      await syncFiles(beside);
      await publish(beside, target);
      this.#requireApp();
    } catch (error) {
      await removeTree(beside);
      if (isDeleted()) await this.#removeLate(target);
      throw error;
    } finally {
      await removeTree(work);
    }
    this.#stored.add(deployId);
  }

  /** @throws {Error} when the app was deleted: its files must not come back */
  #requireApp(): void {
    if (this.#options.isDeleted()) throw new Error('the app was deleted');
  }

  /** Removes a release that was loaded after the app's deletion, and the app's folder of releases when that is empty. */
  async #removeLate(target: string): Promise<void> {
    await removeTree(target);
    // Fails while the folder has other releases. The app's deletion moves these to the trash.
    await rmdir(dirname(target)).catch(() => {});
  }
}

function because(what: string): (error: unknown) => never {
  return (error) => {
    throw new Error(`${what}: ${reason(error)}`);
  };
}

/**
 * Checks an unpacked release, whose files the host opens: a link could point outside, and reading a pipe would hang.
 * @throws {Error} when a directory has something other than plain files and folders, or a file with setuid or setgid
 */
async function requireFiles(directory: string): Promise<void> {
  const found = ['-print', '-quit'];
  const special = ['!', '-type', 'f', '!', '-type', 'd', ...found];
  const privileged = ['-type', 'f', '-perm', '/6000', ...found];
  const { output } = await runChild([...limited(), 'find', directory, ...special, '-o', ...privileged], {
    timeoutMs: DEADLINE_MS,
    limitBytes: PATH_BYTES,
  });
  if (output.length === 0) return;
  const path = relative(directory, output.toString('utf8').trimEnd());
  throw new Error(
    `the release in the bucket has something other than plain files and folders: ${JSON.stringify(path)}. Deploy the app again`,
  );
}

function tar(
  words: string[],
  options: Pick<RunOptions, 'signal' | 'limitBytes' | 'longer'>,
): Promise<ChildResult> {
  return runChild([...limited(), 'tar', ...words], { timeoutMs: DEADLINE_MS, ...options });
}
