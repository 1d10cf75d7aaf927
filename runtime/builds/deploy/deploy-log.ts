// The log of one deploy: passes on each new line, keeps the newest lines to store them, and records the steps.
import type { DeployStep } from '../../../handlers/contract/host/host-calls.ts';
import type { Level } from '../../log.ts';
import { plainText } from '../../processes/lines.ts';
import { maskOf } from './mask.ts';

/** Maximum bytes of the stored log; the oldest lines are dropped first. */
const KEPT_BYTES = 64 * 1024;
const CUT = '… (earlier lines are not kept)\n';
/**
 * Bytes up to which lines are joined into one text. `text` is read while the log grows, and joining very many lines is slow.
 */
const PIECE_BYTES = 1024;

export interface DeployLogOptions {
  /** Called with each line, without its line end. Output of build commands has level `debug`. */
  onLine: (line: string, level: Level) => void;
  /** Called with all steps after each change of one. */
  onSteps: (steps: DeployStep[]) => void;
}

/** Lines, each with its line end. */
interface Piece {
  text: string;
  bytes: number;
}

export class DeployLog {
  readonly #options: DeployLogOptions;
  /** The oldest are dropped when the log is full. */
  readonly #pieces: Piece[] = [];
  /** The lines after those in `#pieces`. */
  #newest: { lines: string[]; bytes: number } = { lines: [], bytes: 0 };
  /** Bytes of `#pieces` and `#newest`. */
  #bytes = 0;
  #cut = false;
  #steps: DeployStep[] = [];
  #mask = (text: string) => text;

  constructor(options: DeployLogOptions) {
    this.#options = options;
  }

  /** Returns the lines to store, with line ends, at most 64 KiB of UTF-8. If lines were dropped, a note comes first. */
  get text(): string {
    const pieces = this.#pieces.map(({ text }) => text);
    return [this.#cut ? CUT : '', ...pieces, ...this.#newest.lines].join('');
  }

  /** Returns the steps so far, in the order begun. */
  get steps(): DeployStep[] {
    return this.#steps;
  }

  /** Sets the values to hide in later lines, as `maskOf` does. */
  hide(values: string[]): void {
    this.#mask = maskOf(values);
  }

  /** Returns a text without control characters, and with the values of `hide` masked. */
  shown(text: string): string {
    return this.#mask(plainText(text));
  }

  /** Adds each line of a text, cleaned as by `shown`. Of a text or line that is too long to store, keeps only the end. */
  line(text: string, level: Level = 'debug'): void {
    if (text.length > KEPT_BYTES) this.#cut = true;
    for (const line of this.shown(text.slice(-KEPT_BYTES)).split('\n')) {
      this.#keep(`${line}\n`);
      this.#options.onLine(line, level);
    }
  }

  /** Runs a step and logs its name and duration. @throws what `run` throws */
  async step<T>(name: DeployStep['name'], detail: string, run: () => Promise<T>): Promise<T> {
    this.line(`▸ ${name}: ${detail}`, 'info');
    const index = this.#steps.length;
    const started = performance.now();
    const record = (status: DeployStep['status']): string => {
      const duration_ms = Math.round(performance.now() - started);
      this.#setStep(index, { name, status, duration_ms: status === 'running' ? null : duration_ms });
      return duration_ms < 1000 ? `${duration_ms} ms` : `${(duration_ms / 1000).toFixed(1)} s`;
    };
    record('running');
    try {
      const result = await run();
      this.line(`  ${name} took ${record('done')}`, 'info');
      return result;
    } catch (error) {
      this.line(`  ${name} failed after ${record('failed')}`, 'error');
      throw error;
    }
  }

  /** Records a step that has nothing to do. */
  skip(name: DeployStep['name'], why: string): void {
    this.line(`▸ ${name}: skipped, ${why}`, 'info');
    this.#setStep(this.#steps.length, { name, status: 'skipped', duration_ms: null });
  }

  #setStep(index: number, step: DeployStep): void {
    this.#steps = [...this.#steps.slice(0, index), step, ...this.#steps.slice(index + 1)];
    this.#options.onSteps(this.#steps);
  }

  #keep(line: string): void {
    const room = KEPT_BYTES - Buffer.byteLength(CUT);
    // A UTF-16 code unit needs at most three bytes of UTF-8, so only long lines must be measured.
    const kept = line.length * 3 <= room ? line : lastCharacters(line, room);
    if (kept !== line) this.#cut = true;
    const bytes = Buffer.byteLength(kept);
    if (this.#newest.bytes + bytes > PIECE_BYTES) {
      this.#pieces.push({ text: this.#newest.lines.join(''), bytes: this.#newest.bytes });
      this.#newest = { lines: [], bytes: 0 };
    }
    this.#newest.lines.push(kept);
    this.#newest.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > room) {
      this.#bytes -= this.#pieces.shift()!.bytes;
      this.#cut = true;
    }
  }
}

/** Returns the end of `text` that fits into `bytes` of UTF-8, cut between characters. */
function lastCharacters(text: string, bytes: number): string {
  const encoded = Buffer.from(text);
  if (encoded.length <= bytes) return text;
  let start = encoded.length - bytes;
  while ((encoded[start]! & 0xc0) === 0x80) start++;
  return encoded.toString('utf8', start);
}
