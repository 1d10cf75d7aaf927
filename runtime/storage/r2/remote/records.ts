// The records of objects in the bucket: one small JSON object for each R2 object, replaced with conditional writes.
import type { BlobRow, ObjectRow } from '../../../../sqlite/storage/objects.ts';
import { ifThere, type Stored } from '../../../bucket/store.ts';
import { requireCondition } from '../bucket/conditions.ts';
import { smallBlob } from '../bytes/small-blobs.ts';
import { bucketAway, internalError } from '../errors.ts';
import type { Condition } from '../requests.ts';
import { decodeKey, encodeKey } from './key-names.ts';
import { Conflict, type ObjectClient } from './object-client.ts';

/** The folder of records in the folder of an R2 bucket. Names in it begin with `-`, so that the empty key has a name too. */
const OBJECTS = '/objects/-';
/** Maximum attempts of `replace` while others write the same key. */
const ROUNDS = 20;

/** A blob: its name in the folder of the app's R2 objects, and its size in bytes. */
export type StoredBlob = Pick<BlobRow, 'file' | 'size'>;

/** The record of an object, as it is stored. */
export interface ObjectRecord extends Omit<ObjectRow, 'bucket' | 'key'> {
  blobs: StoredBlob[];
  /** The bytes of a small object, in base64: then it has no blobs. */
  inline?: string;
}

/** A record, and the etag of its version in the store. */
export interface Kept {
  record: ObjectRecord;
  etag: string;
}

/** Returns the name of a key's record. A prefix of keys has a prefix of their names. */
export function recordName(bucket: string, key: string): string {
  return `${bucket}${OBJECTS}${encodeKey(key)}`;
}

/** Returns the bucket and the key from a record's name; null for any other name. */
export function keyOfRecord(name: string): { bucket: string; key: Buffer } | null {
  const at = name.indexOf(OBJECTS);
  if (at < 0 || name.slice(0, at).includes('/')) return null;
  const key = decodeKey(name.slice(at + OBJECTS.length));
  return { bucket: name.slice(0, at), key: Buffer.from(key, 'utf8') };
}

export class Records {
  readonly #client: ObjectClient;

  constructor(client: ObjectClient) {
    this.#client = client;
  }

  /** Returns the record; null without one. @throws {R2Error} when the bucket does not answer, or the record is damaged */
  async read(name: string): Promise<Kept | null> {
    const found = await ifThere(this.#client.read(name));
    return found && { etag: found.etag, record: parse(found.bytes) };
  }

  /**
   * Returns the record that a list names, or a newer one; null when it was deleted meanwhile. The result is cached by
   * name and etag, so that a later list seldom reads it again.
   */
  async listed({ name, etag }: Pick<Stored, 'name' | 'etag'>): Promise<ObjectRecord | null> {
    const reading = smallBlob(`${this.#client.prefix}${name}\0${etag}`, async () => {
      const { bytes } = await this.#client.read(name);
      return bytes;
    });
    const bytes = await ifThere(reading);
    return bytes && parse(bytes);
  }

  /**
   * Replaces a record if the condition holds for it.
   * @returns the previous record; null without one
   * @throws {MaybeWritten} when the write failed but may have stored the record
   * @throws {R2Error} when the condition fails, the bucket does not answer, or others change the record too often
   */
  async replace(name: string, record: ObjectRecord, condition: Condition | undefined): Promise<Kept | null> {
    const bytes = Buffer.from(JSON.stringify(record), 'utf8');
    for (let round = 0; round < ROUNDS; round++) {
      const before = await this.read(name);
      requireCondition(condition, before?.record);
      try {
        await this.#client.write(name, bytes, before ? { ifMatch: before.etag } : { ifNoneMatch: true });
        return before;
      } catch (error) {
        if (!(error instanceof Conflict)) throw new MaybeWritten(error);
        if (!error.isUnsure) continue;
        // An earlier attempt, whose answer was lost, may have written this record.
        const now = await this.read(name).catch((cause) => {
          throw new MaybeWritten(cause);
        });
        if (now?.record.version === record.version) return before;
        throw new MaybeWritten(bucketAway('The object was changed meanwhile. Please try again.'));
      }
    }
    throw bucketAway('The object is changed too often. Please try again.');
  }
}

/** The store may have the new record, although the write failed: its blobs must stay. */
export class MaybeWritten extends Error {
  constructor(cause: unknown) {
    super('the record may have been written', { cause });
  }
}

function parse(bytes: Buffer): ObjectRecord {
  try {
    return JSON.parse(bytes.toString('utf8')) as ObjectRecord;
  } catch {
    throw internalError();
  }
}
