// An upgraded connection: bytes both ways between two sockets, and a polite end when the process has to go.
import type { Socket } from 'node:net';
import { FrameScanner, restartFrame } from './frames.ts';
import type { TrackedTunnel } from './upstream.ts';

/** How long a client may take to answer a close frame, in ms. */
const CLOSE_MS = 1_000;
/** How long one direction may stay open after the other has ended, in ms. */
const HALF_OPEN_MS = 30_000;
/** Bytes a client may send before its upgrade is answered. It has no reason to send any. */
const EARLY_BYTES = 64 * 1024;

/** A client's socket between its request for an upgrade and the answer: read, so that its leaving is noticed. */
export class WaitingSocket {
  readonly socket: Socket;
  #early: Buffer[];
  #size: number;

  constructor(socket: Socket, head: Buffer) {
    this.socket = socket;
    this.#early = [head];
    this.#size = head.length;
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
  }

  /** Ends the waiting. Returns what the client has sent so far. */
  take(): Buffer {
    this.socket.off('data', this.#onData);
    this.socket.off('end', this.#onEnd);
    const early = Buffer.concat(this.#early);
    this.#early = [];
    return early;
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#early.push(chunk);
    this.#size += chunk.length;
    if (this.#size > EARLY_BYTES) this.socket.destroy();
  };

  readonly #onEnd = (): void => {
    this.socket.destroy();
  };
}

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

  constructor(client: Socket, upstream: Socket, protocol: string, onEnd: () => void) {
    this.#client = client;
    this.#upstream = upstream;
    this.#frames = protocol === 'websocket' ? new FrameScanner() : null;
    this.#onEnd = onEnd;
    client.on('data', (chunk: Buffer) => {
      if (upstream.writable && !upstream.write(chunk)) client.pause();
    });
    upstream.on('data', (chunk: Buffer) => {
      if (client.writable && !this.#relay(chunk)) upstream.pause();
    });
    this.#join(client, upstream);
    this.#join(upstream, client);
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

  /** Passes on the end, the trouble and the new room of `one` to `other`. */
  #join(one: Socket, other: Socket): void {
    one.on('drain', () => other.resume());
    one.on('end', () => {
      other.end();
      if (!this.#closing) this.#destroyWithin(HALF_OPEN_MS);
    });
    one.on('error', () => other.destroy());
    one.on('close', () => {
      other.destroySoon();
      if (--this.#open > 0) return;
      if (this.#deadline !== null) clearTimeout(this.#deadline);
      this.#onEnd();
    });
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

/** The answer to an upgrade, up to where the other protocol begins. `headers` are names and values in turn. */
export function switchingHead(protocol: string, headers: string[]): string {
  let head = `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ${protocol}\r\n`;
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${head}\r\n`;
}
