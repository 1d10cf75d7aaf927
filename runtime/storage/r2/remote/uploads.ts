// Multipart uploads in the bucket. Each part is a blob of its own, so that completing an upload copies nothing.
import { randomBytes } from 'node:crypto';
import type { BlobRow, ObjectRow } from '../../../../sqlite/storage/objects.ts';
import { ifThere } from '../../../bucket/store.ts';
import { SerialQueues } from '../../../queues/serial-queue.ts';
import { chosenParts, describe, keyBytes, newVersion, uploadEtag } from '../bucket/object-rules.ts';
import type { Body } from '../bucket/object-store.ts';
import { internalError, noSuchUpload, OBJECT_BYTES, tooLarge } from '../errors.ts';
import type { RequestOf } from '../requests.ts';
import type { BlobRemovals } from './blob-removals.ts';
import { writeBlob } from './blob-writer.ts';
import type { ObjectClient } from './object-client.ts';
import { type ObjectRecord, type Records, recordName, type StoredBlob } from './records.ts';

export const UPLOADS = '/uploads/';
const ID = /^[\w-]{43}$/;
/** Matches the etag of a part, `<random>.<MD5>`. The part's name has only `<random>`, because the MD5 is known later. */
const PART_ETAG = /^([0-9a-f]{32})\.([0-9a-f]{32})$/;
/** Matches the name of a part, `<number>-<time in ms>-<random>`. Of parts with the same number, the latest counts. */
const PART_NAME = /^(\d{5})-(\d{15})-([0-9a-f]{32})$/;

/** An upload, as it is stored. */
export interface Upload extends Pick<ObjectRow, 'storage_class' | 'http_metadata' | 'custom_metadata'> {
  key: string;
  state: 'open' | 'completed' | 'aborted';
  /** When the upload was created, in ms since 1970. */
  created: number;
  /** The version of the object, stored when a completion begins. */
  version?: string;
}

export interface UploadsOptions {
  client: ObjectClient;
  records: Records;
  removals: BlobRemovals;
}

export class Uploads {
  readonly #client: ObjectClient;
  readonly #records: Records;
  readonly #removals: BlobRemovals;
  /** Completions and aborts of one upload run one after another. */
  readonly #turns = new SerialQueues();
  #lastMs = 0;

  constructor({ client, records, removals }: UploadsOptions) {
    this.#client = client;
    this.#records = records;
    this.#removals = removals;
  }

  async create(bucket: string, request: RequestOf<'createMultipartUpload'>): Promise<string> {
    const described = describe(request);
    const id = randomBytes(32).toString('base64url');
    const key = keyBytes(request.object).toString('utf8');
    await this.#write(bucket, id, { key, state: 'open', created: Date.now(), ...described });
    return id;
  }

  async part(bucket: string, request: RequestOf<'uploadPart'>, body: Body): Promise<BlobRow> {
    const { uploadId, partNumber } = request;
    const key = keyBytes(request.object);
    if (body.size > OBJECT_BYTES) throw tooLarge();
    if (!ID.test(uploadId)) throw noSuchUpload();
    this.#lastMs = Math.max(Date.now(), this.#lastMs + 1);
    const random = randomBytes(16).toString('hex');
    const name = `${String(partNumber).padStart(5, '0')}-${String(this.#lastMs).padStart(15, '0')}-${random}`;
    const file = partsFolder(bucket, uploadId) + name;
    const digests = await writeBlob(this.#client, file, body, ['md5']);
    const md5 = digests.md5!.toString('hex');
    const row = { owner: uploadId, part: partNumber, file, size: body.size, etag: `${random}.${md5}`, md5 };
    // Checked after the write: either this check sees that the upload has ended, or the upload's end sees this part.
    if ((await this.#read(bucket, uploadId, key))?.state === 'open') return row;
    this.#removals.drop([row]);
    throw noSuchUpload();
  }

  /** Completes an upload. @returns the object's record, the record that it replaces (null: none), and the unused parts */
  complete(
    bucket: string,
    request: RequestOf<'completeMultipartUpload'>,
  ): Promise<{ record: ObjectRecord; before: ObjectRecord | null; unused: StoredBlob[] }> {
    const { uploadId, object } = request;
    return this.#turns.run(uploadId, async () => {
      const key = keyBytes(object);
      const upload = await this.#read(bucket, uploadId, key);
      if (upload === null) throw internalError();
      if (upload.state !== 'open') throw noSuchUpload();
      const uploaded = await this.parts(bucket, uploadId);
      const parts = chosenParts(withEtags(uploaded, request.parts), request.parts);
      const name = recordName(bucket, key.toString('utf8'));
      // An interrupted completion is repeated with the same version. That version in the object's record shows that the
      // completion has succeeded.
      const version = upload.version ?? newVersion();
      if (upload.version === undefined) await this.#write(bucket, uploadId, { ...upload, version });
      const { storage_class, http_metadata, custom_metadata } = upload;
      const record: ObjectRecord = {
        version,
        size: parts.reduce((sum, { size }) => sum + size, 0),
        etag: uploadEtag(parts),
        uploaded: Date.now(),
        checksums: '{}',
        ...{ storage_class, http_metadata, custom_metadata },
        blobs: parts.map(({ file, size }) => ({ file, size })),
      };
      const before = await this.#records.replace(name, record, undefined);
      await this.#write(bucket, uploadId, { ...upload, version, state: 'completed' });
      const used = new Set(parts.map(({ file }) => file));
      const unused = uploaded.filter(({ file }) => !used.has(file));
      return { record, before: before?.record ?? null, unused };
    });
  }

  /** Aborts an upload. @returns its parts, which are no longer needed */
  abort(bucket: string, uploadId: string, object: string): Promise<BlobRow[]> {
    return this.#turns.run(uploadId, async () => {
      const key = keyBytes(object);
      const upload = await this.#read(bucket, uploadId, key);
      if (upload === null) throw internalError();
      if (upload.state !== 'open') return [];
      const record = await this.#records.read(recordName(bucket, upload.key));
      const isCompleted = upload.version !== undefined && record?.record.version === upload.version;
      await this.#write(bucket, uploadId, { ...upload, state: isCompleted ? 'completed' : 'aborted' });
      return isCompleted ? [] : this.parts(bucket, uploadId);
    });
  }

  /**
   * Returns all blobs of an upload, also those of replaced parts. `etag` and `md5` are empty: the store's list lacks them.
   */
  async parts(bucket: string, uploadId: string): Promise<BlobRow[]> {
    const folder = partsFolder(bucket, uploadId);
    const rows: BlobRow[] = [];
    for await (const page of this.#client.pages(folder))
      for (const { name, bytes } of page) {
        const [, part] = PART_NAME.exec(name.slice(folder.length)) ?? [];
        if (part === undefined) continue;
        rows.push({ owner: uploadId, part: Number(part), file: name, size: bytes, etag: '', md5: '' });
      }
    return rows;
  }

  /** Returns an upload; null when it is unknown, or of another key. */
  async #read(bucket: string, id: string, key: Buffer): Promise<Upload | null> {
    if (!ID.test(id)) return null;
    const upload = await readUpload(this.#client, bucket + UPLOADS + id);
    return upload?.key === key.toString('utf8') ? upload : null;
  }

  #write(bucket: string, id: string, upload: Upload): Promise<void> {
    return this.#client.write(bucket + UPLOADS + id, Buffer.from(JSON.stringify(upload), 'utf8'));
  }
}

/** Returns an upload by the name of its object in the store; null when the store has none. */
export async function readUpload(client: ObjectClient, name: string): Promise<Upload | null> {
  const found = await ifThere(client.read(name));
  return found && (JSON.parse(found.bytes.toString('utf8')) as Upload);
}

/** Returns the folder of an upload's parts. */
export function partsFolder(bucket: string, uploadId: string): string {
  return `${bucket}/blobs/${uploadId}/`;
}

/** Returns the latest blob of each part. If the chosen etag belongs to that blob, sets `etag` and `md5`. */
function withEtags(uploaded: BlobRow[], chosen: { part: number; etag: string }[]): BlobRow[] {
  // `uploaded` is sorted by name, so a later blob of a part replaces an earlier one.
  const latest = new Map(uploaded.map((row) => [row.part, row]));
  const etags = new Map(chosen.map(({ part, etag }) => [part, etag]));
  return [...latest.values()].map((row) => {
    const etag = etags.get(row.part) ?? '';
    const [, random, md5] = PART_ETAG.exec(etag) ?? [];
    return random !== undefined && row.file.endsWith(`-${random}`) ? { ...row, etag, md5: md5! } : row;
  });
}
