// An LRU cache of small blobs, of all apps of this process. Blobs never change, and opening, reading and closing a file is
// the slowest part of a `get`.

/** Maximum bytes of a small blob. */
export const SMALL_BYTES = 64 * 1024;
/** Maximum bytes of the cache, overhead included. */
const MOST_BYTES = 32 * 2 ** 20;
/** Overhead counted for each blob, in bytes. */
const ENTRY_BYTES = 512;

/** Blobs by the names that callers give, least recently used first. */
const cache = new Map<string, Buffer>();
let cachedBytes = 0;

/**
 * Returns a small blob's bytes.
 * @param file a name that is unique among all apps, such as the random name of a file
 * @param read reads the blob; called on a cache miss
 */
export async function smallBlob(file: string, read: () => Promise<Buffer>): Promise<Buffer> {
  const bytes = cache.get(file) ?? (await read());
  drop(file);
  cache.set(file, bytes);
  cachedBytes += ENTRY_BYTES + bytes.length;
  for (const oldest of cache.keys()) {
    if (cachedBytes <= MOST_BYTES) break;
    drop(oldest);
  }
  return bytes;
}

function drop(file: string): void {
  const bytes = cache.get(file);
  if (bytes === undefined) return;
  cache.delete(file);
  cachedBytes -= ENTRY_BYTES + bytes.length;
}
