// Cleans a build command's output, splits it into lines, and applies backpressure: the host's process also serves all apps.
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as wait } from 'node:timers/promises';
import { cutText } from '../../../handlers/contract/text.ts';
import { plainText } from '../../processes/lines.ts';

/** Maximum characters of one line of output. */
const LINE_LENGTH = 2000;
/**
 * Characters of output between two pauses. With `OUTPUT_PAUSE_MS`, that is at most 5 MiB a second. A command that prints faster
 * has to wait, because this process also serves all apps.
 */
const OUTPUT_PORTION = 16 * 1024;
/** Minimum length of a pause, in ms. */
const OUTPUT_PAUSE_MS = 3;
/** Maximum time spent on lines between two pauses, in ms. Each line is searched for all values of the app's variables. */
const OUTPUT_PORTION_MS = 1;
/** Characters split into lines at once: a full pipe may hold 64 Ki lines. */
const CUT_AT_ONCE = 2 * 1024;
/** Length of a pause, as a multiple of the time spent on lines before it. */
const PAUSE_FACTOR = 5;
/** Characters that each line counts as, besides its own, towards `OUTPUT_PORTION`. */
const LINE_COST = 250;
/** Total time to wait for output after the command's end, in ms: a process that left the process group may keep the pipe open. */
const GRACE_MS = 500;
/** Maximum bytes read after the command's end: more than a pipe's buffer. */
const REST_BYTES = 2 ** 20;
/** Maximum time to pass on lines after the command's end, in ms; then only `LAST_CHARACTERS` are passed on. */
const REST_MS = 2_000;
/** Characters from the end of the output that are passed on even after `REST_MS`, because they may show the error. */
const LAST_CHARACTERS = 4 * 1024;

/**
 * Passes on each line of `stream`, without terminal control codes and with backpressure. Resolves at the end of the stream, or
 * some seconds after the command has ended.
 * @param ended aborted when the command has ended
 */
export async function readOutput(
  stream: Readable,
  onLine: (line: string) => void,
  ended: AbortSignal,
): Promise<void> {
  const decoder = new StringDecoder('utf8');
  const chunks = new Chunks(stream, ended);
  const lines = new Lines((text) => {
    const line = cleanLine(text);
    if (line !== '') onLine(line);
  });
  let text = '';
  const takeSome = async () => {
    const some = text.slice(0, CUT_AT_ONCE);
    text = text.slice(CUT_AT_ONCE);
    await lines.take(some);
  };
  while (!ended.aborted) {
    const chunk = await chunks.next();
    if (chunk === null) break;
    text = decoder.write(chunk);
    while (text !== '' && !ended.aborted) await takeSome();
  }
  text += decoder.write(await chunks.rest());
  text += `${decoder.end()}\n`;
  lines.hurry();
  const deadline = performance.now() + REST_MS;
  while (text !== '') {
    if (performance.now() > deadline && text.length > LAST_CHARACTERS) {
      lines.beginAnew();
      onLine('… (some lines are not shown: the command printed faster than they could be read)');
      text = lastLines(text);
    }
    await takeSome();
  }
  if (stream.readableAborted) onLine('… (the rest of the output is not shown)');
}

/** Reads the chunks of a stream. Limits the wait after the command's end. */
class Chunks {
  readonly #stream: Readable;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #ended: AbortSignal;
  /** Remaining time to wait after the command's end, in ms. Only waiting in `next` uses it up. */
  #graceMs = GRACE_MS;

  constructor(stream: Readable, ended: AbortSignal) {
    this.#stream = stream;
    this.#chunks = stream[Symbol.asyncIterator]();
    this.#ended = ended;
  }

  /** Returns the next chunk; null at the end. */
  async next(): Promise<Buffer | null> {
    let timer: NodeJS.Timeout | undefined;
    let began = 0;
    const count = () => {
      began = performance.now();
      timer = setTimeout(() => this.#stream.destroy(), this.#graceMs);
    };
    if (this.#ended.aborted) count();
    else this.#ended.addEventListener('abort', count, { once: true });
    const result = await this.#chunks.next().catch(() => null);
    this.#ended.removeEventListener('abort', count);
    if (timer !== undefined) {
      clearTimeout(timer);
      this.#graceMs -= performance.now() - began;
    }
    return result === null || result.done ? null : result.value;
  }

  /** Returns the unread output after the command's end, about `REST_BYTES` at most. */
  async rest(): Promise<Buffer> {
    const rest: Buffer[] = [];
    let bytes = 0;
    for (let chunk = await this.next(); chunk !== null; chunk = await this.next()) {
      rest.push(chunk);
      bytes += chunk.length;
      if (bytes >= REST_BYTES) this.#stream.destroy();
    }
    return Buffer.concat(rest);
  }
}

/** Splits text chunks into lines, with pauses. */
class Lines {
  readonly #emit: (line: string) => void;
  #rest = '';
  /** Whether the current line was too long: its beginning was passed on, and the rest is dropped. */
  #isCut = false;
  /** Characters until the next pause. */
  #portion = OUTPUT_PORTION;
  #counts = true;
  /** Time spent on lines since the last pause, in ms. */
  #worked = 0;

  constructor(emit: (line: string) => void) {
    this.#emit = emit;
  }

  async take(text: string): Promise<void> {
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = lines.pop()!;
    if (this.#isCut && lines.length > 0) {
      lines.shift();
      this.#isCut = false;
    }
    if (this.#isCut) this.#rest = '';
    if (this.#rest.length > LINE_LENGTH) {
      lines.push(this.#rest);
      this.#rest = '';
      this.#isCut = true;
    }
    this.#portion -= text.length;
    for (const line of lines) {
      const began = performance.now();
      this.#emit(line);
      this.#worked += performance.now() - began;
      this.#portion -= LINE_COST;
      if (this.#isSpent) await this.#pause();
    }
    if (this.#isSpent) await this.#pause();
  }

  /** From now on pauses only for time spent, not for characters: the command has ended, so little output is left. */
  hurry(): void {
    this.#counts = false;
  }

  /** Treats the next text as the start of a line. */
  beginAnew(): void {
    this.#rest = '';
    this.#isCut = false;
  }

  get #isSpent(): boolean {
    return (this.#counts && this.#portion <= 0) || this.#worked >= OUTPUT_PORTION_MS;
  }

  async #pause(): Promise<void> {
    await wait(Math.max(OUTPUT_PAUSE_MS, PAUSE_FACTOR * this.#worked));
    this.#portion = OUTPUT_PORTION;
    this.#worked = 0;
  }
}

/** Returns the last lines of an output, up to `LAST_CHARACTERS`. If these have no line end, splits them into pieces. */
function lastLines(text: string): string {
  const last = text.slice(-LAST_CHARACTERS);
  const lines = last.replace(/^[^\r\n]*(\r\n|\n|\r)/, '');
  if (lines.trim() !== '') return lines;
  // The first character may be the second half of a surrogate pair.
  const pieces = last.replace(/^[\udc00-\udfff]/, '').match(/.{1,1000}/gsu) ?? [];
  return pieces.map((piece) => `${piece}\n`).join('');
}

/** Returns a line cleaned and cut for the log. */
function cleanLine(text: string): string {
  const line = plainText(text).trimEnd();
  return cutText(line, LINE_LENGTH, ' … (cut)');
}
