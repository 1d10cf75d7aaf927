// Keeps a record of each app in the bucket: what another machine needs to run the app.
import type { WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import type { AppRecord, AppRecordQueries, DeletedApp } from '../../../sqlite/host/app-records.ts';
import { each } from '../app-folder.ts';
import type { S3Store } from '../s3-store.ts';
import { ChangedObject, ifThere } from '../store.ts';
import { damagedRecord, readRecord } from './record-content.ts';

/** Folder of the records, below the prefix of the bucket. */
export const RECORDS = 'records/';

/** Folder of the last records of deleted apps, kept while the apps can be undeleted. */
const DELETED = 'deleted/';

export type RecordStore = Pick<S3Store, 'etagOf' | 'readTagged' | 'writeIf' | 'remove'>;

/** Maximum attempts to take a record while another host keeps changing it. */
const TAKES = 5;

/** Another host is the app's home: the host that runs the app and writes its record. */
export class OtherHome extends Error {
  constructor(appId: string) {
    super(`another host is the home of app ${appId}`);
  }
}

/** The app was deleted, or has moved to the disk of a host. What the bucket still has of it will be removed. */
export class LeftBucket extends Error {
  constructor(appId: string) {
    super(`the bucket no longer has app ${appId}: it was deleted, or is on the disk of another host`);
  }
}

/** The record in the bucket has a newer state of the app than the one to write. */
export class NewerRecord extends Error {
  readonly generation: number;
  constructor(appId: string, generation: number) {
    super(`the record of app ${appId} is of generation ${generation}`);
    this.generation = generation;
  }
}

/** Writes of one app's record. */
interface Writes {
  running: Promise<void>;
  /** The next write. The running one may have read the app before the latest change. */
  next: Promise<void> | null;
}

export class AppRecords {
  readonly #queries: AppRecordQueries;
  readonly #store: RecordStore;
  readonly #ready: () => Promise<void>;
  /** Writes by app: a slow write of one app's record must not delay the records of other apps. */
  readonly #writes = new Map<string, Writes>();
  #round: Promise<void> | null = null;
  /** Etags of the records as last read or written, by app. */
  readonly #etags = new Map<string, string>();
  /** Apps whose record another host writes. */
  readonly #elsewhere = new Set<string>();
  readonly #self: string | null;

  /**
   * @param ready resolves when the bucket may be used
   * @param self the id of this host; null in a Cellar of one host
   */
  constructor(
    queries: AppRecordQueries,
    store: RecordStore,
    ready: () => Promise<void>,
    self: string | null = null,
  ) {
    this.#queries = queries;
    this.#store = store;
    this.#ready = ready;
    this.#self = self;
  }

  /**
   * Resolves when the record in the bucket has all earlier changes of an app. Does nothing for an app on the disk.
   * @throws {OtherHome}; {Error} when the bucket refuses the record; `storeAll` tries again
   */
  async stored(appId: string): Promise<void> {
    if (this.#queries.changeOf(appId) === null) return;
    if (this.#elsewhere.has(appId)) throw new OtherHome(appId);
    const writes = this.#writes.get(appId);
    if (writes === undefined) return this.#begin(appId);
    writes.next ??= writes.running.catch(() => {}).then(() => this.stored(appId));
    return writes.next;
  }

  /**
   * Writes every changed record, except of apps that another host has taken. Concurrent calls share one run.
   * @throws {Error} when the bucket refuses a record; the next call tries again
   */
  storeAll(): Promise<void> {
    this.#round ??= this.#storeAll().finally(() => {
      this.#round = null;
    });
    return this.#round;
  }

  /**
   * Returns the record of an app of this or another host; null without one, and for a deleted app.
   * @throws {Error} when the bucket does not answer, or the record is damaged
   */
  async read(appId: string): Promise<AppRecord | null> {
    await this.#ready();
    const found = await this.#read(appId);
    return found === null || 'deletedApp' in found.record ? null : found.record;
  }

  /** Whether another host has taken an app that this one knows. @throws {Error} when the bucket does not answer */
  async isElsewhere(appId: string): Promise<boolean> {
    if (this.#elsewhere.has(appId)) return true;
    await this.#ready();
    try {
      const etag = await this.#tagOf(appId);
      if (etag !== null) this.#etags.set(appId, etag);
      return false;
    } catch (error) {
      if (error instanceof OtherHome) return true;
      throw error;
    }
  }

  /**
   * Like `stored`, but always checks that this host is still the home: another host may have undeleted the app.
   * @throws as `stored` does
   */
  async requireOwn(appId: string): Promise<void> {
    await this.stored(appId);
    if (await this.isElsewhere(appId)) throw new OtherHome(appId);
  }

  /**
   * Takes the records of an app and its previews: from now on only this host can write them.
   * @param wanted the app's state, with this host as its home. If it undeletes the app, the record from before the deletion
   *   is restored
   * @returns the records, the app's first; null when the bucket has none
   * @throws {NewerRecord} when `wanted` is older than the record; {LeftBucket}; {Error} when the bucket does not answer
   */
  async take(wanted: WantedApp): Promise<AppRecord[] | null> {
    await this.#ready();
    const { undeleted } = wanted;
    const before = undeleted === undefined ? undefined : () => this.#readDeleted(wanted.id, undeleted);
    const app = await this.#take(
      wanted.id,
      (record) => {
        // A delayed request must not take the app back from its newer home.
        if (record.wanted.generation > wanted.generation)
          throw new NewerRecord(wanted.id, record.wanted.generation);
        return { ...record, wanted };
      },
      before,
    );
    if (app === null) return null;
    if ('deletedApp' in app) throw new LeftBucket(wanted.id);
    const { home, generation } = wanted;
    const previews = await Promise.all(
      (app.previews ?? []).map((id) =>
        this.#take(id, (record) => ({
          ...record,
          wanted: { ...record.wanted, generation, ...(home !== undefined && { home }) },
        })),
      ),
    );
    const isThere = (record: (typeof previews)[number]) =>
      record === null || 'deletedApp' in record || record.preview === null ? [] : [record];
    return [app, ...previews.flatMap(isThere)];
  }

  /**
   * Writes the record of an app for its next home, unless that host has taken it already.
   * @throws {Error} when the bucket does not take the record
   */
  async leave(appId: string): Promise<void> {
    if (!this.#elsewhere.has(appId)) {
      this.#queries.change(appId);
      await this.stored(appId).catch((error: unknown) => {
        if (!(error instanceof OtherHome)) throw error;
      });
    }
    this.#etags.delete(appId);
    this.#elsewhere.delete(appId);
  }

  /** @param before returns the record of a deleted app from before its deletion; null when the app stays deleted */
  async #take(
    appId: string,
    change: (record: AppRecord) => AppRecord,
    before: () => Promise<AppRecord | null> = async () => null,
  ): Promise<AppRecord | DeletedApp | null> {
    for (let tries = 1; ; tries++) {
      const found = await this.#read(appId);
      if (found === null) return null;
      const last = 'deletedApp' in found.record ? await before() : found.record;
      if (last === null) return found.record;
      const record = change(last);
      try {
        const etag = await this.#store.writeIf(nameOf(appId), bytesOf(record), found.etag);
        this.#elsewhere.delete(appId);
        this.#etags.set(appId, etag);
        // The app is no longer deleted. If this removal fails, the next deletion replaces the object.
        if ('deletedApp' in found.record) await this.#store.remove(deletedNameOf(appId)).catch(() => {});
        return record;
      } catch (error) {
        if (!(error instanceof ChangedObject) || tries === TAKES) throw error;
      }
    }
  }

  /**
   * Returns a deleted app's last record before its deletion, or null. `undeleted` is the generation of the undeletion. A
   * record that is not older belongs to a later deletion, which must stand.
   */
  async #readDeleted(appId: string, undeleted: number): Promise<AppRecord | null> {
    const name = deletedNameOf(appId);
    const found = await ifThere(this.#store.readTagged(name));
    if (found === null) return null;
    try {
      const record = readRecord(found.bytes, appId);
      return 'deletedApp' in record || record.wanted.generation >= undeleted ? null : record;
    } catch (error) {
      throw damagedRecord(name, error);
    }
  }

  async #read(appId: string): Promise<{ record: AppRecord | DeletedApp; etag: string } | null> {
    const name = nameOf(appId);
    const found = await ifThere(this.#store.readTagged(name));
    if (found === null) return null;
    try {
      return { record: readRecord(found.bytes, appId), etag: found.etag };
    } catch (error) {
      throw damagedRecord(name, error);
    }
  }

  /** Returns the etag of a record in the bucket; null without a record. @throws {OtherHome} */
  async #tagOf(appId: string): Promise<string | null> {
    if (this.#self === null) return this.#store.etagOf(nameOf(appId));
    const found = await this.#read(appId);
    if (found === null) return null;
    const home = 'deletedApp' in found.record ? found.record.home : found.record.wanted.home;
    if (home === undefined || home === this.#self) return found.etag;
    this.#elsewhere.add(appId);
    throw new OtherHome(appId);
  }

  /** Adds this host to the record of a deleted app; the record of any other app has it already. */
  #own(record: AppRecord | DeletedApp): AppRecord | DeletedApp {
    if (this.#self === null || !('deletedApp' in record)) return record;
    return { ...record, home: this.#self };
  }

  async #storeAll(): Promise<void> {
    const failures: unknown[] = [];
    const changed = this.#queries.changed().filter(({ appId }) => !this.#elsewhere.has(appId));
    await each(changed, ({ appId }) => this.stored(appId).catch((error: unknown) => failures.push(error)));
    if (failures.length > 0) throw failures[0];
  }

  #begin(appId: string): Promise<void> {
    const running = this.#storeOne(appId).finally(() => {
      if (this.#writes.get(appId)?.running === running) this.#writes.delete(appId);
    });
    this.#writes.set(appId, { running, next: null });
    return running;
  }

  /** Stores a deleted app's last record, before the deletion replaces it. Does nothing for an app that moved to a disk. */
  async #storeDeleted(appId: string): Promise<void> {
    const kept = this.#queries.kept(appId);
    if (kept === null) return;
    const name = deletedNameOf(appId);
    await this.#store.writeIf(name, bytesOf(kept.record), await this.#store.etagOf(name));
  }

  /** Writes or removes an app's record. Writes are conditional on the etag: a delayed write must not replace a newer one. */
  async #storeOne(appId: string): Promise<void> {
    const changed = this.#queries.changeOf(appId);
    if (changed === null) return;
    await this.#ready();
    const name = nameOf(appId);
    const read = this.#queries.read(appId);
    const record = read && this.#own(read);
    const known = this.#etags.get(appId);
    this.#etags.delete(appId);
    if (record === null) {
      // Removals cannot be conditional, so this checks first that no other host has the app.
      if (this.#self !== null) await this.#tagOf(appId);
      await this.#store.remove(deletedNameOf(appId));
      await this.#store.remove(name);
    } else {
      const etag = known ?? (await this.#tagOf(appId));
      if ('deletedApp' in record) await this.#storeDeleted(appId);
      try {
        this.#etags.set(appId, await this.#store.writeIf(name, bytesOf(record), etag));
      } catch (error) {
        // Throws `OtherHome` if another host has taken the app.
        if (error instanceof ChangedObject) await this.#tagOf(appId);
        throw error;
      }
    }
    this.#queries.written(changed);
  }
}

/** Returns the name of a deleted app's last record. */
export function deletedNameOf(appId: string): string {
  return `${DELETED}${appId}.json`;
}

function nameOf(appId: string): string {
  return `${RECORDS}${appId}.json`;
}

function bytesOf(record: AppRecord | DeletedApp): Buffer<ArrayBuffer> {
  return Buffer.from(JSON.stringify(record));
}
