// Bytes that came and were not taken yet. Adding to them and looking for the end of a head costs what is added, however
// small the segments are in which a sender chooses to send.
import { ownCopy } from '../../../sockets/bare-socket.ts';

const NOTHING = Buffer.alloc(0);
/** Memory is got for so many bytes more than there are, but for no more than there are: small backlogs stay small. */
const SPARE_BYTES = 16 * 1024;
const TAB = 9;
const LF = 10;
const CR = 13;

/** The bytes at the front of what a socket has sent and nobody has taken. */
export class Backlog {
  #bytes: Buffer = NOTHING;
  /** Memory of its own, in which `#bytes` lies with free room behind. Null while there is no need for it. */
  #room: Buffer | null = null;
  /** Bytes at the front that are known not to end a head. */
  #searched = 0;
  /** Bytes at the front that are known to be such as a head may have. */
  #checked = 0;

  get length(): number {
    return this.#bytes.length;
  }

  /** What waits. The bytes stay as they are until something is put or added here. */
  get bytes(): Buffer {
    return this.#bytes;
  }

  /** Puts bytes in place of what was there. Where all sockets are read into, they stay until `keep` or the next read. */
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
    let room = this.#room;
    let start = before.byteOffset;
    if (room === null || before.buffer !== room.buffer || start + length > room.length) {
      room = Buffer.allocUnsafeSlow(length + Math.min(length, SPARE_BYTES));
      start = 0;
      before.copy(room);
      this.#room = room;
    }
    more.copy(room, start + before.length);
    this.#bytes = room.subarray(start, start + length);
  }

  /** Takes `count` bytes off the front. */
  drop(count: number): void {
    this.put(count === this.#bytes.length ? NOTHING : this.#bytes.subarray(count));
  }

  /** Takes everything. The bytes are the caller's. */
  take(): Buffer {
    const bytes = this.#bytes;
    this.put(NOTHING);
    this.#room = null;
    return bytes;
  }

  /** Makes sure that the bytes outlast the next read, which goes where all sockets are read into. */
  keep(): void {
    if (this.#bytes.length === 0) this.#room = null;
    else this.#bytes = ownCopy(this.#bytes);
  }

  /** The length of the head at the front, with its empty line; -1 while its end has not come. */
  headLength(): number {
    const at = this.#bytes.indexOf('\r\n\r\n', Math.max(0, this.#searched - 3));
    if (at !== -1) return at + 4;
    this.#searched = this.#bytes.length;
    return -1;
  }

  /**
   * Whether the first `most` bytes can be of a head: they have no control character but tabs, and no line end but CRLF.
   */
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
