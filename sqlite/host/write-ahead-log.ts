// Syncs commits of the host's database to the disk. Only checkpoints of the write-ahead log block the thread.
import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';
import type { Database } from 'better-sqlite3';

/** Minimum pages of the log (16 MiB) for a checkpoint, which blocks this thread until the disk has the data. */
const MIN_CHECKPOINT_PAGES = 4_096;
/** Minimum pages of the log for each ms of the last sync. A slow disk delays the checkpoint until the log is longer. */
const PAGES_PER_MS = 500;

/** A sync that runs, or waits for the previous one. */
interface Sync {
  /** The change count when it began; null before. */
  changes: number | null;
  done: Promise<void>;
}

/**
 * The write-ahead log of a database with `synchronous = NORMAL`. A commit writes to it without a sync. Killing the process
 * loses nothing; a crash of the machine loses only commits after the last sync.
 */
export class WriteAheadLog {
  readonly #database: Database;
  readonly #descriptor: number;
  readonly #sync: (descriptor: number) => Promise<void>;
  readonly #count: () => number;
  /** The change count at the last sync. -1 at first: a killed host may have left unsynced commits in the log. */
  #syncedChanges = -1;
  /** The sync requested last, until it has ended. */
  #newest: Sync | null = null;
  /** Whether the last sync failed. */
  #failed = false;

  /**
   * @param database opened in WAL mode with an exclusive lock: so its log stays the same file until it is closed
   * @param sync syncs a file to the disk
   */
  constructor(database: Database, sync = promisify(fdatasync)) {
    this.#database = database;
    this.#sync = sync;
    // Opens only the log: closing a descriptor of the database file in this process would release SQLite's locks.
    this.#descriptor = openSync(`${database.name}-wal`, 'r');
    const count = database.prepare<[], number>('SELECT total_changes()').pluck();
    this.#count = () => count.get()!;
  }

  /**
   * Resolves when all earlier commits are synced to the disk; at once for a closed database. Concurrent calls share a sync.
   * @throws {Error} when the sync fails; the next call retries
   */
  async synced(): Promise<void> {
    if (!this.#database.open) return;
    const changes = this.#count();
    if (changes === this.#syncedChanges) return;
    const newest = this.#newest;
    if (newest !== null && (newest.changes === null || newest.changes === changes)) return newest.done;
    const sync: Sync = { changes: null, done: Promise.resolve() };
    sync.done = this.#run(sync, newest?.done);
    this.#newest = sync;
    return sync.done;
  }

  /** Closes the descriptor. Call it after the database was closed, which syncs and removes the log. */
  close(): void {
    const close = () => closeSync(this.#descriptor);
    // Not during a sync: another file could get the same descriptor.
    if (this.#newest) this.#newest.done.then(close, close);
    else close();
  }

  /**
   * Syncs after the previous sync has ended: of two concurrent syncs only one would get an error. Updates all fields before
   * its promise settles.
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
      this.#syncedChanges = changes;
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
    this.#checkpoint(changes, performance.now() - begun);
  }

  /**
   * Syncs after a failure. The kernel may have dropped pages that it could not write, and a second fsync reports no error.
   * So a checkpoint copies the whole log into the database, syncs it, and empties the log. If part of the log were missing,
   * recovery after a crash would copy the rest over the newer database.
   */
  async #syncAgain(): Promise<void> {
    const [{ busy }] = this.#database.pragma('wal_checkpoint(TRUNCATE)') as [{ busy: number }];
    if (busy !== 0)
      throw new Error(`${this.#database.name} is being read, so its write-ahead log cannot be emptied`);
    await this.#sync(this.#descriptor);
  }

  /** Runs a checkpoint of a long log if that is cheap: all of it is synced, and the disk was fast. */
  #checkpoint(changes: number, syncMs: number): void {
    if (!this.#database.open || this.#count() !== changes) return;
    const pages = this.#pages();
    if (pages < MIN_CHECKPOINT_PAGES || pages < syncMs * PAGES_PER_MS) return;
    try {
      this.#database.pragma('wal_checkpoint(PASSIVE)');
    } catch {
      // A full disk, for example. Nothing is lost, and the next sync retries.
    }
  }

  /** Returns the pages of the log that are not in the database yet. */
  #pages(): number {
    const [{ log, checkpointed }] = this.#database.pragma('wal_checkpoint(NOOP)') as [
      { log: number; checkpointed: number },
    ];
    return log - checkpointed;
  }
}
