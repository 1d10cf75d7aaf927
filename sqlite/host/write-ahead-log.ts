// Brings what was committed to the host's database to the disk, while the thread that committed it goes on.
import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Database } from 'better-sqlite3';

/** A log with fewer pages (16 MiB) stays as it is: each copying into the database waits for the disk, on this thread. */
const SHORT_PAGES = 4_096;
/** The longer the log is, the slower a disk is good enough for the copying: so many pages for each ms of the last sync. */
const PAGES_PER_MS = 500;

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
  #running: { changes: number; done: Promise<void> } | null = null;
  #next: Promise<void> | null = null;
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
   * Resolves when all that was committed before the call is on the disk. Calls at one time share a sync.
   * @throws {Error} when the disk does not take it; the next call tries again
   */
  synced(): Promise<void> {
    const changes = this.#count();
    if (changes === this.#onDisk) return Promise.resolve();
    if (this.#running === null) return this.#begin(changes);
    if (this.#running.changes === changes) return this.#running.done;
    this.#next ??= this.#running.done
      .catch(() => {})
      .then(() => {
        this.#next = null;
        return this.#begin(this.#count());
      });
    return this.#next;
  }

  /** To be called after the database was closed, which syncs and removes the log. */
  close(): void {
    const close = () => closeSync(this.#descriptor);
    // Not under the sync: its descriptor could be another file's by then.
    if (this.#running) this.#running.done.then(close, close);
    else close();
  }

  #begin(changes: number): Promise<void> {
    const done = (this.#failed ? this.#syncAgain() : this.#syncNow(changes))
      .then(() => {
        this.#onDisk = changes;
      })
      .finally(() => {
        this.#running = null;
      });
    this.#running = { changes, done };
    return done;
  }

  async #syncNow(changes: number): Promise<void> {
    const begun = performance.now();
    try {
      await this.#sync(this.#descriptor);
    } catch (error) {
      this.#failed = true;
      throw error;
    }
    this.#shorten(changes, performance.now() - begun);
  }

  /**
   * Syncs after a failure. The kernel may have dropped what it could not write, and say nothing of it when it is asked
   * again: so all of the log is copied into the database. That waits for the disk.
   */
  async #syncAgain(): Promise<void> {
    this.#checkpoint();
    this.#failed = false;
  }

  /** Copies a long log into the database, where that takes little: all of it is on the disk, which was fast at that. */
  #shorten(changes: number, syncMs: number): void {
    if (!this.#database.open || this.#count() !== changes) return;
    const pages = this.#pages();
    if (pages < SHORT_PAGES || pages < syncMs * PAGES_PER_MS) return;
    try {
      this.#checkpoint();
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

  #checkpoint(): void {
    this.#database.pragma('wal_checkpoint(PASSIVE)');
  }
}
