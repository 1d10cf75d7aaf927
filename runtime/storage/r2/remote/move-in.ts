// Moves the objects of an app from the disk into the bucket. Needed for apps from before the bucket stored R2 objects,
// and for those restored from snapshots of that time.
import { createReadStream, existsSync } from 'node:fs';
import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFile } from '../../../../bundler/sync.ts';
import {
  type BlobRow,
  type ObjectIndex,
  type ObjectRow,
  openObjectIndex,
} from '../../../../sqlite/storage/objects.ts';
import { log } from '../../../log.ts';
import { BLOBS } from '../bucket/bucket-store.ts';
import { SMALL_BYTES } from '../bytes/small-blobs.ts';
import { INDEX } from '../messages.ts';
import { isInline } from './blob-writer.ts';
import { Conflict, type ObjectClient } from './object-client.ts';
import { type ObjectRecord, recordName, type StoredBlob } from './records.ts';

const PAGE = 100;
/** Name of the index after all objects were moved. */
const MOVED = `${INDEX}.moved`;
/** Name of the index after a move that had to leave some objects on the disk. */
const LEFT = `${INDEX}.left`;

/**
 * Moves all objects, but no unfinished uploads. The next call repeats an interrupted move. An object that is already in
 * the bucket is not overwritten. If an object's name is too long for the bucket, all files stay on the disk too.
 * @param directory the directory of the app's buckets
 * @throws {R2Error} when the bucket does not answer
 */
export async function moveIn(directory: string, client: ObjectClient): Promise<void> {
  const path = join(directory, INDEX);
  if (existsSync(path)) {
    const index = openObjectIndex(path);
    let moved = 0;
    let left = 0;
    try {
      for (const { bucket } of index.usage())
        for (const object of objectsOf(index, bucket)) {
          const blobs = index.blobs(object.version);
          if (await moveObject(client, object, blobs, join(directory, BLOBS))) moved++;
          else left++;
        }
    } finally {
      index.close();
    }
    // Renamed, so that the next call moves nothing. Otherwise it would bring back objects that were deleted meanwhile.
    await rename(path, join(directory, left > 0 ? LEFT : MOVED));
    await syncFile(directory);
    log('info', 'R2 objects were moved from the disk into the bucket', { directory, objects: moved });
    if (left > 0)
      log('error', 'R2 objects were not moved into the bucket: their index and files stay on the disk', {
        ...{ directory, index: LEFT, objects: left },
      });
  }
  if (existsSync(join(directory, LEFT))) return;
  for (const name of [BLOBS, `${INDEX}-wal`, `${INDEX}-shm`, MOVED])
    await rm(join(directory, name), { recursive: true, force: true });
}

function* objectsOf(index: ObjectIndex, bucket: string): Generator<ObjectRow> {
  for (let from = Buffer.alloc(0); ; ) {
    const rows = index.page(bucket, from, PAGE);
    for (const { key } of rows) yield index.object(bucket, key)!;
    const last = rows.at(-1);
    if (last === undefined) return;
    from = Buffer.concat([last.key, Buffer.alloc(1)]);
  }
}

/** Copies an object to the bucket. @returns false when its name is too long for the bucket */
async function moveObject(
  client: ObjectClient,
  { bucket, key, ...object }: ObjectRow,
  blobs: BlobRow[],
  directory: string,
): Promise<boolean> {
  const name = recordName(bucket, key.toString('utf8'));
  if (client.room(name) < 0) {
    log('error', 'an R2 object was not moved into the bucket: its name is too long', {
      bucket,
      key: key.toString(),
    });
    return false;
  }
  const moved: StoredBlob[] = [];
  let inline: string | undefined;
  for (const blob of blobs) {
    const path = join(directory, blob.file);
    if (blobs.length === 1 && isInline(blob.size)) {
      inline = (await readFile(path)).toString('base64');
      continue;
    }
    const folder = blobs.length === 1 ? object.version : `${object.version}/${blob.part}`;
    const file = `${bucket}/blobs/${folder}`;
    if (blob.size <= SMALL_BYTES) await client.write(file, await readFile(path));
    else await client.writeStream(file, blob.size, createReadStream(path));
    moved.push({ file, size: blob.size });
  }
  const record: ObjectRecord = { ...object, blobs: moved, ...(inline !== undefined && { inline }) };
  const bytes = Buffer.from(JSON.stringify(record), 'utf8');
  await client.write(name, bytes, { ifNoneMatch: true }).catch((error: unknown) => {
    if (!(error instanceof Conflict)) throw error;
  });
  return true;
}
