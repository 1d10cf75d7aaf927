// The heads of one connection, one after another. Most clients send the same fields with each request: to compare them takes
// a tenth of the time that it takes to read them.
import type { Backlog } from './backlog.ts';
import { type HeadFields, readHead, readHeadAgain } from './head.ts';

/** Longest fields that are kept for the next head, in bytes. */
const KEPT_BYTES = 1_024;
const LF = 10;
/** The digit behind `HTTP/1.`. */
const DIGIT_BYTES = 1;
const LINE_END_BYTES = 2;

/** The end of a head. */
interface Tail {
  /** What came behind `HTTP/1.`. */
  bytes: Buffer;
  /** What was read of it. */
  fields: HeadFields;
}

export class HeadReader {
  /** Of the head before; null when the next head is to be read whole. */
  #tail: Tail | null = null;

  /** Takes the head off the front of what waits. Returns null while it has not come whole, in `most` bytes. */
  take(waiting: Backlog, most: number): ReturnType<typeof readHead> | null {
    const { bytes } = waiting;
    const tail = this.#tail;
    const tailAt = tail === null ? -1 : placeOf(tail, bytes);
    if (tail !== null && tailAt !== -1) {
      const length = tailAt + tail.bytes.length;
      if (length > most) return null;
      waiting.drop(length);
      return readHeadAgain(bytes, tailAt + DIGIT_BYTES, tail.fields, length);
    }
    const length = waiting.headLength();
    if (length === -1 || length > most) return null;
    const head = readHead(bytes, length);
    if (!('refusal' in head)) this.#keep(bytes, length, head.fields);
    waiting.drop(length);
    return head;
  }

  /** Forgets the fields of the head before. */
  forget(): void {
    this.#tail = null;
  }

  #keep(bytes: Buffer, length: number, fields: HeadFields): void {
    const at = bytes.indexOf(LF) - LINE_END_BYTES;
    this.forget();
    if (length - at > KEPT_BYTES) return;
    // Of its own memory: a part of a shared piece would keep all of that.
    const tail = Buffer.allocUnsafeSlow(length - at);
    bytes.copy(tail, 0, at, length);
    this.#tail = { bytes: tail, fields };
  }
}

/** Where the tail of the head at the front begins; -1 when that ends in another way. */
function placeOf(tail: Tail, bytes: Buffer): number {
  const { length } = tail.bytes;
  const at = bytes.indexOf(LF) - LINE_END_BYTES;
  const end = at + length;
  if (at < 0 || end > bytes.length) return -1;
  return bytes.compare(tail.bytes, 0, length, at, end) === 0 ? at : -1;
}
