// Writes a message to a socket.
import type { Socket } from 'node:net';
import { send } from '../../../sockets/gateway-socket.ts';
import { Prefixes } from '../../../sockets/prefixes.ts';
import { countGarbage } from '../../../threads/collect-garbage.ts';

/** Size of the shared buffer for small messages, in bytes. */
const SMALL_BYTES = 4 * 1024;
/** Size of the shared buffer for a head with one read of a body, in bytes. */
const LARGE_BYTES = 96 * 1024;
/** Shared buffers into which messages are gathered. The kernel usually takes all bytes at once: then a buffer is reused. */
let small = new Prefixes(SMALL_BYTES);
let large = new Prefixes(LARGE_BYTES);

/** A part of a head: a string in latin1, or its bytes. */
export type HeadPart = string | Buffer;

/** Longest string that is written in a loop, in characters. For so few, a loop is faster than one call of `write`. */
const SHORT = 16;
const WRITTEN: readonly HeadPart[] = [];

/** Writes a message with few system calls: its head is sent together with the first bytes of its body. */
export class Outgoing {
  readonly #socket: Socket;
  readonly #chunked: boolean;
  /** `WRITTEN` once the head was written. */
  #head: readonly HeadPart[];

  /**
   * @param head with its empty line; its bytes must stay unchanged until the first `write` returns
   * @param chunked whether to send the body in chunks
   */
  constructor(socket: Socket, head: readonly HeadPart[], chunked: boolean) {
    this.#socket = socket;
    this.#head = head;
    this.#chunked = chunked;
  }

  /** Whether the head was written. */
  get begun(): boolean {
    return this.#head === WRITTEN;
  }

  /**
   * Writes `pieces`, and the body's end if `last`. The caller may reuse the pieces afterwards.
   * Returns false when the socket's buffer is full.
   */
  write(pieces: Buffer[], last: boolean): boolean {
    const head = this.#head;
    this.#head = WRITTEN;
    const bytes = lengthOf(pieces);
    let before = '';
    let after = '';
    if (this.#chunked) {
      if (bytes > 0) {
        before = `${bytes.toString(16)}\r\n`;
        after = '\r\n';
      }
      if (last) after += '0\r\n\r\n';
    }
    const length = lengthOf(head) + before.length + bytes + after.length;
    return length === 0 || this.#writeGathered(head, before, pieces, after, length);
  }

  #writeGathered(
    head: readonly HeadPart[],
    before: string,
    pieces: Buffer[],
    after: string,
    length: number,
  ): boolean {
    const socket = this.#socket;
    const isShared = length <= LARGE_BYTES && socket.writableLength === 0;
    const isSmall = length <= SMALL_BYTES;
    const buffers = isSmall ? small : large;
    const bytes = isShared ? buffers.of(length) : Buffer.allocUnsafeSlow(length);
    let at = 0;
    for (const part of head) {
      at = typeof part === 'string' ? putLatin1(part, bytes, at) : putBytes(part, bytes, at);
    }
    if (before !== '') at += bytes.write(before, at, 'latin1');
    for (const piece of pieces) {
      bytes.set(piece, at);
      at += piece.length;
    }
    if (after !== '') bytes.write(after, at, 'latin1');
    const hasRoom = send(socket, bytes);
    if (socket.writableLength === 0) return hasRoom;
    // The socket still refers to the bytes, so later messages get a new buffer.
    countGarbage(bytes.buffer.byteLength);
    if (isShared && isSmall) small = new Prefixes(SMALL_BYTES);
    else if (isShared) large = new Prefixes(LARGE_BYTES);
    return hasRoom;
  }
}

function putBytes(part: Buffer, bytes: Buffer, at: number): number {
  bytes.set(part, at);
  return at + part.length;
}

function putLatin1(text: string, bytes: Buffer, at: number): number {
  if (text.length > SHORT) return at + bytes.write(text, at, 'latin1');
  for (let i = 0; i < text.length; i++) bytes[at + i] = text.charCodeAt(i);
  return at + text.length;
}

function lengthOf(parts: readonly HeadPart[]): number {
  let length = 0;
  for (const part of parts) length += part.length;
  return length;
}
