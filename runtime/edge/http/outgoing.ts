// A message on its way out through a socket.
import type { BareSocket } from '../../machine/bare-socket.ts';
import { handedOn } from '../../machine/collect-garbage.ts';

/** Room for a small message, and for what one read gives with a head. A slow client keeps so much. */
const SMALL_BYTES = 4 * 1024;
const LARGE_BYTES = 96 * 1024;
/** What a message is copied to, its head first. The system mostly takes all of it at once, and then the next one may be. */
let small = Buffer.allocUnsafeSlow(SMALL_BYTES);
let large = Buffer.allocUnsafeSlow(LARGE_BYTES);

/** Writes a message with few calls: its head leaves with the first bytes of its body. */
export class Outgoing {
  readonly #socket: BareSocket;
  readonly #chunked: boolean;
  /** Empty once it was written. */
  #head: string;

  /** @param head with the empty line that ends it @param chunked whether the body is to be sent in chunks */
  constructor(socket: BareSocket, head: string, chunked: boolean) {
    this.#socket = socket;
    this.#head = head;
    this.#chunked = chunked;
  }

  /** Whether anything of it was written. */
  get begun(): boolean {
    return this.#head === '';
  }

  /**
   * Writes what there is, and the body's end if this was the last of it. The pieces are the caller's again afterwards.
   * Returns whether there is room for more.
   */
  write(pieces: Buffer[], last: boolean): boolean {
    let bytes = 0;
    for (const piece of pieces) bytes += piece.length;
    let before = this.#head;
    this.#head = '';
    let after = '';
    if (this.#chunked) {
      if (bytes > 0) {
        before += `${bytes.toString(16)}\r\n`;
        after = '\r\n';
      }
      if (last) after += '0\r\n\r\n';
    }
    if (bytes > 0) return this.#writeGathered(before, pieces, after, before.length + bytes + after.length);
    return before + after === '' || this.#socket.write(before + after);
  }

  #writeGathered(before: string, pieces: Buffer[], after: string, length: number): boolean {
    const socket = this.#socket;
    const isShared = length <= LARGE_BYTES && socket.waiting === 0;
    const isSmall = length <= SMALL_BYTES;
    const room = isSmall ? small : large;
    const bytes = isShared ? room.subarray(0, length) : Buffer.allocUnsafeSlow(length);
    let at = bytes.write(before, 'latin1');
    for (const piece of pieces) at += piece.copy(bytes, at);
    if (after !== '') bytes.write(after, at, 'latin1');
    const hasRoom = socket.write(bytes);
    if (socket.waiting === 0) return hasRoom;
    // They must stay as they are until they have left.
    handedOn(bytes.buffer.byteLength);
    if (isShared && isSmall) small = Buffer.allocUnsafeSlow(SMALL_BYTES);
    else if (isShared) large = Buffer.allocUnsafeSlow(LARGE_BYTES);
    return hasRoom;
  }
}
