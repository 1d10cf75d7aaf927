// Reads what somebody else sends, as far as it may go.

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
