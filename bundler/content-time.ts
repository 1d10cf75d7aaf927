// Gives files with the same bytes the same modification time. Then browsers keep unchanged files over deploys, because
// workerd makes the ETag of a static file from its path, size and modification time.
import { createHash } from 'node:crypto';
import { closeSync, futimesSync, openSync, readSync } from 'node:fs';

/** Bytes that are read at once. */
const CHUNK = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * Sets a file's modification time to a time between 1970 and 2004 that only depends on its bytes. It is a whole second,
 * because archives keep no fractions.
 * @throws {Error} when the file cannot be read, or belongs to another user
 */
export function setContentTime(path: string): void {
  const file = openSync(path, 'r');
  try {
    const hash = createHash('sha256');
    for (let bytes = readSync(file, CHUNK); bytes > 0; bytes = readSync(file, CHUNK))
      hash.update(CHUNK.subarray(0, bytes));
    const seconds = 1 + (hash.digest().readUInt32BE() >>> 2);
    futimesSync(file, seconds, seconds);
  } finally {
    closeSync(file);
  }
}
