// The repository of an app in the bucket: `refs.json` names the refs and the packs that have their objects. `refs.json`
// changes before the refs on the disk. If the host is killed in between, the disk has older refs until the next use.
import { existsSync } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { removeWhole } from '../../disk/trash.ts';
import { createRepository, removeLocks } from '../../git/repository.ts';
import type { RefUpdate } from '../../git/smart-http.ts';
import { log, logRarely, reason } from '../../log.ts';
import { SerialQueue } from '../../queues/serial-queue.ts';
import { Refusal } from '../../refusal.ts';
import { ChangedObject } from '../store.ts';
import { CodeFolder, type CodeFolderOptions } from './code-folder.ts';
import { PACKS, packObject, REFS } from './code-names.ts';
import { addPack, hasPack, makePack, withScratch } from './packs.ts';
import { areSame, changed, readRefs, setRefs } from './refs.ts';
import { type Refs, type RefsContent, readRefsJson, refsJson } from './refs-content.ts';

/** A file in the repository on the disk: etag and packs of the `refs.json` that the disk's refs last matched. */
const MARKER = 'cellar-bucket.json';
/** The packs are joined into one when a change makes their number a multiple of this. */
const MOST_PACKS = 20;

/** The repository's state in the bucket. `etag`: of `refs.json`; null while the bucket has no `refs.json`. */
type Known = RefsContent & { etag: string | null };

export interface BucketRepositoryOptions extends CodeFolderOptions {
  /** The path of the repository on the disk. */
  path: string;
  isDeleted: () => boolean;
}

export class BucketRepository {
  readonly #path: string;
  readonly #appId: string;
  readonly #folder: CodeFolder;
  readonly #ready: () => Promise<AbortSignal>;
  readonly #isDeleted: () => boolean;
  /** Null if the bucket's state is unknown: before the first read, during a write, after a failed write or load. */
  #known: Known | null = null;
  /** Whether the refs on the disk are known to equal the refs in the bucket. */
  #isEqual = false;
  /** Number of running changes. Each moves the disk's refs after the bucket's, so the two may differ meanwhile. */
  #changes = 0;
  /** Resolves when all calls of `#settle` have ended. */
  #settling: Promise<void> = Promise.resolve();
  /** Number of running reads and changes. During these the files must stay on the disk. */
  #uses = 0;
  #usedAt = 0;
  /** Reads and writes of the bucket, one at a time. */
  readonly #work = new SerialQueue();

  constructor(options: BucketRepositoryOptions) {
    const { appId, path, ready, isDeleted } = options;
    this.#path = path;
    this.#appId = appId;
    this.#ready = ready;
    this.#isDeleted = isDeleted;
    this.#folder = new CodeFolder(options, 'repository');
  }

  /** When the repository was last used since the host's start, in ms since 1970; 0 if never. */
  get usedAt(): number {
    return this.#uses > 0 ? Date.now() : this.#usedAt;
  }

  /**
   * Runs a read of the repository, once the disk has what the bucket has. During an outage, the disk may lack the changes of
   * another machine.
   * @throws {Refusal} without a copy on the disk: 503 when the bucket does not answer, 404 when the app was deleted
   * @throws what `read` throws
   */
  reading<T>(read: () => Promise<T>): Promise<T> {
    return this.#using(async () => {
      await this.#open();
      return read();
    });
  }

  async #open(): Promise<void> {
    if (this.#isMended) return;
    try {
      await this.#equalise();
    } catch (error) {
      if (!(await this.#hasCopy())) throw awayError('load the repository from', error);
      logRarely(
        'warn',
        'a repository is read from the disk, where it may be out of date: the bucket does not answer',
        {
          app: this.#appId,
          error: reason(error),
        },
      );
    }
  }

  /**
   * Runs a change of the repository, which calls `store` before it moves refs.
   * @throws {Refusal} 503 when the bucket does not answer, 404 when the app was deleted; what `change` throws
   */
  during<T>(change: () => Promise<T>): Promise<T> {
    return this.#using(async () => {
      try {
        await this.#ready();
        if (!this.#isMended) await this.#equalise();
      } catch (error) {
        throw awayError('change the repository in', error);
      }
      this.#changes++;
      try {
        return await change();
      } finally {
        this.#changes--;
        this.#settling = Promise.all([this.#settling, this.#settle()]).then(() => {});
      }
    });
  }

  async #using<T>(use: () => Promise<T>): Promise<T> {
    this.#uses++;
    try {
      return await use();
    } finally {
      this.#uses--;
      this.#usedAt = Date.now();
    }
  }

  /**
   * Removes the repository from the disk, if the bucket has all of it and nothing uses it. The next use loads it again.
   * @param mayGo is asked directly before the removal, with the refs in the bucket
   * @returns whether it was removed
   * @throws {Error} when the bucket does not answer
   */
  async evict(trash: string, mayGo: (refs: Refs) => boolean): Promise<boolean> {
    let removed = null as Promise<void> | null;
    await this.#work.run(async () => {
      if (this.#uses > 0 || !existsSync(this.#path)) return;
      const known = await this.#readAnew();
      if (!areSame(known.refs, await readRefs(this.#path))) {
        this.#isEqual = false;
        return;
      }
      const packs = new Set((await this.#folder.list(PACKS)).map(({ name }) => name));
      if (known.etag === null || !known.packs.every((name) => packs.has(packObject(name)))) return;
      // From here to the removal nothing is awaited, so that no use can begin.
      if (this.#uses > 0 || !existsSync(this.#path) || !mayGo(known.refs)) return;
      this.#isEqual = false;
      removed = removeWhole(trash, this.#path);
    });
    await removed;
    return removed !== null;
  }

  /**
   * Stores an update of refs in the bucket, and first the objects that the refs need. Call it within `during`, before the
   * refs on the disk move. The objects must be on the disk.
   * @throws {Refusal} 409 when a ref is not where the update expects it, 400 for too many refs, 503 when the bucket does not
   *   take the update
   */
  store(updates: readonly RefUpdate[]): Promise<void> {
    return this.#work.run(async () => {
      try {
        const known = await this.#read();
        await this.#write(known, changed(known.refs, updates));
      } catch (error) {
        if (error instanceof Refusal) throw error;
        throw awayError('store the change of the repository in', error);
      }
    });
  }

  /** Returns the object id of a ref in the bucket, without loading the repository; null for a missing ref. */
  find(ref: string): Promise<string | null> {
    return this.#work.run(async () => (await this.#read()).refs[ref] ?? null);
  }

  /** Resolves when the work after earlier changes has ended: updating the disk, joining packs. Call it between changes. */
  async settled(): Promise<void> {
    await this.#settling;
  }

  get #isMended(): boolean {
    return this.#isEqual || (this.#changes > 0 && this.#known !== null);
  }

  /** Whether the disk has a copy of the repository, perhaps an old one. */
  async #hasCopy(): Promise<boolean> {
    if (existsSync(join(this.#path, MARKER))) return true;
    return existsSync(this.#path) && Object.keys(await readRefs(this.#path)).length > 0;
  }

  /** Brings the disk up to date after a change, and joins many packs into one. Never rejects. */
  async #settle(): Promise<void> {
    if (this.#changes > 0) return;
    try {
      if (!this.#isEqual) await this.#equalise();
      // A git process that was killed before it stored anything has changed no ref, but may have left locks.
      else await this.#work.run(() => removeLocks(this.#path, () => this.#changes > 0));
      // A change that has begun meanwhile may have set `#known` to null.
      const length = this.#known?.packs.length ?? 0;
      if (length >= MOST_PACKS && length % MOST_PACKS === 0) await this.#work.run(() => this.#consolidate());
    } catch (error) {
      log('warn', 'a repository could not be tidied up after a change; Cellar tries again at its next use', {
        app: this.#appId,
        error: reason(error),
      });
    }
  }

  /** Makes the disk equal the bucket. If the bucket has nothing yet, stores what the disk has. */
  #equalise(): Promise<void> {
    return this.#work.run(async () => {
      if (this.#isMended) return;
      const known = await this.#read();
      // The files of a deleted app must not come back.
      if (this.#isDeleted()) throw new Refusal(404, 'app_not_found', 'the app was deleted');
      await createRepository(this.#path);
      await removeLocks(this.#path, () => this.#changes > 0);
      const local = await readRefs(this.#path);
      const marker = await this.#readMarker();
      if (known.etag === null) {
        if (Object.keys(local).length > 0) await this.#write(known, local);
      } else if (!areSame(local, known.refs)) {
        await this.#load(known.packs.filter((name) => marker?.packs.includes(name) !== true));
        await this.#setRefs(local, known.refs);
      }
      if (marker === null || marker.etag !== this.#known!.etag) await this.#writeMarker();
      this.#isEqual = true;
    });
  }

  /** Returns the state of the bucket as last read or written; reads it when that is unknown. */
  async #read(): Promise<Known> {
    return this.#known ?? this.#readAnew();
  }

  async #readAnew(): Promise<Known> {
    const found = await this.#folder.read(REFS);
    this.#known =
      found === null
        ? { etag: null, refs: {}, packs: [] }
        : { etag: found.etag, ...readRefsJson(found.bytes, this.#folder.nameOf(REFS)) };
    return this.#known;
  }

  /** Adds packs of the bucket to the repository on the disk. */
  async #load(names: string[]): Promise<void> {
    try {
      for (const name of names.filter((each) => !hasPack(this.#path, each)))
        await withScratch(this.#path, async (scratch) => {
          await this.#folder.receive(packObject(name), join(scratch, `${name}.pack`));
          await addPack(this.#path, scratch, name);
        });
    } catch (error) {
      // Perhaps a pack is missing because the list of packs is old: the next use reads the list again.
      this.#known = null;
      throw error;
    }
  }

  async #setRefs(local: Refs, refs: Refs): Promise<void> {
    try {
      await setRefs(this.#path, local, refs);
    } catch (error) {
      // Objects may be missing, despite what the marker says. Without the marker, the next use loads all missing packs.
      await rm(join(this.#path, MARKER), { force: true });
      throw error;
    }
  }

  /** Writes new refs, and their objects first. */
  async #write(known: Known, refs: Refs): Promise<void> {
    if (areSame(known.refs, refs)) return;
    const before = new Set(Object.values(known.refs));
    const tips = Object.values(refs).filter((sha) => !before.has(sha));
    const pack = tips.length === 0 ? null : await this.#sendPack(tips, [...before]);
    const packs = pack === null || known.packs.includes(pack) ? known.packs : [...known.packs, pack];
    await this.#writeRefs({ ...known, refs, packs });
  }

  async #sendPack(tips: string[], known: string[]): Promise<string | null> {
    return withScratch(this.#path, async (scratch) => {
      const name = await makePack(this.#path, scratch, { tips, known });
      if (name !== null) await this.#folder.send(packObject(name), join(scratch, `${name}.pack`));
      return name;
    });
  }

  async #writeRefs({ etag, refs, packs }: Known): Promise<void> {
    this.#isEqual = false;
    this.#known = null;
    const written = await this.#folder.writeIf(REFS, refsJson({ refs, packs }), etag);
    this.#known = { etag: written, refs, packs };
  }

  /** Sends one pack with all objects to the bucket. Then removes all other packs there, also packs of a killed host. */
  async #consolidate(): Promise<void> {
    const known = this.#known;
    if (known === null || !this.#isEqual || this.#changes > 0) return;
    const pack = await this.#sendPack(Object.values(known.refs), []);
    // The packs are listed before the write, so that packs which another machine adds later stay.
    const listed = await this.#folder.list(PACKS);
    await this.#writeRefs({ ...known, packs: pack === null ? [] : [pack] });
    await this.#writeMarker();
    this.#isEqual = true;
    for (const { name } of listed)
      if (pack === null || name !== packObject(pack)) await this.#folder.remove(name);
  }

  async #readMarker(): Promise<{ etag: string; packs: string[] } | null> {
    const text = await readFile(join(this.#path, MARKER), 'utf8').catch(() => null);
    return text === null ? null : JSON.parse(text);
  }

  /** Records that the disk equals the bucket. */
  async #writeMarker(): Promise<void> {
    const { etag, packs } = this.#known!;
    if (etag === null) return;
    const path = join(this.#path, MARKER);
    await writeFile(`${path}.new`, JSON.stringify({ etag, packs }), { flush: true, mode: 0o600 });
    await rename(`${path}.new`, path);
  }
}

function awayError(what: string, error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  const why =
    error instanceof ChangedObject ? 'another Cellar has just changed it; try again' : reason(error);
  return new Refusal(503, 'host_unavailable', `Cellar could not ${what} the bucket: ${why}`);
}
