// Keeps a record of each app in the bucket: what another machine needs to run the app.
import type { AppRecordQueries, ChangedRecord } from '../../../sqlite/host/app-records.ts';
import { each } from '../app-folder.ts';
import type { Store } from '../store.ts';

/** Folder of the records, below the prefix of the bucket. */
export const RECORDS = 'records/';

export class AppRecords {
  readonly #queries: AppRecordQueries;
  readonly #store: Pick<Store, 'write' | 'remove'>;
  readonly #ready: () => Promise<void>;
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  /** @param ready resolves when the bucket may be used */
  constructor(queries: AppRecordQueries, store: Pick<Store, 'write' | 'remove'>, ready: () => Promise<void>) {
    this.#queries = queries;
    this.#store = store;
    this.#ready = ready;
  }

  /**
   * Resolves when the record of an app has everything that was written before. Costs nothing for an app on this machine.
   * @throws {Error} when the bucket does not take it; it is tried again
   */
  async stored(appId: string): Promise<void> {
    if (this.#queries.isChanged(appId)) await this.storeAll();
  }

  /** Writes every changed record. @throws {Error} when the bucket does not take them; they are tried again */
  storeAll(): Promise<void> {
    if (this.#running === null) return this.#start();
    // The running round may have read a record before its last change.
    this.#next ??= this.#running
      .catch(() => {})
      .then(() => {
        this.#next = null;
        return this.#start();
      });
    return this.#next;
  }

  #start(): Promise<void> {
    const running = this.#storeAll().finally(() => {
      if (this.#running === running) this.#running = null;
    });
    this.#running = running;
    return running;
  }

  async #storeAll(): Promise<void> {
    const changed = this.#queries.changed();
    if (changed.length === 0) return;
    await this.#ready();
    await each(changed, (record) => this.#storeOne(record));
  }

  async #storeOne(changed: ChangedRecord): Promise<void> {
    const record = this.#queries.read(changed.appId);
    const name = `${RECORDS}${changed.appId}.json`;
    if (record === null) await this.#store.remove(name);
    else await this.#store.write(name, Buffer.from(JSON.stringify(record)));
    this.#queries.written(changed);
  }
}
