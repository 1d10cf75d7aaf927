// Reads request bodies of the bucket service, which begin with metadata. Writes response bodies from files or streams.
import type { FileHandle } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Reads the metadata at the start of a body.
 * @returns the metadata, the rest as a stream, and `leave`, to call if the stream is not read to its end; null when the
 *   body ends within the metadata
 */
export async function splitBody(
  request: IncomingMessage,
  metadataSize: number,
): Promise<{ metadata: Buffer; rest: AsyncIterable<Buffer>; leave: () => Promise<unknown> } | null> {
  // Keeps the request open, so that its unread rest can be discarded. An unread rest would block the connection.
  const chunks = request.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  const read: Buffer[] = [];
  for (let size = 0; size < metadataSize; ) {
    const { done, value } = await chunks.next();
    if (done) return null;
    read.push(value);
    size += value.length;
  }
  const begun = Buffer.concat(read);
  async function* rest() {
    if (begun.length > metadataSize) yield begun.subarray(metadataSize);
    yield* { [Symbol.asyncIterator]: () => chunks };
  }
  return { metadata: begun.subarray(0, metadataSize), rest: rest(), leave: async () => chunks.return?.() };
}

/** Writes to a response with backpressure. Reads a file one chunk ahead. */
export class ResponseWriter {
  readonly #response: ServerResponse;
  /** Maximum bytes of one read of a file. There are two buffers of this size. */
  readonly #pieceBytes: number;
  readonly #buffers: Buffer[] = [];
  #turn = 0;
  readonly #written: Promise<void>[] = [Promise.resolve(), Promise.resolve()];

  #giveUp: ((error: Error) => void)[] = [];

  constructor(response: ServerResponse, pieceBytes: number) {
    this.#response = response;
    this.#pieceBytes = pieceBytes;
    response.once('close', () => {
      for (const giveUp of this.#giveUp) giveUp(new Error('the other side has gone'));
    });
  }

  /**
   * Copies a part of a file to the response. Resolves when its last bytes are queued; `end` waits until they are written.
   * @throws {Error} when the file is shorter, or the client has disconnected
   */
  async copy(file: FileHandle, offset: number, length: number): Promise<void> {
    for (let left = length, at = offset; left > 0; ) {
      const turn = this.#turn++ % 2;
      await this.#written[turn];
      this.#buffers[turn] ??= Buffer.allocUnsafe(
        this.#turn === 1 ? Math.min(left, this.#pieceBytes) : this.#pieceBytes,
      );
      const buffer = this.#buffers[turn];
      const { bytesRead } = await file.read(buffer, 0, Math.min(left, buffer.length), at);
      if (bytesRead === 0) throw new Error('a blob is shorter than the index says');
      this.#written[turn] = this.#write(buffer.subarray(0, bytesRead));
      // A failure is thrown when the buffer is next used, or by `end`.
      this.#written[turn].catch(() => {});
      left -= bytesRead;
      at += bytesRead;
    }
  }

  /** Writes chunks to the response one by one. @throws {Error} when the client has disconnected */
  async pass(chunks: AsyncIterable<Buffer>): Promise<void> {
    for await (const chunk of chunks) await this.#write(chunk);
  }

  /** Waits for all writes, then ends the response. @throws {Error} when the client has disconnected */
  async end(): Promise<void> {
    await Promise.all(this.#written);
    this.#response.end();
  }

  #write(piece: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#giveUp = [...this.#giveUp.slice(-1), reject];
      this.#response.write(piece, (error) => (error ? reject(error) : resolve()));
    });
  }
}
