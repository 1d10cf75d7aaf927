// A message on its way out through a socket.
import type { Socket } from 'node:net';

/** Up to this size, in bytes, a body leaves as one string with its head: one copy is cheaper than a list of parts. */
const SMALL_BYTES = 4 * 1024;

/** Writes a message with few calls: its head leaves with the first bytes of its body. */
export class Outgoing {
  readonly #socket: Socket;
  readonly #chunked: boolean;
  /** Empty once it was written. */
  #head: string;

  /** @param head with the empty line that ends it @param chunked whether the body is to be sent in chunks */
  constructor(socket: Socket, head: string, chunked: boolean) {
    this.#socket = socket;
    this.#head = head;
    this.#chunked = chunked;
  }

  /** Whether anything of it was written. */
  get begun(): boolean {
    return this.#head === '';
  }

  /** Writes what there is, and the body's end if this was the last of it. Returns whether there is room for more. */
  write(pieces: Buffer[], last: boolean): boolean {
    const socket = this.#socket;
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
    if (bytes <= SMALL_BYTES) {
      let text = before;
      for (const piece of pieces) text += piece.toString('latin1');
      text += after;
      if (text !== '') socket.write(text, 'latin1');
    } else if (pieces.length === 1 && before === '' && after === '') {
      socket.write(pieces[0]!);
    } else {
      socket.cork();
      if (before !== '') socket.write(before, 'latin1');
      for (const piece of pieces) socket.write(piece);
      if (after !== '') socket.write(after, 'latin1');
      socket.uncork();
    }
    // Node calls for a drain after each large write, even if the system took all of it at once.
    return socket.writableLength === 0 || !socket.writableNeedDrain;
  }
}
