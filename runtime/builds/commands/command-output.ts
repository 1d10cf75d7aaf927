// What a command of a build prints, as the author of the project reads it: without the places of this machine, and without
// what npm says of its own log and options.
import { realpathSync } from 'node:fs';

const NPM = /^npm (?:error|ERR!)/;
/** Where npm's log of itself lies: nobody who pushes can read it. */
const NPM_LOG = /A complete log of this run can be found in:|-debug-\d+\.log$/;
/** From here on npm lists the options of its command. */
const NPM_USAGE = /^npm (?:error|ERR!) Usage:$/;
/** An error of npm's or pnpm's in a sentence, and what npm says besides. */
const ERROR = /^(?:npm (?:error|ERR!)|\s*ERR_PNPM_\w+) +(.+)$/;
/** What a shell says of a program that is not there. */
const NOT_FOUND = /^(?:\/bin\/)?sh: (?:line )?(?:\d+: )?(\S+: (?:command )?not found)$/;
const BESIDES = /^(?:code|path|command|errno|syscall) /;

export class CommandOutput {
  readonly #scratch: string;
  readonly #cache: string;
  #isUsage = false;
  #error: string | null = null;

  /**
   * @param scratch the build's directory, which lines do not name: they have `/project/index.js`
   * @param cache that of caches, which they call `/cache`
   */
  constructor(scratch: string, cache: string) {
    this.#scratch = realpathSync(scratch);
    this.#cache = realpathSync(cache);
  }

  /** The first error that a package manager has put into a sentence; null: there was none. */
  get error(): string | null {
    return this.#error;
  }

  /** A line as the log has it; null: it is for nobody who pushes. */
  shown(line: string): string | null {
    const text = line.replaceAll(this.#scratch, '').replaceAll(this.#cache, '/cache');
    if (NPM.test(text)) {
      this.#isUsage ||= NPM_USAGE.test(text);
      if (this.#isUsage || NPM_LOG.test(text)) return null;
    }
    const [, words] = ERROR.exec(text) ?? NOT_FOUND.exec(text) ?? [];
    if (words !== undefined && !BESIDES.test(words)) this.#error ??= words;
    return text;
  }
}
