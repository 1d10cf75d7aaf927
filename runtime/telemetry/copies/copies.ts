// Copies metrics and error groups to the bucket once a minute, and loads them on an empty machine. Only `close` waits
// for a copy.
import { setTimeout as sleep } from 'node:timers/promises';
import { bucketUrl } from '../../bucket/client.ts';
import type { S3Place } from '../../bucket/place.ts';
import { S3Store } from '../../bucket/s3-store.ts';
import { ifThere } from '../../bucket/store.ts';
import { reason } from '../../log.ts';
import type { Part } from '../part.ts';
import { type CopiedRow, hashOf, pack, textOf, unpack } from './content.ts';
import { COPIES, type CopySource, copiesOf, hostsWithCopies, type KnownHosts } from './source.ts';

const EVERY_MS = 60_000;
/** Pause after each object, in ms, for other work of the thread. */
const PAUSE_MS = 20;
/** Timeout of one attempt of a request, in ms. */
const DEADLINE_MS = 30_000;
/** Maximum time that `close` waits for the last copies, in ms. */
const CLOSE_MS = 1_000;
/** Stored in place of a hash for an object that cannot be loaded. */
const UNREADABLE = 'unreadable';

export interface CopiesOptions {
  place: S3Place;
  /** The folder of this host's copies. */
  root: string;
  sources: CopySource[];
  /** Called when copying fails, which is then retried, and when an object cannot be loaded. */
  onTrouble: (message: string, error: string) => void;
}

export class Copies implements Part {
  readonly name = 'copies';
  readonly answers = {};
  readonly dropped = {};
  readonly #options: CopiesOptions;
  readonly #store: S3Store;
  readonly #where: string;
  readonly #closing = new AbortController();
  #running: Promise<void> | null = null;
  /** Apps deleted before all copies were loaded. Their rows in copies are not loaded. */
  readonly #forgotten = new Set<string>();
  #forgets = 0;
  /** Whether this host has looked for copies of its own that another host has removed. */
  #isChecked = false;
  /** Whether this host has removed other hosts' objects whose rows it has taken over. */
  #isTidy = false;

  constructor(options: CopiesOptions) {
    this.#options = options;
    this.#store = new S3Store(options.place, { deadlineMs: DEADLINE_MS });
    this.#where = `${bucketUrl(options.place)}/${options.place.prefix}`;
  }

  /**
   * Starts copying. Call it when this Cellar may write to the bucket. Further calls do nothing.
   * @param hosts the other hosts; null for the only host
   */
  start(hosts: KnownHosts | null): void {
    this.#running ??= this.#run(hosts);
  }

  forget(appId: string): boolean {
    this.#forgets++;
    if (!this.#isLoaded) this.#forgotten.add(appId);
    for (const source of this.#options.sources) source.forget?.(appId);
    return false;
  }

  /** Copies the last changes, for a second at most. */
  async close(): Promise<void> {
    if (this.#running === null) return;
    this.#closing.abort();
    const last = this.#running.then(async () => {
      if (this.#isLoaded) await this.#copy();
    });
    await Promise.race([last.catch(() => {}), sleep(CLOSE_MS, undefined, { ref: false })]);
  }

  /** Loads the bucket's copies, unless they are loaded, and copies the changes. @throws {Error} when the bucket fails */
  async round(hosts: KnownHosts | null): Promise<void> {
    await this.#load(hosts);
    if (hosts !== null && !this.#isChecked) await this.#findRemoved();
    await this.#copy();
    if (!this.#isTidy) await this.#tidy();
  }

  get #isLoaded(): boolean {
    return this.#options.sources.every(({ copies, folder }) => copies.place(folder) === this.#where);
  }

  async #run(hosts: KnownHosts | null): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.round(hosts).catch((error: unknown) => {
        if (!signal.aborted)
          this.#options.onTrouble(
            'the bucket could not be read or written; Cellar tries again',
            reason(error),
          );
      });
      await sleep(EVERY_MS, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #load(hosts: KnownHosts | null): Promise<void> {
    const { sources } = this.#options;
    if (this.#isLoaded) return;
    const all = await this.#store.list(COPIES);
    const names = all.map(({ name }) => name).sort();
    const apps = hosts && new Set(hosts.apps);
    for (const source of sources) {
      const { copies, folder, table } = source;
      const place = copies.place(folder);
      // Before this host had a folder of its own, its copies were in `COPIES`.
      const before = place ?? copies.place(COPIES + table);
      if (before === null) {
        for (const root of this.#roots(names, hosts)) {
          const from = root + table;
          // The newest first: people look at the newest figures.
          for (const name of names.filter((name) => name.startsWith(from)).reverse()) {
            const own = folder + name.slice(from.length);
            if (source.has(own) && copies.hash(name) === null) await this.#loadOne(source, name, own, apps);
          }
        }
      } else if (before !== this.#where) copies.clear(place === null ? COPIES + table : folder);
      copies.setPlace(folder, this.#where);
    }
    this.#forgotten.clear();
  }

  /** Returns the folders of the hosts whose copies an empty host loads. Its own is the first. */
  #roots(names: string[], hosts: KnownHosts | null): string[] {
    const { root } = this.#options;
    if (hosts === null) return [root];
    const { notLost } = hosts;
    const found = [...hostsWithCopies(names)].filter((id) => !notLost.includes(id)).map(copiesOf);
    // Copies outside a host's folder may belong to another host with an older version.
    return [root, ...found.filter((each) => each !== root), ...(notLost.length === 0 ? [COPIES] : [])];
  }

  /**
   * Loads an object.
   * @param own the name of this host's own object for the same rows; equal to `name` unless another host wrote the object
   * @param apps the apps whose rows are loaded from other hosts; null for all
   */
  async #loadOne(source: CopySource, name: string, own: string, apps: Set<string> | null): Promise<void> {
    const { copies } = source;
    this.#closing.signal.throwIfAborted();
    if (source.isOld(own, Date.now())) return copies.save(name, '');
    const bytes = await ifThere(this.#store.read(name));
    if (bytes === null) return;
    try {
      const { rows, hash } = await unpack(bytes);
      const kept = rows.filter(
        ({ app_id }) => !this.#forgotten.has(app_id) && (name === own || apps === null || apps.has(app_id)),
      );
      // Saved before the rows are added: otherwise, a crash in between would keep the rows out of this host's copies.
      if (name !== own) copies.save(own, '');
      source.take(name, kept, kept.length === rows.length ? hash : '');
    } catch (error) {
      if (!isOfContent(error)) throw error;
      copies.save(name, UNREADABLE);
      this.#options.onTrouble(`${name} cannot be loaded`, reason(error));
    }
    await sleep(PAUSE_MS);
  }

  /** Marks removed copies to be written again. Another host removes them when it takes this host for lost. */
  async #findRemoved(): Promise<void> {
    const stored = new Set((await this.#store.list(this.#options.root)).map(({ name }) => name));
    for (const { copies, folder } of this.#options.sources)
      for (const name of copies.names(folder)) if (!stored.has(name)) copies.save(name, '');
    this.#isChecked = true;
  }

  /** Removes copies in folders of lost hosts, and those of this host's older version. This host's folder has their rows now. */
  async #tidy(): Promise<void> {
    for (const source of this.#options.sources)
      for (const name of source.copies.names(COPIES))
        if (!name.startsWith(this.#options.root) && source.copies.hash(name) !== UNREADABLE)
          await this.#remove(source, name);
    this.#isTidy = true;
  }

  async #copy(): Promise<void> {
    const now = Date.now();
    for (const source of this.#options.sources) {
      for (const folder of source.changed(now)) {
        let parts = 0;
        for (const rows of source.parts(folder)) {
          await this.#copyOne(source, nameOf(folder, parts++), rows);
          await sleep(PAUSE_MS);
        }
        for (const name of source.copies.names(folder))
          if (name >= nameOf(folder, parts)) await this.#remove(source, name);
      }
      source.copied?.();
      for (const name of source.copies.names(source.folder))
        if (source.isOld(name, now)) await this.#remove(source, name);
    }
  }

  async #copyOne({ copies }: CopySource, name: string, rows: CopiedRow[]): Promise<void> {
    const text = textOf(rows);
    const hash = hashOf(text);
    if (copies.hash(name) === hash) return;
    const forgets = this.#forgets;
    await this.#store.write(name, await pack(text));
    // If an app was deleted meanwhile, the copy may have its rows. Without a hash it is written again.
    copies.save(name, forgets === this.#forgets ? hash : '');
  }

  async #remove({ copies }: CopySource, name: string): Promise<void> {
    await this.#store.remove(name);
    copies.delete(name);
  }
}

function nameOf(folder: string, part: number): string {
  return `${folder}${String(part).padStart(4, '0')}.json.gz`;
}

/** Whether loading failed because of the object's content, and not because of the database. */
function isOfContent(error: unknown): boolean {
  const { code = '' } = error as { code?: string };
  return !code.startsWith('SQLITE_') || code.startsWith('SQLITE_CONSTRAINT');
}
