// Takes the bodies of uploads: they go to the disk as they come.
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Refusal } from '../control/refusal.ts';

/** Bodies that are taken at a time; each may have its limit on the disk. */
const AT_ONCE = 16;

/** A place for bodies that are being worked on. What a killed host left there is removed at the start. */
export class Incoming {
  readonly #directory: string;
  #taken = 0;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Writes a body to a file, which is there while `work` runs.
   * @throws {Refusal} 413 over `limitBytes`, 400 when it breaks off, 429 while too many are taken
   */
  async during<T>(
    request: IncomingMessage,
    limitBytes: number,
    work: (path: string) => Promise<T>,
  ): Promise<T> {
    if (this.#taken >= AT_ONCE)
      throw new Refusal(429, 'rate_limited', 'too many uploads come at once; try again in a moment');
    this.#taken++;
    const path = join(this.#directory, randomBytes(16).toString('hex'));
    try {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      await write(request, path, limitBytes);
      return await work(path);
    } finally {
      this.#taken--;
      await rm(path, { force: true });
    }
  }
}

async function write(request: IncomingMessage, path: string, limitBytes: number): Promise<void> {
  let bytes = 0;
  const bounded = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= limitBytes) done(null, chunk);
      else done(new Refusal(413, 'body_too_large', `an upload may have ${limitBytes} bytes here`));
    },
  });
  try {
    await pipeline(request, bounded, createWriteStream(path, { mode: 0o600 }));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE' && !request.errored)
      throw error;
    throw new Refusal(400, 'bad_request', 'the upload broke off before its end; nothing was deployed');
  }
}
