// What is counted of a request while it goes through.
import type { Socket } from 'node:net';
import { monotonic } from '../../sockets/clock.ts';

/** The client left before an answer began; nginx's number for it. */
const CLIENT_LEFT = 499;

export class Tally {
  /** When the bytes that ended the head had been read, on the clock of `performance.now()`. */
  readonly startedAt = monotonic();
  /** The answer's status; 499 while there is none. */
  status = CLIENT_LEFT;
  /** The answer's. */
  contentType: string | undefined = undefined;
  #received = 0;
  #sent = 0;
  /** The client's socket once it is a tunnel: then its own counters count. */
  #tunnel: Socket | null = null;

  /** Bytes of the request's body that were read; of a tunnel all that the client sent. */
  get bytesIn(): number {
    return this.#received + (this.#tunnel?.bytesRead ?? 0);
  }

  /** Bytes of the answer's body that were handed to the client's socket; of a tunnel all of them. */
  get bytesOut(): number {
    return this.#sent + (this.#tunnel?.bytesWritten ?? 0);
  }

  received(bytes: number): void {
    this.#received += bytes;
  }

  sent(bytes: number): void {
    this.#sent += bytes;
  }

  /** From now on everything on a socket is counted. */
  countAll(socket: Socket): void {
    this.#tunnel = socket;
    this.#received -= socket.bytesRead;
    this.#sent -= socket.bytesWritten;
  }

  /** Time since then. 0 for what is answered while the same bytes are handled, such as a refusal by a limit. */
  get durationMs(): number {
    return monotonic() - this.startedAt;
  }
}
