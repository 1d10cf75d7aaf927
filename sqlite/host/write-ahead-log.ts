// Brings what was committed to the host's database to the disk, while the thread that committed it goes on.
import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Database } from 'better-sqlite3';

/** A log with fewer pages (16 MiB) stays as it is: each copying into the database waits for the disk, on this thread. */
const SHORT_PAGES = 4_096;
/** The longer the log is, the slower a disk is good enough for the copying: so many pages for each ms of the last sync. */
const PAGES_PER_MS = 500;

/** A sync that runs, or waits for the one before it. */
interface Sync {
  /** The count of changes when it began; null before. */
  changes: number | null;
  done: Promise<void>;
}

/**
 * The write-ahead log of a database with `synchronous = NORMAL`: a commit writes to it, and does not wait for the disk. The
 * process may be killed at any moment then; what the machine's end could take away is what came after the last sync.
 */
export class WriteAheadLog {
  readonly #database: Database;
  readonly #descriptor: number;
  readonly #sync: (descriptor: number) => Promise<void>;
  readonly #count: () => number;
  /** The count of changes as of the last sync. None at first: a host that was killed may have left more in the log. */
  #onDisk = -1;
  /** The sync that was asked for last, until it has ended. */
  #newest: Sync | null = null;
  /** Whether the last sync failed. */
  #failed = false;

  /**
   * @param database opened, in WAL mode and exclusively: so its log is one file until it is closed
   * @param sync waits until what was written to the file is on the disk
   */
  constructor(database: Database, sync = promisify(fdatasync)) {
    this.#database = database;
    this.#sync = sync;
    // Of the log alone: closing the database's own file anywhere in the process would give up SQLite's locks on it.
    this.#descriptor = openSync(`${database.name}-wal`, 'r');
    const count = database.prepare<[], number>('SELECT total_changes()').pluck();
    this.#count = () => count.get()!;
  }

  /**
   * Resolves when all that was committed before the call is on the disk. Calls at one time share a sync. Once the database is
   * closed all is there.
   * @throws {Error} when the disk does not take it; the next call tries again
   */
  async synced(): Promise<void> {
    if (!this.#database.open) return;
    const changes = this.#count();
    if (changes === this.#onDisk) return;
    const newest = this.#newest;
    if (newest !== null && (newest.changes === null || newest.changes === changes)) return newest.done;
    const sync: Sync = { changes: null, done: Promise.resolve() };
    sync.done = this.#run(sync, newest?.done);
    this.#newest = sync;
    return sync.done;
  }

  /** To be called after the database was closed, which syncs and removes the log. */
  close(): void {
    const close = () => closeSync(this.#descriptor);
    // Not under a sync: its descriptor could be another file's by then.
    if (this.#newest) this.#newest.done.then(close, close);
    else close();
  }

  /**
   * Syncs once the sync before has ended: of two at once only one would hear of an error. All that it changes here is changed
   * before whoever waits for it goes on.
   */
  async #run(sync: Sync, before: Promise<void> | undefined): Promise<void> {
    await before?.catch(() => {});
    try {
      if (!this.#database.open) return;
      const changes = this.#count();
      sync.changes = changes;
      if (this.#failed) await this.#syncAgain();
      else await this.#syncNow(changes);
      this.#failed = false;
      this.#onDisk = changes;
    } catch (error) {
      this.#failed = true;
      throw error;
    } finally {
      if (this.#newest === sync) this.#newest = null;
    }
  }

  async #syncNow(changes: number): Promise<void> {
    const begun = performance.now();
    await this.#sync(this.#descriptor);
    this.#shorten(changes, performance.now() - begun);
  }

  /**
   * Syncs after a failure. The kernel may have dropped what it could not write, and say nothing of it when it is asked
   * again: so all of the log is copied into the database, which waits for the disk, and the log is emptied. With a part of it
   * missing, the rest would be copied over the newer database after the machine's end.
   */
  async #syncAgain(): Promise<void> {
    const [{ busy }] = this.#database.pragma('wal_checkpoint(TRUNCATE)') as [{ busy: number }];
    if (busy !== 0) throw new Error(`${this.#database.name} is being read: its log cannot be emptied`);
    await this.#sync(this.#descriptor);
  }

  /** Copies a long log into the database, where that takes little: all of it is on the disk, which was fast at that. */
  #shorten(changes: number, syncMs: number): void {
    if (!this.#database.open || this.#count() !== changes) return;
    const pages = this.#pages();
    if (pages < SHORT_PAGES || pages < syncMs * PAGES_PER_MS) return;
    try {
      this.#database.pragma('wal_checkpoint(PASSIVE)');
    } catch {
      // A full disk, for example. Nothing is lost by it, and the next sync tries again.
    }
  }

  /** Pages of the log that are not in the database yet. */
  #pages(): number {
    const [{ log, checkpointed }] = this.#database.pragma('wal_checkpoint(NOOP)') as [
      { log: number; checkpointed: number },
    ];
    return log - checkpointed;
  }
}
