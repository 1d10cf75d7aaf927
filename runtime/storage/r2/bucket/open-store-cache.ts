// Caches an app's open buckets: closes them some time after the last use.
import { join } from 'node:path';
import { log, reason } from '../../../log.ts';
import { Removals } from '../bytes/removals.ts';
import { BLOBS, BucketStore } from './bucket-store.ts';
import type { ObjectStore, OpenStores } from './object-store.ts';

/** Idle time after which an app's buckets are closed, in ms. An open index takes memory and three file descriptors. */
const UNUSED_MS = 30_000;

export class OpenStoreCache implements OpenStores {
  readonly #directory: string;
  readonly #removals: Removals;
  #store: Promise<BucketStore> | null = null;
  /** Resolves when the latest close has ended: only then may the index be opened again. */
  #shutting: Promise<void> = Promise.resolve();
  /** Whether this process has begun to remove orphaned files of the previous process. */
  #swept = false;
  #users = 0;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  #onUnused: () => void = () => {};

  /** @param directory the directory of an app's buckets */
  constructor(directory: string) {
    this.#directory = directory;
    this.#removals = new Removals(join(directory, BLOBS));
  }

  hold(isHeld: boolean): Promise<void> {
    return this.#removals.hold(isHeld);
  }

  async during<T>(work: (store: ObjectStore) => Promise<T>): Promise<T> {
    if (this.#closed) throw new Error('the buckets are closed');
    this.#users++;
    clearTimeout(this.#timer);
    try {
      this.#store ??= this.#open();
      return await work(await this.#store);
    } finally {
      if (--this.#users === 0) this.#leave();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    if (this.#users > 0) await new Promise<void>((resolve) => (this.#onUnused = resolve));
    await this.#shut();
  }

  #leave(): void {
    this.#onUnused();
    if (!this.#closed) this.#timer = setTimeout(() => void this.#shut(), UNUSED_MS).unref();
  }

  async #open(): Promise<BucketStore> {
    await this.#shutting;
    try {
      const store = await BucketStore.open(this.#directory, this.#removals, !this.#swept);
      this.#swept = true;
      return store;
    } catch (error) {
      this.#store = null;
      throw error;
    }
  }

  #shut(): Promise<void> {
    const store = this.#store;
    this.#store = null;
    this.#shutting = this.#shutting
      .then(async () => (await store)?.close())
      .catch((error: unknown) =>
        log('error', 'the index of an app could not be closed', { error: reason(error) }),
      );
    return this.#shutting;
  }
}
