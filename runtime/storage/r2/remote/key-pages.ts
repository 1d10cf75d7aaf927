// Lists the keys of a bucket in order, a page of the store's list at a time. The store need not support delimiters:
// `from` skips keys within a page, or starts the next page after them.
import type { Stored } from '../../../bucket/store.ts';
import { nameBefore } from './key-names.ts';
import type { ObjectClient } from './object-client.ts';
import { keyOfRecord, recordName } from './records.ts';

interface ListedKey {
  key: Buffer;
  stored: Stored;
}

export class KeyPages {
  readonly #client: ObjectClient;
  readonly #bucket: string;
  readonly #prefix: Buffer;
  /** The rest of the page that was listed last: its keys from the previous call's `from` on. */
  #keys: ListedKey[] = [];
  /** Whether the store's list may have another page. */
  #hasMore = true;

  constructor(client: ObjectClient, bucket: string, prefix: string) {
    this.#client = client;
    this.#bucket = bucket;
    this.#prefix = Buffer.from(prefix, 'utf8');
  }

  /**
   * Returns keys with the prefix, from `from` on; an empty list at the end. `from` must be greater in each call.
   * @throws {R2Error} when the bucket does not answer
   */
  async from(from: Buffer): Promise<ListedKey[]> {
    const listed = recordName(this.#bucket, this.#prefix.toString('utf8'));
    if (this.#client.room(listed) < 0) return [];
    let after = this.#nameBefore(from);
    for (;;) {
      const first = this.#keys.findIndex(({ key }) => Buffer.compare(key, from) >= 0);
      if (first !== -1) {
        this.#keys = this.#keys.slice(first);
        return this.#keys;
      }
      if (!this.#hasMore) return [];
      const { objects, next } = await this.#client.list(listed, { after });
      this.#keys = objects.flatMap((stored) => {
        const found = keyOfRecord(stored.name);
        return found === null ? [] : { key: found.key, stored };
      });
      this.#hasMore = next !== null;
      after = objects.at(-1)?.name ?? after;
    }
  }

  /** Returns a name after which the store's list has all keys from `from` on; null for the start of the list. */
  #nameBefore(from: Buffer): string | null {
    if (from.equals(this.#prefix)) return null;
    const name = nameBefore(from);
    return name === null ? null : recordName(this.#bucket, '') + name;
  }
}
