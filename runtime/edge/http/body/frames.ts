// Finds the boundaries of WebSocket frames (RFC 6455, 5.2), so that a close frame can be inserted between two of them.

/** A frame's header has at most 2 bytes, 8 of length and 4 of mask. */
const HEADER_MAX = 14;
const CLOSE_OPCODE = 8;
const SERVICE_RESTART = 1012;

/** Follows the frames of one direction of a WebSocket, without decoding their payload. */
export class FrameScanner {
  readonly #header = Buffer.alloc(HEADER_MAX);
  #headerBytes = 0;
  #payloadLeft = 0;
  #closed = false;

  /** Whether the next byte begins a frame. */
  get atBoundary(): boolean {
    return this.#headerBytes === 0 && this.#payloadLeft === 0;
  }

  /** Whether the header of a close frame has been scanned. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Scans `chunk`, only up to the next frame boundary if `stopAtBoundary`. Returns the number of scanned bytes. */
  scan(chunk: Buffer, stopAtBoundary: boolean): number {
    let at = 0;
    while (at < chunk.length) {
      if (this.#payloadLeft > 0) {
        const step = Math.min(this.#payloadLeft, chunk.length - at);
        this.#payloadLeft -= step;
        at += step;
      } else {
        this.#header[this.#headerBytes++] = chunk[at++]!;
        this.#readHeader();
      }
      if (stopAtBoundary && this.atBoundary) break;
    }
    return at;
  }

  #readHeader(): void {
    if (this.#headerBytes < 2) return;
    const short = this.#header[1]! & 0x7f;
    const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0;
    const maskBytes = this.#header[1]! & 0x80 ? 4 : 0;
    if (this.#headerBytes < 2 + lengthBytes + maskBytes) return;
    if (lengthBytes === 8) this.#payloadLeft = Number(this.#header.readBigUInt64BE(2));
    else this.#payloadLeft = lengthBytes === 2 ? this.#header.readUInt16BE(2) : short;
    if ((this.#header[0]! & 0x0f) === CLOSE_OPCODE) this.#closed = true;
    this.#headerBytes = 0;
  }
}

/** Returns a server's close frame with 1012 (service restart), after which clients reconnect. */
export function restartFrame(): Buffer {
  const reason = 'Service Restart';
  const frame = Buffer.alloc(4 + reason.length);
  frame[0] = 0x80 | CLOSE_OPCODE;
  frame[1] = 2 + reason.length;
  frame.writeUInt16BE(SERVICE_RESTART, 2);
  frame.write(reason, 4, 'latin1');
  return frame;
}
