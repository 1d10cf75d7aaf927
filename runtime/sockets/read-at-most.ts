// Reads all data of a peer, up to a limit, or drops it.
import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';

/** Returns the whole content of a stream. Returns `null` and closes the stream as soon as it exceeds `limitBytes`. */
export async function readAtMost(stream: AsyncIterable<Buffer>, limitBytes: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > limitBytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Reads a request's body to its end and drops it: a response before the end would break off the sender's upload. */
export async function discard(body: Readable): Promise<void> {
  body.resume();
  await finished(body, { writable: false }).catch(() => {});
}
