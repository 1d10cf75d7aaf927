// Captures R2 objects with all their bytes, even if another host removes bytes meanwhile. This host can defer only its own
// removals.
import type { S3Store } from '../../bucket/s3-store.ts';
import { MissingObject } from '../../bucket/store.ts';
import type { ObjectRecord } from '../../storage/r2/remote/records.ts';
import type { FileEntry } from '../store/manifest.ts';
import { captureObjects, type ObjectsCapture, objectPieces, piecesOf } from './capture-objects.ts';

const RECORD = /^[^/]+\/objects\//;
/** Maximum attempts to read an object that is replaced meanwhile. */
const ROUNDS = 5;

/**
 * Captures objects with `captureObjects`. Then reads objects again whose records have changed: their bytes may have been
 * removed before they were read.
 * @throws {Error} when the bucket does not answer, or an object is replaced in every round
 */
export async function captureWholeObjects(store: S3Store, capture: ObjectsCapture): Promise<FileEntry[]> {
  const named = new Map<string, FileEntry>();
  const noting = (name: string, file: FileEntry) => {
    named.set(name, file);
    return file;
  };
  const noted: ObjectsCapture = {
    before: (name) => {
      const known = capture.before(name);
      return known && noting(name, known);
    },
    add: async (name, ...about) => noting(name, await capture.add(name, ...about)),
  };
  const taken = new Set(await captureObjects(store, noted));
  for (const [name, file] of named) if (!taken.has(file)) named.delete(name);
  if (named.size === 0) return [];
  const now = new Map((await store.list('')).map(({ name, etag }) => [name, etag]));
  const changed = [...named].filter(([name, { stamp }]) => RECORD.test(name) && now.get(name) !== stamp);
  for (const [name] of changed) {
    named.delete(name);
    await again(store, name, named, capture);
  }
  return [...named.values()];
}

/** Reads an object anew, with the bytes that are not captured yet. Leaves out a deleted one. */
async function again(
  store: S3Store,
  name: string,
  captured: Map<string, FileEntry>,
  { add }: ObjectsCapture,
): Promise<void> {
  for (let round = 1; ; round++) {
    try {
      const { bytes, etag } = await store.readTagged(name);
      const { blobs } = JSON.parse(bytes.toString('utf8')) as ObjectRecord;
      for (const { file, size } of blobs) {
        if (captured.has(file)) continue;
        const blobTag = await store.etagOf(file);
        if (blobTag === null) throw new MissingObject(file);
        captured.set(file, await add(file, blobTag, size, objectPieces(store, { name: file, bytes: size })));
      }
      captured.set(name, await add(name, etag, bytes.length, piecesOf(bytes)));
      return;
    } catch (error) {
      if (!(error instanceof MissingObject)) throw error;
      if (!(await store.has(name))) return;
      if (round === ROUNDS) throw new Error(`the R2 object ${name} was replaced whenever it was read`);
    }
  }
}
