// The heads of one connection, one after another. Most clients send the same fields with each request: to compare them takes
// a tenth of the time that it takes to read them.
import type { Backlog } from './backlog.ts';
import { type HeadFields, readHead, readHeadAgain } from './head.ts';

/** Longest fields that are kept for the next head, in bytes. */
const KEPT_BYTES = 1_024;
const LF = 10;
/** What stands between `HTTP/1.` and the fields: a digit and a line end. */
const DIGIT_BYTES = 1;
const LINE_END_BYTES = 2;

export class HeadReader {
  /** What came last behind `HTTP/1.`, up to the end of its head; null when the next head is to be read whole. */
  #tail: Buffer | null = null;
  /** What was read of it. */
  #fields: HeadFields | null = null;

  /** Takes the head off the front of what waits. Returns null while it has not come whole, in `most` bytes. */
  take(waiting: Backlog, most: number): ReturnType<typeof readHead> | null {
    const { bytes } = waiting;
    const tailAt = this.#knownTailAt(bytes);
    if (tailAt !== -1) {
      const length = tailAt + this.#tail!.length;
      if (length > most) return null;
      waiting.drop(length);
      return readHeadAgain(bytes.toString('latin1', 0, tailAt + DIGIT_BYTES), this.#fields!, length);
    }
    const length = waiting.headLength();
    if (length === -1 || length > most) return null;
    const head = readHead(bytes.toString('latin1', 0, length));
    if (!('refusal' in head)) this.#keep(bytes, length, head.fields);
    waiting.drop(length);
    return head;
  }

  /** Forgets the fields of the head before. */
  forget(): void {
    this.#tail = null;
    this.#fields = null;
  }

  /** Where the known tail of a head begins; -1 when the head at the front ends in another way. */
  #knownTailAt(bytes: Buffer): number {
    const tail = this.#tail;
    if (tail === null) return -1;
    const at = bytes.indexOf(LF) - LINE_END_BYTES;
    const end = at + tail.length;
    if (at < 0 || end > bytes.length) return -1;
    return bytes.compare(tail, 0, tail.length, at, end) === 0 ? at : -1;
  }

  #keep(bytes: Buffer, length: number, fields: HeadFields): void {
    const at = bytes.indexOf(LF) - LINE_END_BYTES;
    this.forget();
    if (length - at > KEPT_BYTES) return;
    // Of its own memory: a part of a shared piece would keep all of that.
    this.#tail = Buffer.allocUnsafeSlow(length - at);
    bytes.copy(this.#tail, 0, at, length);
    this.#fields = fields;
  }
}
