// A buffer of received bytes that are not parsed yet. The cost of appending a segment depends only on the segment's size. So
// does the cost of the search for the end of a head: bytes before the segment are not searched again.
import { ownCopy } from '../../../sockets/gateway-socket.ts';

const NOTHING = Buffer.alloc(0);
/**
 * Maximum spare capacity, in bytes, when the buffer grows. It is at most the new length, so small buffers stay small.
 */
const SPARE_CAPACITY = 16 * 1024;
const TAB = 9;
const LF = 10;
const CR = 13;

export class Backlog {
  #bytes: Buffer = NOTHING;
  /** The buffer's own memory, which contains `#bytes` and spare capacity after it. Null while none is needed. */
  #memory: Buffer | null = null;
  /** Length of the prefix in which no end of a head was found. */
  #searched = 0;
  /** Length of the prefix whose bytes are valid in a head. */
  #checked = 0;

  get length(): number {
    return this.#bytes.length;
  }

  /** The unread bytes. Without a `keep` before, they may lie in the shared read buffer, which the next read overwrites. */
  get bytes(): Buffer {
    return this.#bytes;
  }

  /** Replaces the content. Bytes in the shared read buffer are valid until the next read, unless `keep` is called. */
  put(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#searched = 0;
    this.#checked = 0;
  }

  add(more: Buffer): void {
    const before = this.#bytes;
    if (before.length === 0) {
      this.put(more);
      return;
    }
    const length = before.length + more.length;
    let memory = this.#memory;
    let start = before.byteOffset;
    if (memory === null || before.buffer !== memory.buffer || start + length > memory.length) {
      memory = Buffer.allocUnsafeSlow(length + Math.min(length, SPARE_CAPACITY));
      start = 0;
      before.copy(memory);
      this.#memory = memory;
    }
    more.copy(memory, start + before.length);
    this.#bytes = memory.subarray(start, start + length);
  }

  /** Removes `count` bytes from the front. */
  drop(count: number): void {
    this.put(count === this.#bytes.length ? NOTHING : this.#bytes.subarray(count));
  }

  /** Removes and returns everything. Without a `keep` before, the bytes may lie in the shared read buffer. */
  take(): Buffer {
    const bytes = this.#bytes;
    this.put(NOTHING);
    this.#memory = null;
    return bytes;
  }

  /** Copies the bytes out of the shared read buffer, so that they outlive the next read. */
  keep(): void {
    if (this.#bytes.length === 0) this.#memory = null;
    else this.#bytes = ownCopy(this.#bytes);
  }

  /** Returns the length of the head at the front, its empty line included; -1 while it is incomplete. */
  headLength(): number {
    const at = this.#bytes.indexOf('\r\n\r\n', Math.max(0, this.#searched - 3));
    if (at !== -1) return at + 4;
    this.#searched = this.#bytes.length;
    return -1;
  }

  /** Whether the first `most` bytes are valid in a head: no control characters but tabs, and no line ends but CRLF. */
  mayBeHead(most: number): boolean {
    const bytes = this.#bytes;
    const end = Math.min(most, bytes.length);
    for (let i = this.#checked; i < end; i++) {
      const code = bytes[i]!;
      const followsCr = i > 0 && bytes[i - 1] === CR;
      if (followsCr !== (code === LF)) return false;
      if (code < 0x20 ? code !== TAB && code !== CR && code !== LF : code === 0x7f) return false;
    }
    this.#checked = Math.max(this.#checked, end);
    return true;
  }
}
