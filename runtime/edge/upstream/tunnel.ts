// An upgraded connection: bytes both ways between two sockets, and a polite end when the process has to go.
import type { Socket } from 'node:net';
import { FrameScanner, restartFrame } from '../http/body/frames.ts';
import type { TrackedTunnel } from './upstream.ts';

/** How long a client may take to answer a close frame, in ms. */
const CLOSE_MS = 1_000;
/** How long one direction may stay open after the other has ended, in ms. */
const HALF_OPEN_MS = 30_000;
/** How long one side may take nothing of what waits for it, in ms: whoever sent it is not read, and may have left. */
const BLOCKED_MS = 900_000;

/** Carries bytes from the moment it is made. `onEnd` is called once, when both sockets have closed. */
export class Tunnel implements TrackedTunnel {
  readonly #client: Socket;
  readonly #upstream: Socket;
  /** Null when the protocol is not WebSocket: then nothing may be put between its bytes. */
  readonly #frames: FrameScanner | null;
  readonly #onEnd: () => void;
  #open = 2;
  #closing = false;
  /** Whether the client has been sent a close frame from here. Nothing may follow it. */
  #injected = false;
  #deadline: NodeJS.Timeout | null = null;
  /** Since when each side has had to wait for the other, on the clock of `performance.now()`. */
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
      // For a client that broke off, the process need not take what is left.
      if (client.readableEnded) upstream.destroySoon();
      else upstream.destroy();
      this.#closed();
    });
    // The client still gets what the process sent, also when the process broke off.
    upstream.on('close', () => {
      client.destroySoon();
      this.#closed();
    });
  }

  fromClient(chunk: Buffer): void {
    if (this.#upstream.writable && !this.#upstream.write(chunk)) this.#block(this.#client);
  }

  fromProcess(chunk: Buffer): void {
    if (this.#client.writable && !this.#relay(chunk)) this.#block(this.#upstream);
  }

  /** Gives up what has been blocked too long at `now`, on the clock of `performance.now()`. */
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

  /** Passes on the end and the new room of `one` to `other`. */
  #join(one: Socket, other: Socket): void {
    one.on('drain', () => {
      this.#blockedSince.delete(other);
      other.resume();
    });
    one.on('end', () => {
      other.end();
      if (!this.#closing) this.#destroyWithin(HALF_OPEN_MS);
    });
    // What an error means is told when the socket closes.
    one.on('error', () => {});
  }

  /** One of the two sockets has closed. */
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

  /** Writes what the process sent to the client. Returns whether there is room for more. */
  #relay(chunk: Buffer): boolean {
    if (this.#injected) return true;
    if (this.#frames === null) return this.#client.write(chunk);
    const injects = this.#closing && !this.#frames.closed;
    const end = this.#frames.scan(chunk, injects);
    if (!injects || this.#frames.closed) return this.#client.write(chunk);
    const room = this.#client.write(chunk.subarray(0, end));
    if (this.#frames.atBoundary) this.#injectClose();
    return room;
  }

  /** The process gets the client's answer to it, and so a close of its own. */
  #injectClose(): void {
    this.#injected = true;
    this.#client.write(restartFrame());
  }

  #destroyWithin(ms: number): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.destroy(), ms);
  }
}

/** The answer to an upgrade, up to where the other protocol begins. `lines` are field lines, each with its end. */
export function switchingHead(protocol: string, lines: string): string {
  return `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ${protocol}\r\n${lines}\r\n`;
}
