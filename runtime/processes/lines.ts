// Splits a child's output into lines of bounded length.
import { stripVTControlCharacters } from 'node:util';
import { readLogEnvelope } from '../telemetry/logs/log-envelope.ts';

/** Longest line, in bytes; the rest of a longer line is dropped. */
const LINE_BYTES = 64 * 1024;
const NEWLINE = 0x0a;
/** Any control character except a newline. */
const CONTROL = /[^\P{Cc}\n]/u;

export class LineReader {
  readonly #onLine: (line: string) => void;
  #parts: Buffer[] = [];
  #bytes = 0;
  #cut = false;
  #skipping = false;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /** Whether the rest of the current line is being dropped, after `skip`. */
  get isSkipping(): boolean {
    return this.#skipping;
  }

  /** Takes bytes as they arrive; a character may be split between two calls. */
  write(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      this.#keep(chunk.subarray(from, end));
      if (this.#skipping) this.#skipping = false;
      else this.#emit();
      from = end + 1;
    }
    this.#keep(chunk.subarray(from));
  }

  /** Announces a gap in the bytes: drops the current partial line, and the rest of the line that the next bytes continue. */
  skip(): void {
    this.#parts = [];
    this.#bytes = 0;
    this.#cut = false;
    this.#skipping = true;
  }

  /** Passes on a last line without a newline. */
  end(): void {
    if (this.#bytes > 0) this.#emit();
  }

  #keep(bytes: Buffer): void {
    if (this.#skipping) return;
    const kept = bytes.subarray(0, LINE_BYTES - this.#bytes);
    if (kept.length < bytes.length) this.#cut = true;
    if (kept.length === 0) return;
    this.#parts.push(kept);
    this.#bytes += kept.length;
  }

  #emit(): void {
    const line = Buffer.concat(this.#parts);
    const text = this.#cut ? `${line.toString('utf8', 0, characterEnd(line))}…` : line.toString('utf8');
    this.#parts = [];
    this.#bytes = 0;
    this.#cut = false;
    this.#onLine(text);
  }
}

/** Counts the newlines in some bytes. */
export function countLines(bytes: Uint8Array): number {
  const { length } = bytes;
  let lines = 0;
  // Does not use `indexOf`, which is fifty times slower when each byte is a newline.
  for (let at = 0; at < length; at++) if (bytes[at] === NEWLINE) lines++;
  return lines;
}

/** Returns where the last whole character of cut UTF-8 ends. */
function characterEnd(bytes: Buffer): number {
  let start = bytes.length - 1;
  while (start > 0 && (bytes[start]! & 0xc0) === 0x80) start--;
  const lead = bytes[start] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return start + length > bytes.length ? start : bytes.length;
}

/** Returns the message of a line in workerd's structured log, or any other line unchanged. */
export function messageOf(line: string): string {
  try {
    const { message } = JSON.parse(line);
    return typeof message === 'string' ? (readLogEnvelope(message)?.text ?? message) : line;
  } catch {
    return line;
  }
}

/** Removes escape sequences and control characters, for a log. Newlines stay, and a tab becomes two spaces. */
export function plainText(text: string): string {
  // Saves the replacements, because most lines have no such character.
  if (!CONTROL.test(text)) return text;
  return stripVTControlCharacters(text)
    .replaceAll('\t', '  ')
    .replace(/[^\P{Cc}\n]/gu, '');
}
