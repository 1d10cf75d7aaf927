// A strict parser of the chunked coding (RFC 9112, 7.1). Extensions and trailers are validated and dropped.
import { readFields } from '../head/fields.ts';

/** Longest size line of a chunk, its extensions included, in bytes. */
const SIZE_LINE_BYTES = 256;
/** Maximum bytes of trailers. */
const TRAILER_BYTES = 8 * 1024;
/** Maximum digits of a chunk's size, which allow 2^48 bytes. */
const SIZE_DIGITS = 12;

/** The size line of a chunk. Rejects blanks around extension names: they are legal, but no client sends them. */
const SIZE_LINE =
  /^([0-9A-Fa-f]+)(?:;[!#$%&'*+\-.^`|~\w]+(?:=(?:[!#$%&'*+\-.^`|~\w]+|"(?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"))?)*$/;
/** Maximum digits of a size on the fast path without a regular expression. */
const PLAIN_DIGITS = 7;
/** Data segments of up to this many bytes are moved next to the previous segment. Separate pieces would cost more. */
const JOINED_BYTES = 256;
const CR = 13;
const LF = 10;

type State = 'size' | 'data' | 'data end' | 'trailer' | 'done' | 'broken';

/** Parses the chunks of one body, which may arrive split anywhere. */
export class ChunkReader {
  #state: State = 'size';
  /** The part of an incomplete line that has arrived. */
  #line = '';
  #trailers = '';
  /** Remaining bytes of the chunk's data. */
  #left = 0;

  /** Whether the last chunk and the trailers have been read. */
  get done(): boolean {
    return this.#state === 'done';
  }

  /**
   * Reads the body's bytes from the front of `bytes` and appends their data to `pieces`. May move data inside `bytes`.
   * @returns the number of bytes read; -1 when they are invalid, after which the reader must not be used
   */
  read(bytes: Buffer, pieces: Buffer[]): number {
    let at = 0;
    // The bounds of the current piece in `bytes`.
    let from = 0;
    let to = 0;
    while (at < bytes.length && this.#state !== 'done') {
      if (this.#state === 'data') {
        const end = Math.min(at + this.#left, bytes.length);
        this.#left -= end - at;
        if (this.#left === 0) this.#state = 'data end';
        if (to > from && end - at <= JOINED_BYTES) to = moveDown(bytes, to, at, end);
        else {
          if (to > from) pieces.push(bytes.subarray(from, to));
          from = at;
          to = end;
        }
        at = end;
      } else {
        const next = this.#line === '' ? this.#readPlain(bytes, at) : at;
        at = next > at ? next : this.#readLine(bytes, at);
        if (this.#state === 'broken') return -1;
      }
    }
    if (to > from) pieces.push(bytes.subarray(from, to));
    return at;
  }

  /** Reads a whole size line without extensions, or the empty line after data. Returns its end; `from` for another line. */
  #readPlain(bytes: Buffer, from: number): number {
    let at = from;
    if (this.#state === 'size') {
      let size = 0;
      for (let digit = hexDigit(bytes[at]); digit !== -1; digit = hexDigit(bytes[at])) {
        if (at - from === PLAIN_DIGITS) return from;
        size = size * 16 + digit;
        at++;
      }
      if (at === from || bytes[at] !== CR || bytes[at + 1] !== LF) return from;
      this.#left = size;
      this.#state = size === 0 ? 'trailer' : 'data';
      return at + 2;
    }
    if (this.#state !== 'data end' || bytes[at] !== CR || bytes[at + 1] !== LF) return from;
    this.#state = 'size';
    return at + 2;
  }

  /** Reads to the end of the line or of the bytes. Returns where it stopped. */
  #readLine(bytes: Buffer, from: number): number {
    const end = bytes.indexOf(LF, from);
    const part = bytes.toString('latin1', from, end === -1 ? bytes.length : end);
    this.#line += part;
    if (this.#line.length > (this.#state === 'trailer' ? TRAILER_BYTES : SIZE_LINE_BYTES))
      this.#state = 'broken';
    if (end === -1) return bytes.length;
    const line = this.#line;
    this.#line = '';
    if (line.charCodeAt(line.length - 1) !== CR) this.#state = 'broken';
    else this.#take(line.slice(0, -1));
    return end + 1;
  }

  #take(line: string): void {
    if (this.#state === 'size') this.#takeSize(line);
    else if (this.#state === 'data end') this.#state = line === '' ? 'size' : 'broken';
    else if (this.#state === 'trailer') this.#takeTrailer(line);
  }

  #takeSize(line: string): void {
    const digits = SIZE_LINE.exec(line)?.[1];
    if (digits === undefined || digits.length > SIZE_DIGITS) {
      this.#state = 'broken';
      return;
    }
    this.#left = Number.parseInt(digits, 16);
    this.#state = this.#left === 0 ? 'trailer' : 'data';
  }

  #takeTrailer(line: string): void {
    if (line !== '') {
      this.#trailers += `${line}\r\n`;
      if (this.#trailers.length > TRAILER_BYTES) this.#state = 'broken';
      return;
    }
    this.#state = readFields(this.#trailers, 0, this.#trailers.length) === null ? 'broken' : 'done';
  }
}

/** Returns the value of a hexadecimal digit; -1 for another byte or undefined. */
function hexDigit(code: number | undefined): number {
  if (code === undefined) return -1;
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : -1;
}

/** Moves bytes to an earlier position. Returns where they end there. */
function moveDown(bytes: Buffer, to: number, from: number, end: number): number {
  for (let i = from; i < end; i++) bytes[to + i - from] = bytes[i]!;
  return to + end - from;
}
