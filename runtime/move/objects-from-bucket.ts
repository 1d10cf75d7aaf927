// Copies the R2 objects of an app from the bucket to the disk, as the local store has them. Runs in worker threads. Objects
// keep their versions, etags and times; unfinished uploads are left out.
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFile } from '../../bundler/sync.ts';
import { type BlobRow, type ObjectIndex, openObjectIndex } from '../../sqlite/storage/objects.ts';
import { type AppFolder, each, openObjectsFolder } from '../bucket/app-folder.ts';
import type { S3Store } from '../bucket/s3-store.ts';
import type { Stored } from '../bucket/store.ts';
import { removeTree } from '../disk/remove.ts';
import { reason } from '../log.ts';
import { BLOBS } from '../storage/r2/bucket/bucket-store.ts';
import { uploadEtag } from '../storage/r2/bucket/object-rules.ts';
import { INDEX } from '../storage/r2/messages.ts';
import { keyOfRecord, type ObjectRecord } from '../storage/r2/remote/records.ts';

/** Number of names that are copied between two checks of the time. */
const BATCH = 64;

/** Allowed names of an object's bytes. Otherwise a record could name bytes of other apps, which the host can read. */
const BLOB = /^[0-9a-z]+\/blobs\/[\w/-]+$/;

/** What one call has copied. */
export interface CopiedObjects {
  /** The name after which the next call continues; null: there are no more. */
  next: string | null;
  /** Bytes of the copied objects in the bucket. */
  bytes: number;
}

interface Copy {
  store: S3Store;
  index: ObjectIndex;
  /** The directory of the objects' files. */
  blobs: string;
}

/**
 * Copies objects for about `sliceMs`. Nothing may change them meanwhile.
 * @param into the directory of the app's buckets
 * @param after the `next` of the call before; empty for the first
 * @throws {Error} when the bucket does not answer, or has other bytes than an object's etag and checksums say
 */
export async function copyObjects(
  folder: AppFolder,
  into: string,
  after: string,
  sliceMs: number,
): Promise<CopiedObjects> {
  const until = performance.now() + sliceMs;
  const copy = { store: openObjectsFolder(folder), blobs: join(into, BLOBS) };
  await mkdir(copy.blobs, { recursive: true, mode: 0o700 });
  const index = openObjectIndex(join(into, INDEX));
  try {
    let bytes = 0;
    for await (const page of copy.store.pages('', after))
      for (let at = 0; at < page.length; at += BATCH) {
        const batch = page.slice(at, at + BATCH);
        await each(batch, async (stored) => {
          bytes += await copyObject({ ...copy, index }, stored);
        });
        if (performance.now() >= until) return { next: batch.at(-1)!.name, bytes };
      }
    return { next: null, bytes };
  } finally {
    index.close();
  }
}

/**
 * Checks that the copy has all objects of the bucket, and all their bytes. Then syncs it to the disk, or removes the
 * directory if there are no objects.
 * @throws {Error} when objects or bytes are missing
 */
export async function finishObjects(folder: AppFolder, into: string): Promise<void> {
  const index = openObjectIndex(join(into, INDEX));
  let [objects, bytes, kept] = [0, 0, 0];
  try {
    for (const row of index.usage()) {
      objects += row.objects;
      bytes += row.bytes;
    }
    kept = index.keptBytes();
  } finally {
    index.close();
  }
  let stored = 0;
  for await (const page of openObjectsFolder(folder).pages(''))
    stored += page.filter(({ name }) => keyOfRecord(name) !== null).length;
  if (objects !== stored || bytes !== kept)
    throw new Error(
      `this machine has ${objects} of ${stored} R2 objects, and ${kept} of their ${bytes} bytes`,
    );
  if (objects === 0) return removeTree(into);
  for (const path of [join(into, INDEX), join(into, BLOBS), into]) await syncFile(path);
}

/** @returns the object's bytes in the bucket; 0 for a name that is not an object's record */
async function copyObject({ store, index, blobs }: Copy, stored: Stored): Promise<number> {
  const found = keyOfRecord(stored.name);
  if (found === null) return 0;
  try {
    const record = JSON.parse((await store.read(stored.name)).toString('utf8')) as ObjectRecord;
    const { blobs: parts, inline, ...object } = record;
    const checksums = JSON.parse(object.checksums) as Record<string, string>;
    const rows: BlobRow[] = [];
    const write = async (writeFileAt: (path: string) => Promise<void>) => {
      const file = randomBytes(16).toString('hex');
      await writeFileAt(join(blobs, file));
      const { size, digests } = await digestsOf(join(blobs, file), ['md5', ...Object.keys(checksums)]);
      const md5 = digests.md5!;
      rows.push({ owner: object.version, part: rows.length + 1, file, size, etag: md5, md5 });
      for (const [algorithm, digest] of Object.entries(checksums))
        if (digests[algorithm] !== digest) throw new Error(`its bytes have another ${algorithm}`);
    };
    if (inline !== undefined)
      await write((path) =>
        writeFile(path, Buffer.from(inline, 'base64'), { flag: 'wx', flush: true, mode: 0o600 }),
      );
    else
      for (const { file } of parts) {
        if (!BLOB.test(file)) throw new Error('its record names no blob');
        await write((path) => store.readFile(file, path));
      }
    const size = rows.reduce((sum, row) => sum + row.size, 0);
    if (size !== object.size) throw new Error(`it has ${size} of ${object.size} bytes`);
    const etag = object.etag.includes('-') ? uploadEtag(rows) : rows[0]?.md5;
    if (etag !== object.etag) throw new Error('its bytes have another etag');
    index.transaction(() => {
      index.putObject({ ...found, ...object });
      for (const row of rows) index.putBlob(row);
    });
    return stored.bytes + parts.reduce((sum, part) => sum + part.size, 0);
  } catch (error) {
    throw new Error(`the R2 object ${found.key}: ${reason(error)}`, { cause: error });
  }
}

/** Returns the size and the digests, in hexadecimal, of a file as the disk has it. */
async function digestsOf(
  path: string,
  algorithms: string[],
): Promise<{ size: number; digests: Record<string, string> }> {
  const hashes = [...new Set(algorithms)].map((algorithm) => [algorithm, createHash(algorithm)] as const);
  let size = 0;
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    size += chunk.length;
    for (const [, hash] of hashes) hash.update(chunk);
  }
  const digests = Object.fromEntries(hashes.map(([algorithm, hash]) => [algorithm, hash.digest('hex')]));
  return { size, digests };
}
