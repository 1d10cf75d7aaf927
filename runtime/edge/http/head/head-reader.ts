// Reads the heads of one connection. Most clients send the same fields with each request, so the fields are cached.
import type { Backlog } from '../body/backlog.ts';
import { KnownBytes } from '../body/known-bytes.ts';
import { type HeadFields, readHead, readHeadAgain } from './head.ts';

/** Longest tail that is cached for the next head, in bytes. */
const KEPT_BYTES = 1_024;
const LF = 10;
/** Length of the minor version, the digit after `HTTP/1.`. */
const DIGIT_BYTES = 1;
const LINE_END_BYTES = 2;

/** The cached end of a head. */
interface Tail {
  /** The bytes from the minor version to the end of the head. */
  known: KnownBytes;
  /** The fields that were parsed from these bytes. */
  fields: HeadFields;
}

export class HeadReader {
  /** The tail of an earlier head; null when the next head must be parsed in full. */
  #tail: Tail | null = null;
  readonly #mayRepeat: boolean;

  /** @param mayRepeat whether a head may repeat the fields of the previous one */
  constructor(mayRepeat = true) {
    this.#mayRepeat = mayRepeat;
  }

  /** Removes the head from the front of `waiting`. Returns null while it is incomplete, or longer than `most` bytes. */
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
    if (this.#mayRepeat && !('refusal' in head)) this.#keep(bytes, length, head.fields);
    waiting.drop(length);
    return head;
  }

  /** Clears the cache. */
  forget(): void {
    this.#tail = null;
  }

  #keep(bytes: Buffer, length: number, fields: HeadFields): void {
    const at = bytes.indexOf(LF) - LINE_END_BYTES;
    this.forget();
    if (length - at <= KEPT_BYTES) this.#tail = { known: new KnownBytes(bytes.subarray(at, length)), fields };
  }
}

/** Returns where the cached tail begins in the head at the front of `bytes`; -1 when that head ends differently. */
function placeOf({ known }: Tail, bytes: Buffer): number {
  const at = bytes.indexOf(LF) - LINE_END_BYTES;
  return at >= 0 && known.isAt(bytes, at) ? at : -1;
}
