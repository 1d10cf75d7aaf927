// What is counted of a request while it goes through.
import type { Socket } from 'node:net';
import type { RequestHead } from './http/head.ts';

/** The client left before an answer began; nginx's number for it. */
const CLIENT_LEFT = 499;

export class Tally {
  readonly #startedAt = performance.now();
  /** The answer's status; 499 while there is none. */
  status = CLIENT_LEFT;
  /** The answer's headers: names and values in turn. */
  headers: readonly string[] = [];
  #received = 0;
  #sent = 0;
  /** The client's socket once it is a tunnel: then its own counters count. */
  #tunnel: Socket | null = null;

  /** Bytes of the request's body that were read; of a tunnel all that the client sent. */
  get bytesRead(): number {
    return this.#received + (this.#tunnel?.bytesRead ?? 0);
  }

  /** Bytes of the answer's body that were handed to the client's socket; of a tunnel all of them. */
  get size(): number {
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

  /** Time since the head was read. */
  get seconds(): number {
    return (performance.now() - this.#startedAt) / 1000;
  }
}

/** A request that is over. */
export interface FinishedRequest {
  head: RequestHead;
  /** Such as `HTTP/1.1`. */
  protocol: string;
  /** The name of the site that it was for; empty when it was under no limit. */
  site: string;
  /** The client's address. */
  client: string;
  /** The address that the connection came from. */
  peer: string;
  requestId: string;
  /** 32 hexadecimal digits. */
  traceId: string;
  tally: Tally;
}
