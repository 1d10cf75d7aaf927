// Keeps a record of each app in the bucket: what another machine needs to run the app.
import type { AppRecordQueries } from '../../../sqlite/host/app-records.ts';
import { each } from '../app-folder.ts';
import type { S3Store } from '../s3-store.ts';

/** Folder of the records, below the prefix of the bucket. */
export const RECORDS = 'records/';

/** What keeps the records. */
export type RecordStore = Pick<S3Store, 'etagOf' | 'writeIf' | 'remove'>;

/** Writes of one app's record. */
interface Writes {
  running: Promise<void>;
  /** Begins after the running one, which may have read the record before its last change. */
  next: Promise<void> | null;
}

export class AppRecords {
  readonly #queries: AppRecordQueries;
  readonly #store: RecordStore;
  readonly #ready: () => Promise<void>;
  /** By app: a record whose write takes long must not hold up those of others. */
  readonly #writes = new Map<string, Writes>();
  #round: Promise<void> | null = null;
  /** The tags of records that were written last, by app. */
  readonly #etags = new Map<string, string>();

  /** @param ready resolves when the bucket may be used */
  constructor(queries: AppRecordQueries, store: RecordStore, ready: () => Promise<void>) {
    this.#queries = queries;
    this.#store = store;
    this.#ready = ready;
  }

  /**
   * Resolves when the record of an app has everything that was written before. Costs nothing for an app on this machine.
   * @throws {Error} when the bucket does not take it; it is tried again
   */
  async stored(appId: string): Promise<void> {
    if (this.#queries.changeOf(appId) === null) return;
    const writes = this.#writes.get(appId);
    if (writes === undefined) return this.#begin(appId);
    writes.next ??= writes.running.catch(() => {}).then(() => this.stored(appId));
    return writes.next;
  }

  /**
   * Writes every changed record. Calls during a round wait for the same one.
   * @throws {Error} when the bucket does not take one; it is tried again
   */
  storeAll(): Promise<void> {
    this.#round ??= this.#storeAll().finally(() => {
      this.#round = null;
    });
    return this.#round;
  }

  async #storeAll(): Promise<void> {
    const failures: unknown[] = [];
    await each(this.#queries.changed(), ({ appId }) =>
      this.stored(appId).catch((error: unknown) => failures.push(error)),
    );
    if (failures.length > 0) throw failures[0];
  }

  #begin(appId: string): Promise<void> {
    const running = this.#storeOne(appId).finally(() => {
      if (this.#writes.get(appId)?.running === running) this.#writes.delete(appId);
    });
    this.#writes.set(appId, { running, next: null });
    return running;
  }

  /** Each write replaces a known content: an earlier write that arrives late must not replace a newer one. */
  async #storeOne(appId: string): Promise<void> {
    const changed = this.#queries.changeOf(appId);
    if (changed === null) return;
    await this.#ready();
    const name = `${RECORDS}${appId}.json`;
    const record = this.#queries.read(appId);
    const known = this.#etags.get(appId);
    this.#etags.delete(appId);
    if (record === null) await this.#store.remove(name);
    else {
      const etag = known ?? (await this.#store.etagOf(name));
      this.#etags.set(appId, await this.#store.writeIf(name, Buffer.from(JSON.stringify(record)), etag));
    }
    this.#queries.written(changed);
  }
}
