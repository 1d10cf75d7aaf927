// Captures an app's R2 objects in the bucket for a snapshot, while the app may write.
import { each, readIfThere } from '../../bucket/app-folder.ts';
import type { S3Store } from '../../bucket/s3-store.ts';
import { MissingObject, type Stored } from '../../bucket/store.ts';
import { SerialQueue } from '../../queues/serial-queue.ts';
import type { FileEntry } from '../store/manifest.ts';

/** Large objects are read in pieces of this size, in bytes. */
const PIECE_BYTES = 8 * 2 ** 20;
/** Matches `<storage id>/blobs/…`: a blob is a file with bytes of an R2 object. The object's record names its blobs. */
const BLOB = /^[^/]+\/blobs\//;

export interface ObjectsCapture {
  /** Returns the previous snapshot's file of this name. */
  before: (name: string) => FileEntry | undefined;
  /** Adds an object of the bucket to the snapshot. */
  add: (name: string, stamp: string, size: number, content: AsyncIterable<Buffer>) => Promise<FileEntry>;
}

/**
 * Reads the folder. Reads the records before it lists the blobs, so that the list has the blobs of each record. The caller
 * must defer the removal of such blobs meanwhile.
 * @throws {Error} when the bucket does not answer
 */
export async function captureObjects(store: S3Store, { before, add }: ObjectsCapture): Promise<FileEntry[]> {
  const files: FileEntry[] = [];
  const adding = new SerialQueue();
  const unchanged = ({ name, etag }: Stored) => {
    const known = before(name);
    return known?.stamp === etag ? known : null;
  };
  const records = (await store.list('')).filter(({ name }) => !BLOB.test(name));
  await each(records, async (stored) => {
    const known = unchanged(stored);
    // An object that was deleted meanwhile has no record.
    const bytes = known === null ? await readIfThere(store, stored.name) : null;
    const file =
      known ??
      (bytes && (await adding.run(() => add(stored.name, stored.etag, bytes.length, piecesOf(bytes)))));
    if (file) files.push(file);
  });
  const blobs = (await store.list('')).filter(({ name }) => BLOB.test(name));
  for (const stored of blobs) {
    const { name, etag, bytes } = stored;
    try {
      files.push(unchanged(stored) ?? (await add(name, etag, bytes, objectPieces(store, stored))));
    } catch (error) {
      // Blobs that no record names, such as those of aborted uploads, may be removed meanwhile.
      if (!(error instanceof MissingObject)) throw error;
    }
  }
  return files;
}

export async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

/** Yields an object's bytes. @throws {MissingObject} when it is removed meanwhile */
export async function* objectPieces(
  store: S3Store,
  { name, bytes }: Pick<Stored, 'name' | 'bytes'>,
): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < bytes; offset += PIECE_BYTES)
    yield await store.read(name, { offset, length: Math.min(PIECE_BYTES, bytes - offset) });
}
