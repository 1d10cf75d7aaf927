// The last lines of a process, which say why it ended.
import type { Readable } from 'node:stream';
import { LineReader, messageOf } from '../machine/lines.ts';

/** Lines kept of a process's output. A load error may be followed by warnings. */
const KEPT_LINES = 20;
/** How many of them explain an end, and how much of each. */
const EXPLAINING_LINES = 5;
const EXPLAINING_LENGTH = 500;
/** How V8 says that it has no memory left. */
const OUT_OF_MEMORY = /(JavaScript heap|process) out of memory/;

export class LastLines {
  readonly #onLine: (line: string) => void;
  readonly #memoryMb: number;
  readonly #lines: string[] = [];

  /** @param memoryMb what the process may use, for whoever reads that it ran out of it */
  constructor(onLine: (line: string) => void, memoryMb: number) {
    this.#memoryMb = memoryMb;
    this.#onLine = onLine;
  }

  read(stream: Readable): void {
    const reader = new LineReader((line) => {
      this.#lines.push(line);
      if (this.#lines.length > KEPT_LINES) this.#lines.shift();
      this.#onLine(line);
    });
    stream.on('data', (chunk) => reader.write(chunk)).on('end', () => reader.end());
  }

  /** A load error in workerd's words; else how it ended, and its last lines. */
  explain(code: number | null, signal: NodeJS.Signals | null): string {
    const messages = this.#lines.map(messageOf).map(oneLine);
    const loadError = messages.findLast((message) => message.startsWith('service app: Uncaught'));
    if (code === 1 && loadError !== undefined) return loadError;
    if (code !== 0 && messages.some((message) => OUT_OF_MEMORY.test(message)))
      return `the app needed more memory than RUNNER_CELL_MAX_MB (${this.#memoryMb}) allows`;
    const how = signal === null ? `workerd exited with code ${code}` : `workerd was ended by ${signal}`;
    const last = messages.slice(-EXPLAINING_LINES).map((message) => message.slice(0, EXPLAINING_LENGTH));
    return last.length === 0 ? how : `${how}; its last lines:\n${last.join('\n')}`;
  }
}

function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, ' ').trim();
}
