// The buckets of one app: applies each operation to the index and the files.
import { randomBytes } from 'node:crypto';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type BlobRow,
  type ObjectIndex,
  type ObjectRow,
  openObjectIndex,
  type UploadRow,
  type UsageRow,
} from '../../../../sqlite/storage/objects.ts';
import { log, reason } from '../../../log.ts';
import { ALGORITHMS } from '../bytes/algorithms.ts';
import { Blobs } from '../bytes/blobs.ts';
import type { ResponseWriter } from '../bytes/body.ts';
import type { Removals } from '../bytes/removals.ts';
import { SMALL_BYTES, smallBlob } from '../bytes/small-blobs.ts';
import { Sync } from '../bytes/sync.ts';
import { internalError, noSuchKey, noSuchUpload, OBJECT_BYTES, tooLarge, UPLOAD_MS } from '../errors.ts';
import { INDEX } from '../messages.ts';
import type { RequestOf } from '../requests.ts';
import { Changes } from './changes.ts';
import { type Part, partOf, requireCondition } from './conditions.ts';
import { type Listed, listedObject, listKeys } from './listing.ts';
import {
  chosenParts,
  describe,
  keyBytes,
  newVersion,
  partsOf,
  requireDigests,
  uploadEtag,
} from './object-rules.ts';
import type { Body, Found, ObjectStore } from './object-store.ts';

/** The directory of the objects' files, in the directory of an app's buckets. */
export const BLOBS = 'blobs';
/** Maximum number of an app's uploads, open or recently ended. */
const UPLOADS = 100_000;
const UPLOADS_AT_ONCE = 20;
/** How often an open index is searched for expired uploads, in ms. */
const TIDY_EVERY_MS = 60 * 60_000;

export class BucketStore implements ObjectStore {
  readonly #index: ObjectIndex;
  readonly #blobs: Blobs;
  readonly #changes: Changes;
  #tidied: Promise<void> = Promise.resolve();
  #tidying: NodeJS.Timeout | undefined;

  private constructor(index: ObjectIndex, blobs: Blobs, path: string) {
    this.#index = index;
    this.#blobs = blobs;
    this.#changes = new Changes(index, blobs, new Sync(() => open(`${path}-wal`, 'r+')));
  }

  /**
   * Opens the buckets of an app.
   * @param removals removes files that are no longer needed
   * @param sweeps whether to look for orphaned files, which an interruption may have left
   */
  static async open(directory: string, removals: Removals, sweeps: boolean): Promise<BucketStore> {
    const path = join(directory, INDEX);
    const blobs = new Blobs(join(directory, BLOBS), removals);
    await blobs.prepare();
    // The files are listed before any write, so that the sweep does not remove files that are written later.
    const files = sweeps ? await blobs.list() : [];
    const index = openObjectIndex(path);
    const store = new BucketStore(index, blobs, path);
    const tidy = (files: string[]) => {
      store.#tidied = store.#tidied
        .then(() => store.#tidy(files))
        .catch((error: unknown) =>
          log('warn', 'unused files of R2 buckets could not be removed', { path, error: reason(error) }),
        );
    };
    tidy(files);
    store.#tidying = setInterval(() => tidy([]), TIDY_EVERY_MS).unref();
    return store;
  }

  /** Call it only when no operation is under way. */
  async close(): Promise<void> {
    clearInterval(this.#tidying);
    await this.#tidied;
    await this.#changes.close();
    await this.#blobs.close();
    this.#index.close();
  }

  async head(bucket: string, { object }: RequestOf<'head'>): Promise<ObjectRow> {
    const row = this.#index.object(bucket, keyBytes(object));
    if (row === undefined) throw noSuchKey();
    return row;
  }

  async get(bucket: string, request: RequestOf<'get'>, onUnmet: (object: ObjectRow) => void): Promise<Found> {
    const object = this.#index.object(bucket, keyBytes(request.object));
    if (object === undefined) throw noSuchKey();
    try {
      requireCondition(request.onlyIf, object);
    } catch (error) {
      onUnmet(object);
      throw error;
    }
    const part = partOf(request, object.size);
    const { version } = object;
    const blobs = this.#index.blobs(version);
    const release = this.#changes.read(version);
    return { object, part, open: () => this.#open(blobs, part), release };
  }

  async put(bucket: string, request: RequestOf<'put'>, { size, bytes }: Body): Promise<ObjectRow> {
    const key = keyBytes(request.object);
    if (size > OBJECT_BYTES) throw tooLarge();
    const described = describe(request);
    const given = ALGORITHMS.filter((algorithm) => request[algorithm] !== undefined);
    const { file, digests } = await this.#blobs.write(bytes, size, [
      'md5',
      ...given.filter((a) => a !== 'md5'),
    ]);
    const md5 = digests.md5!.toString('hex');
    const row: ObjectRow = {
      bucket,
      key,
      version: newVersion(),
      size,
      etag: md5,
      uploaded: Date.now(),
      checksums: '{}',
      ...described,
    };
    const blob: BlobRow = { owner: row.version, part: 1, file, size, etag: md5, md5 };
    return this.#changes.keep(file, (drop) => {
      row.checksums = JSON.stringify(requireDigests(given, request, digests));
      const before = this.#index.object(bucket, key);
      requireCondition(request.onlyIf, before);
      drop(this.#index.putObject(row), before?.version);
      this.#index.putBlob(blob);
      return row;
    });
  }

  async delete(bucket: string, { object, objects = [] }: RequestOf<'delete'>): Promise<void> {
    const keys = [...(object === undefined ? [] : [object]), ...objects].map(keyBytes);
    await this.#changes.commit((drop) => {
      for (const key of keys) {
        const before = this.#index.object(bucket, key);
        if (before !== undefined) drop(this.#index.deleteObject(bucket, key), before.version);
      }
    });
  }

  async list(bucket: string, request: RequestOf<'list'>): Promise<Listed> {
    const { rows, ...rest } = await listKeys((from, limit) => this.#index.page(bucket, from, limit), request);
    if (!request.include?.length) return { objects: rows, ...rest };
    // A row may have been deleted while `listKeys` read others.
    const objects = rows.flatMap(({ key }) => {
      const row = this.#index.object(bucket, key);
      return row === undefined ? [] : listedObject(row, request);
    });
    return { objects, ...rest };
  }

  async createUpload(bucket: string, request: RequestOf<'createMultipartUpload'>): Promise<string> {
    const key = keyBytes(request.object);
    const described = describe(request);
    if (this.#index.countUploads() >= UPLOADS) {
      await this.#dropOldUploads();
      if (this.#index.countUploads() >= UPLOADS)
        throw tooLarge(`An app may have at most ${UPLOADS} multipart uploads within seven days.`);
    }
    const id = randomBytes(128).toString('base64url');
    this.#index.addUpload({ id, bucket, key, created: Date.now(), ...described });
    await this.#changes.flush();
    return id;
  }

  async uploadPart(bucket: string, request: RequestOf<'uploadPart'>, { size, bytes }: Body): Promise<string> {
    const key = keyBytes(request.object);
    const { uploadId, partNumber } = request;
    if (size > OBJECT_BYTES) throw tooLarge();
    const { file, digests } = await this.#blobs.write(bytes, size, ['md5']);
    const etag = randomBytes(128).toString('base64url');
    const md5 = digests.md5!.toString('hex');
    return this.#changes.keep(file, (drop) => {
      if (this.#upload(bucket, key, uploadId)?.state !== 'open') throw noSuchUpload();
      drop(this.#index.putBlob({ owner: uploadId, part: partNumber, file, size, etag, md5 }));
      return etag;
    });
  }

  async completeUpload(bucket: string, request: RequestOf<'completeMultipartUpload'>): Promise<ObjectRow> {
    const key = keyBytes(request.object);
    return this.#changes.commit((drop) => {
      const upload = this.#upload(bucket, key, request.uploadId);
      if (upload === undefined) throw internalError();
      if (upload.state !== 'open') throw noSuchUpload();
      const parts = chosenParts(this.#index.blobs(upload.id), request.parts);
      const { id, storage_class, http_metadata, custom_metadata } = upload;
      const row: ObjectRow = {
        bucket,
        key,
        version: newVersion(),
        size: parts.reduce((sum, { size }) => sum + size, 0),
        etag: uploadEtag(parts),
        uploaded: Date.now(),
        checksums: '{}',
        ...{ storage_class, http_metadata, custom_metadata },
      };
      const before = this.#index.object(bucket, key);
      drop(this.#index.putObject(row), before?.version);
      for (const { part } of parts) this.#index.giveBlob(id, part, row.version);
      drop(this.#index.deleteBlobs(id));
      this.#index.setUploadState(id, 'completed');
      return row;
    });
  }

  async abortUpload(bucket: string, request: RequestOf<'abortMultipartUpload'>): Promise<void> {
    const upload = this.#upload(bucket, keyBytes(request.object), request.uploadId);
    if (upload === undefined) throw internalError();
    if (upload.state !== 'open') return;
    await this.#changes.commit((drop) => {
      drop(this.#index.deleteBlobs(upload.id));
      this.#index.setUploadState(upload.id, 'aborted');
    });
  }

  async usage(): Promise<UsageRow[]> {
    return this.#index.usage();
  }

  async keptBytes(): Promise<number> {
    return this.#index.keptBytes();
  }

  async #open(blobs: BlobRow[], part: Part) {
    const [only] = blobs;
    if (blobs.length !== 1 || only!.size > SMALL_BYTES)
      return async (writer: ResponseWriter) => {
        for (const { blob, offset, length } of partsOf(blobs, part))
          await this.#copy(blob, offset, length, writer);
      };
    const { file, size } = only!;
    const bytes = await smallBlob(file, async () => {
      const read = await this.#blobs.read(file);
      if (read.length !== size) throw new Error('a blob is shorter than the index says');
      return read;
    });
    return bytes.subarray(part.offset, part.offset + part.length);
  }

  async #copy({ file }: BlobRow, offset: number, length: number, writer: ResponseWriter): Promise<void> {
    const handle = await this.#blobs.open(file);
    try {
      await writer.copy(handle, offset, length);
    } finally {
      await handle.close();
    }
  }

  #upload(bucket: string, key: Buffer, id: string): UploadRow | undefined {
    const upload = this.#index.upload(id);
    return upload?.bucket === bucket && upload.key.equals(key) ? upload : undefined;
  }

  /** Removes expired uploads and orphaned files. @param files the files to check, listed before any write */
  async #tidy(files: string[]): Promise<void> {
    await this.#dropOldUploads();
    await this.#blobs.sweep(files, (file) => this.#index.hasFile(file));
  }

  async #dropOldUploads(): Promise<void> {
    const before = Date.now() - UPLOAD_MS;
    for (;;) {
      const ids = this.#index.oldUploads(before, UPLOADS_AT_ONCE);
      if (ids.length === 0) return;
      await this.#changes.commit((drop) => {
        for (const id of ids) {
          drop(this.#index.deleteBlobs(id));
          this.#index.deleteUpload(id);
        }
      });
    }
  }
}
