// Writes the bodies of uploads to disk as they arrive.
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Refusal } from '../refusal.ts';

/** Concurrent bodies; each may fill its limit on the disk. */
const AT_ONCE = 16;
/** Concurrent bodies of one account: Wrangler sends three. */
const AT_ONCE_OF_ACCOUNT = 6;

/** The directory of bodies being processed. A killed host's files there are removed at the start. */
export class Incoming {
  readonly #directory: string;
  /** Bodies being received, by account. */
  readonly #taken = new Map<string, number>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Writes a body to a file, which exists while `work` runs.
   * @throws {Refusal} 413 over `limitBytes`, 400 when the client aborts, 429 while too many are received
   */
  async during<T>(
    request: IncomingMessage,
    { limitBytes, account }: { limitBytes: number; account: string },
    work: (path: string) => Promise<T>,
  ): Promise<T> {
    const ofAccount = this.#taken.get(account) ?? 0;
    const all = [...this.#taken.values()].reduce((sum, count) => sum + count, 0);
    if (all >= AT_ONCE || ofAccount >= AT_ONCE_OF_ACCOUNT)
      throw new Refusal(429, 'rate_limited', 'too many uploads come at once; try again in a moment');
    this.#taken.set(account, ofAccount + 1);
    const path = join(this.#directory, randomBytes(16).toString('hex'));
    try {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      await write(request, path, limitBytes);
      return await work(path);
    } finally {
      const left = this.#taken.get(account)! - 1;
      if (left > 0) this.#taken.set(account, left);
      else this.#taken.delete(account);
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
