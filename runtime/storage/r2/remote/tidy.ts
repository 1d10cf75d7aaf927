// Removes what interruptions have left in the bucket: blobs without a record, and old uploads.
import type { Stored } from '../../../bucket/store.ts';
import { UPLOAD_MS } from '../errors.ts';
import { fewAtOnce } from './few-at-once.ts';
import type { ObjectClient } from './object-client.ts';
import { keyOfRecord } from './records.ts';
import type { RemoteStore } from './remote-store.ts';
import { partsFolder, readUpload, UPLOADS } from './uploads.ts';

/** Blobs that are younger may get their record yet. In ms; a request may take 6 hours. */
const YOUNG_MS = 12 * 60 * 60_000;

/**
 * Tidies an app's R2 objects. Asks for each record that may have an old blob.
 * @param now in ms since 1970 @throws {R2Error} when the bucket does not answer; then nothing unsure is removed
 */
export async function tidy(client: ObjectClient, store: RemoteStore, now: number): Promise<void> {
  const { objects, uploads, blobs } = await listAll(client, now);
  const open = new Set<string>();
  await fewAtOnce(uploads, async ({ name }) => {
    const [bucket, id] = name.split(UPLOADS) as [string, string];
    const upload = await readUpload(client, name);
    if (upload === null) return;
    if (upload.created > now - UPLOAD_MS) {
      if (upload.state === 'open') open.add(partsFolder(bucket, id));
      return;
    }
    await store.abortUpload(bucket, { method: 'abortMultipartUpload', object: upload.key, uploadId: id });
    await client.remove(name);
  });
  if (blobs.size === 0) return;
  await fewAtOnce(objects, async (stored) => {
    const record = await store.records.listed(stored);
    for (const { file } of record?.blobs ?? []) blobs.delete(file);
  });
  const orphans = [...blobs].filter((name) => !open.has(name.slice(0, name.lastIndexOf('/') + 1)));
  store.removals.drop(orphans.map((file) => ({ file })));
}

/** Lists blobs before records: a blob that gets its record later is younger than all of these. */
async function listAll(client: ObjectClient, now: number) {
  const objects: Pick<Stored, 'name' | 'etag'>[] = [];
  const uploads: Stored[] = [];
  const blobs = new Set<string>();
  for await (const page of client.pages(''))
    for (const stored of page) {
      const { name, etag, writtenAt } = stored;
      const isBlob = name.split('/')[1] === 'blobs';
      if (isBlob && writtenAt < now - YOUNG_MS) blobs.add(name);
      else if (name.includes(UPLOADS)) uploads.push(stored);
      else if (keyOfRecord(name) !== null) objects.push({ name, etag });
    }
  return { objects, uploads, blobs };
}
