// Stores an app's R2 objects in the bucket of this Cellar: a record for each object, and blobs for its bytes.
import type { ObjectRow, UsageRow } from '../../../../sqlite/storage/objects.ts';
import { type Part, partOf, requireCondition } from '../bucket/conditions.ts';
import { type Listed, listedObject, listKeys } from '../bucket/listing.ts';
import { describe, keyBytes, newVersion, partsOf, requireDigests } from '../bucket/object-rules.ts';
import type { Body, Found, ObjectStore } from '../bucket/object-store.ts';
import { ALGORITHMS } from '../bytes/algorithms.ts';
import type { ResponseWriter } from '../bytes/body.ts';
import { SMALL_BYTES, smallBlob } from '../bytes/small-blobs.ts';
import { invalidKey, noSuchKey, OBJECT_BYTES, R2Error, tooLarge } from '../errors.ts';
import type { RequestOf } from '../requests.ts';
import { BlobRemovals } from './blob-removals.ts';
import { isInline, readInline, writeBlob } from './blob-writer.ts';
import { fewAtOnce } from './few-at-once.ts';
import { KeptBytes } from './kept-bytes.ts';
import { KeyPages } from './key-pages.ts';
import type { ObjectClient } from './object-client.ts';
import { MaybeWritten, type ObjectRecord, Records, recordName, type StoredBlob } from './records.ts';
import { Uploads } from './uploads.ts';

export class RemoteStore implements ObjectStore {
  readonly #client: ObjectClient;
  readonly #kept: KeptBytes;
  readonly records: Records;
  readonly removals: BlobRemovals;
  readonly uploads: Uploads;

  constructor(client: ObjectClient) {
    this.#client = client;
    this.#kept = new KeptBytes(client);
    this.records = new Records(client);
    this.removals = new BlobRemovals(client);
    this.uploads = new Uploads({ client, records: this.records, removals: this.removals });
  }

  async head(bucket: string, { object }: RequestOf<'head'>): Promise<ObjectRow> {
    const { key, record } = await this.#find(bucket, object);
    return rowOf(bucket, key, record);
  }

  async get(bucket: string, request: RequestOf<'get'>, onUnmet: (object: ObjectRow) => void): Promise<Found> {
    const { key, record } = await this.#find(bucket, request.object);
    const release = this.removals.read(record.version);
    try {
      const object = rowOf(bucket, key, record);
      try {
        requireCondition(request.onlyIf, object);
      } catch (error) {
        onUnmet(object);
        throw error;
      }
      const part = partOf(request, object.size);
      return { object, part, open: () => this.#open(record, part), release };
    } catch (error) {
      release();
      throw error;
    }
  }

  async put(bucket: string, request: RequestOf<'put'>, body: Body): Promise<ObjectRow> {
    const { key, name } = this.#named(bucket, request.object);
    const { size } = body;
    if (size > OBJECT_BYTES) throw tooLarge();
    const described = describe(request);
    const given = ALGORITHMS.filter((algorithm) => request[algorithm] !== undefined);
    const algorithms = ['md5' as const, ...given.filter((each) => each !== 'md5')];
    const version = newVersion();
    const file = `${bucket}/blobs/${version}`;
    const inline = isInline(size) ? await readInline(body, algorithms) : null;
    const digests = inline?.digests ?? (await writeBlob(this.#client, file, body, algorithms));
    const md5 = digests.md5!.toString('hex');
    const blobs = inline ? [] : [{ file, size }];
    try {
      const record: ObjectRecord = {
        ...{ version, size, etag: md5, uploaded: Date.now() },
        checksums: JSON.stringify(requireDigests(given, request, digests)),
        ...described,
        blobs,
        ...(inline && { inline: inline.content.toString('base64') }),
      };
      const before = await this.records.replace(name, record, request.onlyIf);
      this.#kept.add(size);
      if (before) this.#drop(before.record.blobs, before.record);
      return rowOf(bucket, key, record);
    } catch (error) {
      if (error instanceof MaybeWritten) throw error.cause;
      this.removals.drop(blobs);
      throw error;
    }
  }

  async delete(bucket: string, { object, objects = [] }: RequestOf<'delete'>): Promise<void> {
    const keys = [...(object === undefined ? [] : [object]), ...objects];
    for (const key of keys) keyBytes(key);
    await fewAtOnce(keys, async (key) => {
      const name = recordName(bucket, key);
      if (this.#client.room(name) < 0) return;
      const before = await this.records.read(name);
      if (before === null) return;
      await this.#client.remove(name);
      this.#drop(before.record.blobs, before.record);
    });
  }

  async list(bucket: string, request: RequestOf<'list'>): Promise<Listed> {
    const pages = new KeyPages(this.#client, bucket, request.prefix ?? '');
    const { rows, ...rest } = await listKeys((from) => pages.from(from), request);
    const objects: (ObjectRow | null)[] = rows.map(() => null);
    await fewAtOnce([...rows.entries()], async ([at, { key, stored }]) => {
      const record = await this.records.listed(stored);
      if (record !== null) objects[at] = listedObject(rowOf(bucket, key, record), request);
    });
    return { ...rest, objects: objects.filter((row) => row !== null) };
  }

  async createUpload(bucket: string, request: RequestOf<'createMultipartUpload'>): Promise<string> {
    this.#named(bucket, request.object);
    return this.uploads.create(bucket, request);
  }

  async uploadPart(bucket: string, request: RequestOf<'uploadPart'>, body: Body): Promise<string> {
    const { etag, size } = await this.uploads.part(bucket, request, body);
    this.#kept.add(size);
    return etag;
  }

  async completeUpload(bucket: string, request: RequestOf<'completeMultipartUpload'>): Promise<ObjectRow> {
    const { key } = this.#named(bucket, request.object);
    const { record, before, unused } = await this.uploads
      .complete(bucket, request)
      .catch((error: unknown) => {
        throw error instanceof MaybeWritten ? error.cause : error;
      });
    this.#drop(unused);
    if (before !== null) {
      const used = new Set(record.blobs.map(({ file }) => file));
      this.#drop(
        before.blobs.filter(({ file }) => !used.has(file)),
        before,
      );
    }
    return rowOf(bucket, key, record);
  }

  async abortUpload(bucket: string, request: RequestOf<'abortMultipartUpload'>): Promise<void> {
    this.#drop(await this.uploads.abort(bucket, request.uploadId, request.object));
  }

  /** Counts objects and bytes in the store. The bytes include records and unfinished uploads. */
  async usage(): Promise<UsageRow[]> {
    const found = new Map<string, UsageRow>();
    for await (const page of this.#client.pages(''))
      for (const { name, bytes } of page) {
        const [bucket, kind] = name.split('/') as [string, string];
        const row = found.get(bucket) ?? { bucket, objects: 0, bytes: 0 };
        if (kind === 'objects') row.objects++;
        row.bytes += bytes;
        found.set(bucket, row);
      }
    return [...found.values()];
  }

  keptBytes(): Promise<number> {
    return this.#kept.bytes();
  }

  /** Removes blobs later, and subtracts their bytes. @param of the record that had the blobs, if any */
  #drop(blobs: StoredBlob[], of?: ObjectRecord): void {
    const inline = of?.inline === undefined ? 0 : of.size;
    this.#kept.add(-blobs.reduce((sum, { size }) => sum + size, inline));
    this.removals.drop(blobs, of?.version);
  }

  /** @throws {R2Error} when there is no such object */
  async #find(bucket: string, object: string): Promise<{ key: Buffer; record: ObjectRecord }> {
    const key = keyBytes(object);
    const name = recordName(bucket, key.toString('utf8'));
    const kept = this.#client.room(name) < 0 ? null : await this.records.read(name);
    if (kept === null) throw noSuchKey();
    return { key, record: kept.record };
  }

  /** @throws {R2Error} when the name is too long for the store */
  #named(bucket: string, object: string): { key: Buffer; name: string } {
    const key = keyBytes(object);
    const name = recordName(bucket, key.toString('utf8'));
    const tooMany = -this.#client.room(name);
    if (tooMany > 0)
      throw new R2Error(
        400,
        invalidKey().code,
        `The object name is ${tooMany} bytes too long: this app keeps its objects in a bucket, where names include its folder.`,
      );
    return { key, name };
  }

  async #open({ blobs, inline, size }: ObjectRecord, part: Part) {
    const end = part.offset + part.length;
    if (inline !== undefined) return Buffer.from(inline, 'base64').subarray(part.offset, end);
    const [only] = blobs;
    if (blobs.length === 1 && size <= SMALL_BYTES) {
      const name = only!.file;
      const bytes = await smallBlob(this.#client.prefix + name, async () => {
        const read = (await this.#client.read(name)).bytes;
        if (read.length !== size) throw new Error('a blob has another size than its record says');
        return read;
      });
      return bytes.subarray(part.offset, end);
    }
    return async (writer: ResponseWriter) => {
      for (const { blob, ...where } of partsOf(blobs, part))
        await this.#client.readStream(blob.file, where, (chunks) => writer.pass(chunks));
    };
  }
}

function rowOf(bucket: string, key: Buffer, { blobs, inline, ...row }: ObjectRecord): ObjectRow {
  return { bucket, key, ...row };
}
