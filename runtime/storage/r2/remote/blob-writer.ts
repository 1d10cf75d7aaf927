// Writes the bytes of an object, or of a part of an upload, and computes their digests.
import { createHash } from 'node:crypto';
import type { Body } from '../bucket/object-store.ts';
import type { Algorithm, Digests } from '../bytes/algorithms.ts';
import { exactly } from '../bytes/incoming.ts';
import { PIECE_BYTES } from '../bytes/transfers.ts';
import type { ObjectClient } from './object-client.ts';

/** Bodies up to this size, in bytes, are part of the object's record. */
const INLINE_BYTES = 16 * 1024;

/** Returns whether a body of `size` bytes is part of the record. */
export function isInline(size: number): boolean {
  return size <= INLINE_BYTES;
}

/** Reads a body that is part of the record. @throws {Error} when it has another size */
export async function readInline(
  { size, bytes }: Body,
  algorithms: Algorithm[],
): Promise<{ content: Buffer; digests: Digests }> {
  const content = await whole(bytes, size);
  return { content, digests: digestsOf(content, algorithms) };
}

/**
 * Writes a body as a blob.
 * @throws {R2Error} when the bucket does not answer; {Error} when the body has another size
 */
export async function writeBlob(
  client: ObjectClient,
  name: string,
  { size, bytes }: Body,
  algorithms: Algorithm[],
): Promise<Digests> {
  if (size <= PIECE_BYTES) {
    const content = await whole(bytes, size);
    await client.write(name, content);
    return digestsOf(content, algorithms);
  }
  const hashes = algorithms.map((algorithm) => [algorithm, createHash(algorithm)] as const);
  const hashed = async function* () {
    for await (const chunk of exactly(bytes, size)) {
      for (const [, hash] of hashes) hash.update(chunk);
      yield chunk;
    }
  };
  await client.writeStream(name, size, hashed());
  return Object.fromEntries(hashes.map(([algorithm, hash]) => [algorithm, hash.digest()]));
}

async function whole(bytes: AsyncIterable<Buffer>, size: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of exactly(bytes, size)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function digestsOf(content: Buffer, algorithms: Algorithm[]): Digests {
  return Object.fromEntries(
    algorithms.map((algorithm) => [algorithm, createHash(algorithm).update(content).digest()]),
  );
}
