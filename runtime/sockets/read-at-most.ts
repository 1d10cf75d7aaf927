// Reads what somebody else sends, as far as it may go.
import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';

/** All that a stream has; `null` as soon as that is more than `limitBytes`. The stream is closed then. */
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

/** Reads a body to its end for nobody: an answer that comes before that cuts the sender short. */
export async function discard(body: Readable): Promise<void> {
  body.resume();
  await finished(body, { writable: false }).catch(() => {});
}
