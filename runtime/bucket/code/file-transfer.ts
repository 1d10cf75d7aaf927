// Copies files between the disk and the bucket. Runs in a thread, because users decide how large the files are.
import type { S3Place } from '../place.ts';
import { S3Store } from '../s3-store.ts';

/** Writes a file as an object. */
export async function sendFile(place: S3Place, name: string, path: string): Promise<void> {
  await new S3Store(place).writeFile(name, path);
}

/** As `S3Store.readFile`. */
export async function receiveFile(
  place: S3Place,
  name: string,
  path: string,
  mostBytes: number,
): Promise<void> {
  await new S3Store(place).readFile(name, path, mostBytes);
}
