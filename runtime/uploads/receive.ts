// Writes the bodies of uploads to disk as they arrive.
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Refusal } from '../refusal.ts';
import { clientLeft } from '../sockets/client-left.ts';

/** Maximum concurrent bodies; each may take as much of the disk as its size limit. */
const AT_ONCE = 16;
/** Maximum concurrent bodies of one account. Wrangler sends three. */
const AT_ONCE_OF_ACCOUNT = 6;
/** Timeout of a body, in ms. It allows a slow line: 73 KiB/s for the largest body. */
const RECEIVE_MS = 30 * 60_000;

/** A request with the body, and its response. */
export interface Upload {
  request: IncomingMessage;
  response: ServerResponse;
}

/** One of the `AT_ONCE` places, taken by an upload. */
interface Place {
  account: string;
  /** Aborts the upload, with the reason to refuse it. */
  ended: AbortController;
}

/**
 * The directory of bodies being processed. `Uploads` removes a killed host's files there. When all places are taken, an
 * account with few of them gets one from the account with the most.
 */
export class Incoming {
  readonly #directory: string;
  /** In the order of arrival. */
  readonly #places = new Set<Place>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Writes a body to a file, which exists while `work` runs. The signal of `work` aborts when the client disconnects, or
   * another account gets the place.
   * @throws {Refusal} 413 over `limitBytes`, 400 when the client aborts or is too slow, 429 while too many are received
   */
  async during<T>(
    { request, response }: Upload,
    { limitBytes, account }: { limitBytes: number; account: string },
    work: (path: string, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const place = this.#take(account);
    const left = clientLeft(response);
    const signal = AbortSignal.any([place.ended.signal, left]);
    const path = join(this.#directory, randomBytes(16).toString('hex'));
    try {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      await write(request, path, limitBytes, signal);
      return await work(path, signal);
    } catch (error) {
      if (place.ended.signal.aborted) throw place.ended.signal.reason;
      if (!left.aborted) throw error;
      throw new Refusal(400, 'bad_request', 'the upload broke off before its end; nothing was deployed');
    } finally {
      this.#places.delete(place);
      await rm(path, { force: true });
    }
  }

  /**
   * Reserves a place. When all are taken, ends the oldest upload of the account with the most places.
   * @throws {Refusal} 429 when this account may have no more
   */
  #take(account: string): Place {
    const places = Map.groupBy(this.#places, (place) => place.account);
    const ofAccount = places.get(account)?.length ?? 0;
    if (ofAccount >= AT_ONCE_OF_ACCOUNT)
      throw tooMany(`an account may send at most ${AT_ONCE_OF_ACCOUNT} uploads at once`);
    if (this.#places.size >= AT_ONCE) {
      const [oldest, ...others] = [...places.values()].reduce((most, each) =>
        each.length > most.length ? each : most,
      );
      // Otherwise two accounts with the same number of places would take one from each other by turns.
      if (others.length <= ofAccount) throw tooMany(`at most ${AT_ONCE} uploads may come at once`);
      this.#places.delete(oldest!);
      oldest!.ended.abort(
        tooMany(`at most ${AT_ONCE} uploads may come at once, and another account has fewer of them`),
      );
    }
    const place = { account, ended: new AbortController() };
    this.#places.add(place);
    return place;
  }
}

function tooMany(limit: string): Refusal {
  return new Refusal(429, 'rate_limited', `${limit}; try again in a moment`);
}

async function write(
  request: IncomingMessage,
  path: string,
  limitBytes: number,
  signal: AbortSignal,
): Promise<void> {
  let bytes = 0;
  const bounded = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= limitBytes) done(null, chunk);
      else done(new Refusal(413, 'body_too_large', `this upload may have at most ${limitBytes} bytes`));
    },
  });
  const deadline = AbortSignal.timeout(RECEIVE_MS);
  // Not part of the pipeline, which would destroy the request: the response could not be sent.
  request.pipe(bounded);
  try {
    await pipeline(bounded, createWriteStream(path, { mode: 0o600 }), {
      signal: AbortSignal.any([signal, deadline]),
    });
  } catch (error) {
    request.unpipe(bounded);
    if (deadline.aborted && !signal.aborted)
      throw new Refusal(
        400,
        'bad_request',
        `the upload took longer than ${RECEIVE_MS / 60_000} minutes, and nothing was deployed; upload again over a faster connection`,
      );
    throw error;
  }
}
