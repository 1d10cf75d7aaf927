// Runs in a thread of `DigestThreads`: hashes many bodies concurrently, in chunks.
import { createHash, type Hash } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import type { Algorithm, Digests } from './algorithms.ts';

/** Messages to a thread about a body. The thread answers `piece` with null, and `ends` with the digests, in order. */
export type ToDigest =
  | { body: number; begins: Algorithm[] }
  | { body: number; piece: Uint8Array }
  | { body: number; ends: true }
  | { body: number; dropped: true };

const hashes = new Map<number, [Algorithm, Hash][]>();

parentPort!.on('message', (message: ToDigest) => {
  const { body } = message;
  if ('begins' in message) {
    hashes.set(
      body,
      message.begins.map((algorithm) => [algorithm, createHash(algorithm)]),
    );
    return;
  }
  const own = hashes.get(body)!;
  if ('piece' in message) {
    for (const [, hash] of own) hash.update(message.piece);
    parentPort!.postMessage(null);
    return;
  }
  hashes.delete(body);
  if ('ends' in message)
    parentPort!.postMessage(
      Object.fromEntries(own.map(([algorithm, hash]) => [algorithm, hash.digest()])) satisfies Digests,
    );
});
