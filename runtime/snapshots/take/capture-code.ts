// Captures an app's code in the bucket for a snapshot, while pushes and deploys go on.
import { ARCHIVE, PACKS, packObject, REFS } from '../../bucket/code/code-names.ts';
import { readRefsJson } from '../../bucket/code/refs-content.ts';
import type { S3Store } from '../../bucket/s3-store.ts';
import { ifThere, MissingObject, type Stored } from '../../bucket/store.ts';
import type { FileEntry } from '../store/manifest.ts';
import { type ObjectsCapture, objectPieces, piecesOf } from './capture-objects.ts';

/** Maximum attempts to read refs with all their packs. */
const ROUNDS = 5;

/**
 * Reads the refs and the packs that have their objects.
 * @returns null when the bucket has no refs
 * @throws {Error} when the packs are replaced in every round, or one is missing
 */
export async function captureRepository(
  store: S3Store,
  capture: ObjectsCapture,
): Promise<FileEntry[] | null> {
  let missing: unknown;
  for (let round = 0; round < ROUNDS; round++) {
    const refs = await ifThere(store.readTagged(REFS));
    if (refs === null) return null;
    const { packs } = readRefsJson(refs.bytes, REFS);
    try {
      const listed = new Map((await store.list(PACKS)).map((stored) => [stored.name, stored]));
      const files: FileEntry[] = [];
      for (const name of packs.map(packObject)) {
        const stored = listed.get(name);
        if (stored === undefined) throw new MissingObject(name);
        files.push(await take(store, stored, capture));
      }
      files.push(await capture.add(REFS, refs.etag, refs.bytes.length, piecesOf(refs.bytes)));
      return files;
    } catch (error) {
      // A pack is missing: many packs were joined into one since the refs were read.
      if (!(error instanceof MissingObject)) throw error;
      missing = error;
    }
  }
  throw missing;
}

/** Reads the archive of a release. @returns null when the bucket has none */
export async function captureRelease(
  store: S3Store,
  deployId: string,
  capture: ObjectsCapture,
): Promise<FileEntry | null> {
  const name = deployId + ARCHIVE;
  const stored = (await store.list(name)).find((each) => each.name === name);
  return stored === undefined ? null : take(store, stored, capture);
}

async function take(store: S3Store, stored: Stored, { before, add }: ObjectsCapture): Promise<FileEntry> {
  const { name, etag, bytes } = stored;
  const known = before(name);
  return known?.stamp === etag ? known : add(name, etag, bytes, objectPieces(store, stored));
}
