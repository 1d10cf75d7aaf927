// Removes dropped blobs from the bucket after a delay, once no reader uses them and no hold defers removals.
import type { BlobRow } from '../../../../sqlite/storage/objects.ts';
import { log, reason } from '../../../log.ts';
import { fewAtOnce } from './few-at-once.ts';
import type { ObjectClient } from './object-client.ts';

/** Delay of a removal, in ms: a reader that read a record just before its replacement needs the record's blobs. */
const DELAY_MS = 10_000;

export class BlobRemovals {
  readonly #client: ObjectClient;
  /** Number of current readers, by version of the object. */
  readonly #readers = new Map<string, number>();
  /** Blobs to remove once their version has no readers, by version of the object. */
  readonly #doomed = new Map<string, string[]>();
  /** Blobs to remove. `at`: the earliest time to remove one, as `performance.now()`. */
  #dropped: { name: string; at: number }[] = [];
  #isHeld = false;
  #removing: Promise<void> | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(client: ObjectClient) {
    this.#client = client;
  }

  /** Protects the blobs of an object's version from removal. @returns a function that ends this */
  read(version: string): () => void {
    this.#readers.set(version, (this.#readers.get(version) ?? 0) + 1);
    return () => {
      const left = this.#readers.get(version)! - 1;
      if (left > 0) {
        this.#readers.set(version, left);
        return;
      }
      this.#readers.delete(version);
      const doomed = this.#doomed.get(version) ?? [];
      this.#doomed.delete(version);
      this.#drop(doomed);
    };
  }

  /**
   * Removes blobs later. After an interruption, the next `tidy` removes them.
   * @param version the version of the object whose readers may use the blobs; left out: no reader uses them
   */
  drop(blobs: readonly Pick<BlobRow, 'file'>[], version?: string): void {
    const names = blobs.map(({ file }) => file);
    if (version !== undefined && this.#readers.has(version)) this.#doomed.set(version, names);
    else this.#drop(names);
  }

  /** `true`: defers removals from now on, and waits for a running one. `false`: resumes removals. */
  async hold(isHeld: boolean): Promise<void> {
    this.#isHeld = isHeld;
    if (isHeld) await this.#removing;
    else this.#plan();
  }

  /** Removes all dropped blobs, unless a hold defers removals. Call it when no reader uses them. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#removing;
    if (!this.#isHeld) await this.#remove(Number.POSITIVE_INFINITY);
  }

  #drop(names: string[]): void {
    const at = performance.now() + DELAY_MS;
    for (const name of names) this.#dropped.push({ name, at });
    this.#plan();
  }

  #plan(): void {
    if (this.#isHeld || this.#dropped.length === 0 || this.#removing !== null) return;
    clearTimeout(this.#timer);
    const next = this.#dropped.reduce((least, { at }) => Math.min(least, at), Number.POSITIVE_INFINITY);
    this.#timer = setTimeout(
      () => {
        this.#removing ??= this.#remove(performance.now()).finally(() => {
          this.#removing = null;
          this.#plan();
        });
      },
      Math.max(0, next - performance.now()),
    ).unref();
  }

  /** Removes the blobs that may be removed at `now`. Never rejects. */
  async #remove(now: number): Promise<void> {
    const due = this.#dropped.filter(({ at }) => at <= now);
    this.#dropped = this.#dropped.filter(({ at }) => at > now);
    try {
      await fewAtOnce(due, async (each) => {
        if (this.#isHeld) this.#dropped.push(each);
        else await this.#client.remove(each.name);
      });
    } catch (error) {
      log('warn', 'unused bytes of objects stay in the bucket until the next tidying', {
        error: reason(error),
      });
    }
  }
}
