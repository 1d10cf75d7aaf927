// Bytes of small blobs that were read lately, of all apps that this process serves. A blob never changes, and to open, read
// and close its file takes longer than all else that a `get` does.

/** The most that a small blob has, in bytes. */
export const SMALL_BYTES = 64 * 1024;
/** What all of them take, in bytes, and what each takes besides its own bytes. */
const MOST_BYTES = 32 * 2 ** 20;
const ENTRY_BYTES = 512;

/** By the names of their files. Those that were asked for last come last. */
const kept = new Map<string, Buffer>();
let keptBytes = 0;

/**
 * All bytes of a small blob.
 * @param file its name, which no other blob has
 * @param read reads the file; called when its bytes are not kept
 */
export async function smallBlob(file: string, read: () => Promise<Buffer>): Promise<Buffer> {
  const bytes = kept.get(file) ?? (await read());
  drop(file);
  kept.set(file, bytes);
  keptBytes += ENTRY_BYTES + bytes.length;
  for (const oldest of kept.keys()) {
    if (keptBytes <= MOST_BYTES) break;
    drop(oldest);
  }
  return bytes;
}

function drop(file: string): void {
  const bytes = kept.get(file);
  if (bytes === undefined) return;
  kept.delete(file);
  keptBytes -= ENTRY_BYTES + bytes.length;
}
