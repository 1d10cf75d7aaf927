// A request's body on its way to a process.
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { handedOn } from '../passing.ts';
import type { Tally } from './tally.ts';

const BUFFER_BYTES = 64 * 1024;

/**
 * The body as a stream of its own. undici destroys the stream it was given when an answer comes early or a connection
 * fails; the client's socket has to survive that, to be told.
 */
export class UploadBody extends Readable {
  readonly #request: IncomingMessage;
  readonly #tally: Tally;

  constructor(request: IncomingMessage, tally: Tally) {
    super({ highWaterMark: BUFFER_BYTES });
    this.#request = request;
    this.#tally = tally;
    request.on('data', this.#onData);
    request.on('end', this.#onEnd);
  }

  override _read(): void {
    this.#request.resume();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#request.off('data', this.#onData);
    this.#request.off('end', this.#onEnd);
    done(error);
  }

  readonly #onData = (chunk: Buffer): void => {
    handedOn(chunk.length);
    this.#tally.received(chunk.length);
    if (!this.push(chunk)) this.#request.pause();
  };

  readonly #onEnd = (): void => {
    this.push(null);
  };
}
