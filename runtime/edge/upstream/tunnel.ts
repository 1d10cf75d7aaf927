// An upgraded connection: copies bytes both ways between two sockets, and closes gracefully when its process is to end.
import type { Socket } from 'node:net';
import { send } from '../../sockets/gateway-socket.ts';
import { FrameScanner, restartFrame } from '../http/body/frames.ts';
import type { TrackedTunnel } from './upstream.ts';

/** How long after `close` the tunnel is destroyed, in ms. A client may answer the close frame until then. */
const CLOSE_MS = 1_000;
/** How long one direction may stay open after the other has ended, in ms. */
const HALF_OPEN_MS = 30_000;
/** How long one side may stop reading, in ms. The other side is paused meanwhile, and a paused socket reports no end. */
const BLOCKED_MS = 900_000;

/** Copies bytes as soon as it is created. `onEnd` is called once, when both sockets have closed. */
export class Tunnel implements TrackedTunnel {
  readonly #client: Socket;
  readonly #upstream: Socket;
  /** Null when the protocol is not WebSocket: then no close frame can be inserted. */
  readonly #frames: FrameScanner | null;
  readonly #onEnd: () => void;
  #open = 2;
  #closing = false;
  /** Whether a close frame was inserted towards the client. Nothing may follow it. */
  #injected = false;
  #deadline: NodeJS.Timeout | null = null;
  /** The sockets paused by backpressure, and since when, on the clock of `performance.now()`. */
  readonly #blockedSince = new Map<Socket, number>();

  constructor(client: Socket, upstream: Socket, protocol: string, onEnd: () => void) {
    this.#client = client;
    this.#upstream = upstream;
    this.#frames = protocol === 'websocket' ? new FrameScanner() : null;
    this.#onEnd = onEnd;
    client.on('data', (chunk: Buffer) => this.fromClient(chunk));
    upstream.on('data', (chunk: Buffer) => this.fromProcess(chunk));
    this.#join(client, upstream);
    this.#join(upstream, client);
    client.on('close', () => {
      // If the client aborted, the process need not receive the rest.
      if (client.readableEnded) upstream.destroySoon();
      else upstream.destroy();
      this.#closed();
    });
    // The client still gets what the process sent before it closed or aborted.
    upstream.on('close', () => {
      client.destroySoon();
      this.#closed();
    });
  }

  fromClient(chunk: Buffer): void {
    if (!send(this.#upstream, chunk)) this.#block(this.#client);
  }

  fromProcess(chunk: Buffer): void {
    if (!this.#relay(chunk)) this.#block(this.#upstream);
  }

  /** Destroys the tunnel if a side has been blocked too long at `now`, on the clock of `performance.now()`. */
  check(now: number): void {
    for (const since of this.#blockedSince.values()) if (now - since > BLOCKED_MS) this.destroy();
  }

  close(): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#destroyWithin(CLOSE_MS);
    if (this.#frames === null) {
      this.#client.end();
      this.#upstream.end();
    } else if (this.#frames.atBoundary && !this.#frames.closed) {
      this.#injectClose();
    }
  }

  destroy(): void {
    this.#client.destroy();
    this.#upstream.destroy();
  }

  /** Ends `other` when `one` ends. Resumes `other` when the buffer of `one` is sent. */
  #join(one: Socket, other: Socket): void {
    one.on('drain', () => {
      this.#blockedSince.delete(other);
      other.resume();
    });
    one.on('end', () => {
      other.end();
      if (!this.#closing) this.#destroyWithin(HALF_OPEN_MS);
    });
    // Handled on `close`, which follows.
    one.on('error', () => {});
  }

  /** Called when one of the two sockets has closed. */
  #closed(): void {
    if (--this.#open > 0) {
      if (!this.#closing) this.#destroyWithin(HALF_OPEN_MS);
      return;
    }
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#onEnd();
  }

  #block(sender: Socket): void {
    if (!this.#blockedSince.has(sender)) this.#blockedSince.set(sender, performance.now());
    sender.pause();
  }

  /** Writes bytes of the process to the client. Returns false when the client's buffer is full. */
  #relay(chunk: Buffer): boolean {
    if (this.#injected) return true;
    if (this.#frames === null) return send(this.#client, chunk);
    const injects = this.#closing && !this.#frames.closed;
    const end = this.#frames.scan(chunk, injects);
    if (!injects || this.#frames.closed) return send(this.#client, chunk);
    const room = send(this.#client, chunk.subarray(0, end));
    if (this.#frames.atBoundary) this.#injectClose();
    return room;
  }

  /** Sends a close frame to the client. The client's reply, also a close frame, is forwarded to the process. */
  #injectClose(): void {
    this.#injected = true;
    send(this.#client, restartFrame());
  }

  #destroyWithin(ms: number): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.destroy(), ms);
  }
}

/** Returns the head of a 101 response. @param lines header lines, each with its CRLF */
export function switchingHead(protocol: string, lines: string): string {
  return `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ${protocol}\r\n${lines}\r\n`;
}
