// The answer to a client, as it is written.
import { ServerResponse } from 'node:http';
import { handedOn } from '../passing.ts';
import type { Exchange } from './forward.ts';

/** A response that knows its exchange, so that no listener needs a closure, and relays a body with few writes. */
export class GatewayResponse extends ServerResponse {
  exchange: Exchange | null = null;
  /** The first bytes of a body, kept for the rest of the tick: a small answer leaves in one write with its head. */
  #first: Buffer | null = null;
  #flowing = false;

  /** Writes the head of a process's answer. It leaves with the first bytes, or at the end of the tick. */
  relayHead(status: number, reason: string | undefined, headers: string[]): void {
    // Node takes no other reason phrases, and they mean nothing.
    if (reason !== undefined && /^[\x20-\x7e]+$/.test(reason)) this.writeHead(status, reason, headers);
    else this.writeHead(status, headers);
    process.nextTick(letGo, this);
  }

  /** Relays bytes of the body. Returns whether there is room for more; if not, `drain` tells. */
  relay(chunk: Buffer): boolean {
    if (!this.#flowing && this.#first === null) {
      this.#first = chunk;
      return true;
    }
    this.letGo();
    handedOn(chunk.length);
    return this.write(chunk);
  }

  relayEnd(): void {
    const first = this.#first;
    this.#first = null;
    this.#flowing = true;
    if (first === null) this.end();
    else this.end(first);
  }

  /** Lets the head go, and the first bytes if they are there. */
  letGo(): void {
    if (this.#flowing) return;
    this.#flowing = true;
    const first = this.#first;
    this.#first = null;
    if (first === null) this.flushHeaders();
    else if (!this.write(first)) this.exchange!.blocked();
  }
}

/** Shared, so that a request needs no closure. */
function letGo(response: GatewayResponse): void {
  response.letGo();
}
