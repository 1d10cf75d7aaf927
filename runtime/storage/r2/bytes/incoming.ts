// Writes a body to a file as it arrives: hashes, writes and syncs earlier chunks meanwhile.
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { Algorithm, Digests } from './algorithms.ts';
import { DigestThreads } from './digests.ts';
import { duringTransfer, PIECE_BYTES } from './transfers.ts';

/** Maximum chunks of a body that are hashed and written concurrently. */
const PIECES = 4;
/** Maximum number of buffers kept for reuse: allocating one takes about a tenth of the time to write a body. */
const KEPT = 8;
/** Bytes between two syncs during the transfer. These syncs make the last sync shorter. */
const SYNC_BYTES = 8 * 1024 * 1024;

/** A file being written, and its sync. */
export interface Target {
  handle: FileHandle;
  sync: () => Promise<void>;
}

const threads = new DigestThreads();
const kept: SharedArrayBuffer[] = [];

/**
 * Writes a body to a file, from the file's start. Its buffers have at most 1 MiB in all, or 64 KiB with many transfers.
 * @param body exactly `size` bytes. Its chunks may be detached, so the caller must not use them
 * @throws {Error} when the body has fewer or more bytes
 */
export function writeBody(
  body: AsyncIterable<Buffer>,
  size: number,
  target: Target,
  algorithms: Algorithm[],
): Promise<Digests> {
  return duringTransfer((pieceBytes) =>
    size <= pieceBytes
      ? writeSmall(body, size, target, algorithms)
      : writeLarge(body, size, target, algorithms, pieceBytes),
  );
}

async function writeSmall(
  body: AsyncIterable<Buffer>,
  size: number,
  { handle }: Target,
  algorithms: Algorithm[],
): Promise<Digests> {
  const chunks: Buffer[] = [];
  for await (const chunk of exactly(body, size)) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  if (size > 0) await writeAll(handle, bytes, 0);
  return Object.fromEntries(
    algorithms.map((algorithm) => [algorithm, createHash(algorithm).update(bytes).digest()]),
  );
}

async function writeLarge(
  body: AsyncIterable<Buffer>,
  size: number,
  { handle, sync }: Target,
  algorithms: Algorithm[],
  pieceBytes: number,
): Promise<Digests> {
  const memory =
    (pieceBytes === PIECE_BYTES ? kept.pop() : undefined) ?? new SharedArrayBuffer(PIECES * pieceBytes);
  const pieces = Array.from({ length: PIECES }, (_, n) => Buffer.from(memory, n * pieceBytes, pieceBytes));
  /** For each buffer: settles when its chunk is hashed and written. */
  const free: Promise<unknown>[] = pieces.map(() => Promise.resolve());
  const digesting = threads.begin(algorithms);
  let ended = false;
  let unsynced = 0;
  let syncing: Promise<unknown> | null = null;
  let at = 0;
  let turn = 0;
  let filled = 0;
  const send = () => {
    const piece = pieces[turn]!.subarray(0, filled);
    // A failure is thrown when the buffer is next used, or at the end. By then, hashing and writing of the chunk have ended.
    free[turn] = settled(digesting.update(piece), writeAll(handle, piece, at));
    free[turn]!.catch(() => {});
    at += filled;
    unsynced += filled;
    filled = 0;
    turn = (turn + 1) % PIECES;
    if (unsynced < SYNC_BYTES || syncing !== null) return;
    unsynced = 0;
    // A failure is thrown at the end: Linux reports it once, so the last sync would succeed although bytes are lost.
    syncing = sync().then(() => (syncing = null));
    syncing.catch(() => {});
  };
  try {
    for await (const chunk of exactly(body, size)) {
      for (let from = 0; from < chunk.length; ) {
        if (filled === 0) await free[turn];
        const copied = chunk.copy(pieces[turn]!, filled, from);
        filled += copied;
        from += copied;
        if (filled === pieceBytes) send();
      }
      release(chunk);
    }
    if (filled > 0) send();
    await Promise.all([...free, syncing]);
    ended = true;
    return await digesting.end();
  } finally {
    if (!ended) digesting.drop();
    await Promise.allSettled([...free, syncing]);
    if (pieceBytes === PIECE_BYTES && kept.length < KEPT) kept.push(memory);
  }
}

/** Yields the body. @throws {Error} when it has not exactly `size` bytes */
export async function* exactly(body: AsyncIterable<Buffer>, size: number): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > size) throw new Error('the body is longer than its content-length');
    yield chunk;
  }
  if (bytes < size) throw new Error('the body ended too early');
}

/**
 * Frees a chunk's memory at once, if the chunk is the whole of its `ArrayBuffer`. Otherwise such chunks would grow to
 * tens of MiB and cause full garbage collections, several a second.
 */
function release({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** Writes all bytes, because one write may be partial. */
async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** Waits until all promises have settled. If any has rejected, rejects with the reason of the first of them. */
async function settled(...all: Promise<unknown>[]): Promise<void> {
  for (const each of await Promise.allSettled(all)) if (each.status === 'rejected') throw each.reason;
}
