// Opens the store of an app whose R2 objects are in the bucket, and tidies it from time to time.
import type { S3Place } from '../../../bucket/place.ts';
import { log, reason } from '../../../log.ts';
import type { ObjectStore, OpenStores } from '../bucket/object-store.ts';
import { moveIn } from './move-in.ts';
import { ObjectClient } from './object-client.ts';
import { RemoteStore } from './remote-store.ts';
import { tidy } from './tidy.ts';

/** Time from the first use of a store until it is tidied, in ms. */
const FIRST_TIDY_MS = 60 * 60_000;
/** Time from the end of a tidying to the next one, in ms. It is long, because tidying may read all records. */
const TIDY_EVERY_MS = 7 * 24 * 60 * 60_000;

export class RemoteStores implements OpenStores {
  readonly #directory: string;
  readonly #client: ObjectClient;
  readonly #store: RemoteStore;
  #movedIn: Promise<void> | null = null;
  #tidied: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #users = 0;
  #isClosed = false;
  #onUnused: () => void = () => {};

  /** @param directory may have objects of the app on the disk, which are first moved into the bucket */
  constructor(directory: string, place: S3Place) {
    this.#directory = directory;
    this.#client = new ObjectClient(place);
    this.#store = new RemoteStore(this.#client);
  }

  hold(isHeld: boolean): Promise<void> {
    return this.#store.removals.hold(isHeld);
  }

  async during<T>(work: (store: ObjectStore) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new Error('the buckets are closed');
    this.#users++;
    try {
      await this.#ready();
      return await work(this.#store);
    } finally {
      if (--this.#users === 0) this.#onUnused();
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    if (this.#users > 0) await new Promise<void>((resolve) => (this.#onUnused = resolve));
    await this.#tidied;
    await this.#store.removals.close();
    await this.#client.close();
  }

  #ready(): Promise<void> {
    if (this.#movedIn === null) {
      this.#movedIn = moveIn(this.#directory, this.#client);
      this.#movedIn.then(
        () => this.#tidyIn(FIRST_TIDY_MS),
        () => {
          this.#movedIn = null;
        },
      );
    }
    return this.#movedIn;
  }

  #tidyIn(delayMs: number): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#tidied = tidy(this.#client, this.#store, Date.now())
        .catch((error: unknown) =>
          log('warn', 'unused files of R2 buckets could not be removed', { error: reason(error) }),
        )
        .finally(() => this.#tidyIn(TIDY_EVERY_MS));
    }, delayMs).unref();
  }
}
