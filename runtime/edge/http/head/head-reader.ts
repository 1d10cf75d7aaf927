// The heads of one connection, one after another. Most clients send the same fields with each request.
import type { Backlog } from '../body/backlog.ts';
import { KnownBytes } from '../body/known-bytes.ts';
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
  known: KnownBytes;
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
      const length = tailAt + tail.known.bytes.length;
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
    if (length - at <= KEPT_BYTES) this.#tail = { known: new KnownBytes(bytes.subarray(at, length)), fields };
  }
}

/** Where the tail of the head at the front begins; -1 when that ends in another way. */
function placeOf({ known }: Tail, bytes: Buffer): number {
  const at = bytes.indexOf(LF) - LINE_END_BYTES;
  return at >= 0 && known.isAt(bytes, at) ? at : -1;
}
