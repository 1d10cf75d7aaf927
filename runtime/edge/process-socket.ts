// A socket to a process, which may answer and close while it is still being written to.
import { Socket } from 'node:net';
import { reading } from './http/reading.ts';

/** Takes a failed write for a lost one: the answer that the process sent before it closed can still be read. */
export class ProcessSocket extends Socket {
  /** @param onRead as for `reading` */
  constructor(onRead: (bytes: Buffer) => boolean) {
    super({ allowHalfOpen: true, onread: reading(onRead) });
  }

  override _write(chunk: unknown, encoding: BufferEncoding, done: () => void): void {
    super._write(chunk, encoding, () => done());
  }

  override _writev(chunks: Array<{ chunk: unknown; encoding: BufferEncoding }>, done: () => void): void {
    super._writev!(chunks, () => done());
  }
}
