// Removes what interruptions have left in the bucket: blobs without a record, and old uploads.
import { UPLOAD_MS } from '../errors.ts';
import { fewAtOnce } from './few-at-once.ts';
import type { ObjectClient } from './object-client.ts';
import { recordName } from './records.ts';
import type { RemoteStore } from './remote-store.ts';
import { partsFolder, readUpload, UPLOADS } from './uploads.ts';

/** Blobs younger than this, in ms, stay: their record may come later, because a request may take 6 hours. */
const YOUNG_MS = 12 * 60 * 60_000;

/**
 * Tidies an app's R2 objects. Reads the records of each R2 bucket until they have named all old blobs.
 * @param now in ms since 1970
 * @throws {R2Error} when the bucket does not answer. Even then, no blob is removed that a record may name
 */
export async function tidy(client: ObjectClient, store: RemoteStore, now: number): Promise<void> {
  /** Old blobs, by bucket. */
  const old = new Map<string, Set<string>>();
  /** Folders of parts that belong to an object, or may do so later. */
  const kept = new Set<string>();
  for await (const page of client.pages('')) {
    for (const { name, writtenAt } of page) {
      const [bucket, kind] = name.split('/') as [string, string];
      if (kind !== 'blobs' || writtenAt >= now - YOUNG_MS) continue;
      const blobs = old.get(bucket);
      if (blobs) blobs.add(name);
      else old.set(bucket, new Set([name]));
    }
    const uploads = page.filter(({ name }) => name.includes(UPLOADS));
    await fewAtOnce(uploads, async ({ name }) => {
      const [bucket, id] = name.split(UPLOADS) as [string, string];
      if (!(await isAborted(client, store, name, now))) kept.add(partsFolder(bucket, id));
    });
  }
  for (const [bucket, blobs] of old) {
    for (const name of blobs) if (kept.has(name.slice(0, name.lastIndexOf('/') + 1))) blobs.delete(name);
    await forgetUsed(client, store, bucket, blobs);
    store.removals.drop([...blobs].map((file) => ({ file })));
  }
}

/**
 * Returns whether an upload is aborted; false when its parts belong to an object, or may do so later. Aborts an upload that
 * is older than `UPLOAD_MS`, and removes its state.
 */
async function isAborted(
  client: ObjectClient,
  store: RemoteStore,
  name: string,
  now: number,
): Promise<boolean> {
  const upload = await readUpload(client, name);
  if (upload === null) return false;
  if (upload.created > now - UPLOAD_MS) return upload.state === 'aborted';
  const [bucket, uploadId] = name.split(UPLOADS) as [string, string];
  await store.abortUpload(bucket, { method: 'abortMultipartUpload', object: upload.key, uploadId });
  // The upload may have been completed meanwhile.
  const ended = await readUpload(client, name);
  await client.remove(name);
  return ended?.state === 'aborted';
}

/**
 * Deletes from the set `blobs` those that records name. The records are listed after the blobs. A record that is missing in
 * that list has only younger blobs.
 */
async function forgetUsed(
  client: ObjectClient,
  store: RemoteStore,
  bucket: string,
  blobs: Set<string>,
): Promise<void> {
  if (blobs.size === 0) return;
  for await (const page of client.pages(recordName(bucket, ''))) {
    await fewAtOnce(page, async (stored) => {
      if (blobs.size === 0) return;
      const record = await store.records.listed(stored);
      for (const { file } of record?.blobs ?? []) blobs.delete(file);
    });
    if (blobs.size === 0) return;
  }
}
