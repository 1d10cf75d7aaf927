// The output of a build's command, cleaned and cut into lines, no faster than the process that serves all apps can take it.
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as wait } from 'node:timers/promises';
import { cutText } from '../../handlers/contract/text.ts';
import { plainText } from '../machine/lines.ts';

/** Characters of one line of output that are kept. */
const LINE_LENGTH = 2000;
/**
 * Characters of output that are taken at once, and the pause after them, in ms: at most 5 MiB a second. The process
 * serves all apps meanwhile, so a command that prints faster has to wait.
 */
const OUTPUT_PORTION = 16 * 1024;
const OUTPUT_PAUSE_MS = 3;
/** Time that lines take of this thread before a pause, in ms: of an app with many variables each line is searched for all of them. */
const OUTPUT_PORTION_MS = 1;
/** Characters that are cut into lines at once: what a pipe holds may be 64 Ki lines. */
const CUT_AT_ONCE = 2 * 1024;
/** A pause is as many times as long as what came before it took. */
const PAUSE_FACTOR = 5;
/** What a line costs besides its characters, counted in characters. */
const LINE_COST = 250;

/**
 * Hands each line of `stream` on, free of terminal control, and reads no faster than the log can take it. Resolves at
 * the end of the stream, or soon after it was destroyed.
 */
export async function readOutput(stream: Readable, onLine: (line: string) => void): Promise<void> {
  const decoder = new StringDecoder('utf8');
  const lines = new Lines((text) => {
    const line = cleanLine(text);
    if (line !== '') onLine(line);
  });
  const chunks: AsyncIterator<Buffer> = stream[Symbol.asyncIterator]();
  for (;;) {
    const chunk = await chunks.next().catch(() => null);
    if (chunk === null || chunk.done) break;
    const text = decoder.write(chunk.value);
    for (let at = 0; at < text.length; at += CUT_AT_ONCE) {
      await lines.take(text.slice(at, at + CUT_AT_ONCE));
      if (stream.readableAborted) return onLine('… (the rest of the output is not shown)');
    }
  }
  await lines.end(decoder.end());
}

/** Cuts a text that comes in parts into lines, with pauses. */
class Lines {
  readonly #emit: (line: string) => void;
  #rest = '';
  /** The line that has not ended was handed on, as much of it as may be: what follows of it is left out. */
  #isCut = false;
  /** Characters until the next pause. */
  #portion = OUTPUT_PORTION;
  /** Time that lines took since the last pause, in ms. */
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

  async end(text: string): Promise<void> {
    await this.take(`${text}\n`);
  }

  get #isSpent(): boolean {
    return this.#portion <= 0 || this.#worked >= OUTPUT_PORTION_MS;
  }

  async #pause(): Promise<void> {
    await wait(Math.max(OUTPUT_PAUSE_MS, PAUSE_FACTOR * this.#worked));
    this.#portion = OUTPUT_PORTION;
    this.#worked = 0;
  }
}

/** A line as a log may hold it, and not too long. */
function cleanLine(text: string): string {
  const line = plainText(text).trimEnd();
  return cutText(line, LINE_LENGTH, ' … (cut)');
}
