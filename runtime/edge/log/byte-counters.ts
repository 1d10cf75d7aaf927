// Counters of a request in flight.
import type { Socket } from 'node:net';
import { monotonic } from '../../sockets/clock.ts';

/** nginx's status for a client that left before the response began. */
const CLIENT_LEFT = 499;

export class Tally {
  /** When the last bytes of the head had been read, on the clock of `performance.now()`. */
  readonly startedAt = monotonic();
  /** The response's status; 499 before there is one. */
  status = CLIENT_LEFT;
  contentType: string | undefined = undefined;
  #received = 0;
  #sent = 0;
  /** The client's socket once it is a tunnel: then the socket's own counters are used. */
  #tunnel: Socket | null = null;

  /** Bytes of the request's body that were read; for a tunnel, all bytes from the client. */
  get bytesIn(): number {
    return this.#received + (this.#tunnel?.bytesRead ?? 0);
  }

  /** Bytes of the response's body that were written to the client's socket; for a tunnel, all bytes to the client. */
  get bytesOut(): number {
    return this.#sent + (this.#tunnel?.bytesWritten ?? 0);
  }

  received(bytes: number): void {
    this.#received += bytes;
  }

  sent(bytes: number): void {
    this.#sent += bytes;
  }

  /** From now on counts everything on a socket. */
  countAll(socket: Socket): void {
    this.#tunnel = socket;
    this.#received -= socket.bytesRead;
    this.#sent -= socket.bytesWritten;
  }

  /** Time since `startedAt`, in ms. 0 when the response is written during the same read, while the clock is frozen. */
  get durationMs(): number {
    return monotonic() - this.startedAt;
  }
}
