// Filters the output of a build's commands for the project's author: replaces paths of this machine, and drops npm's lines about
// its log and options.
import { realpathSync } from 'node:fs';

const NPM = /^npm (?:error|ERR!)/;
/** Matches lines about npm's own log file, which the project's author cannot read. */
const NPM_LOG = /A complete log of this run can be found in:|-debug-\d+\.log$/;
/** Matches the line after which npm lists the options of its command. */
const NPM_USAGE = /^npm (?:error|ERR!) Usage:$/;
/** Match an error sentence of a package manager. */
const ERRORS = [
  // pnpm may print a thin space (U+2009) after its code. `\S` keeps the time linear.
  /^(?:npm (?:error|ERR!)|\s*\[?ERR_PNPM_\w+\]?)\s+(\S.*)$/,
  // pnpm 12 splits the sentence over several lines, so only its code is shown.
  /^Error: (ERR_PNPM_\w+)$/,
  // Yarn 1 and Bun. Only these messages, because other programs begin lines with `error`, too.
  /^error (?:Error: )?((?:https?:|getaddrinfo |An unexpected error|Couldn't find |Your lockfile ).+)$/,
  /^error: ((?:GET |lockfile |No version matching |.+ failed to resolve).*)$/,
  // Yarn 2 and later: an exception, a failed script, a package that cannot be found or fetched, a lock file that does not fit.
  /^➤ YN(?:0001|0009|0016|0018|0027|0028|0035|0082): [│┌└ ]*(.+)$/,
];
/** Matches a shell's message for a missing program. */
const NOT_FOUND = /^(?:\/bin\/)?sh: (?:line )?(?:\d+: )?(\S+: (?:command )?not found)$/;
/** Matches npm's error lines, without their prefix, that only give details. */
const BESIDES = /^(?:code|path|command|errno|syscall) /;

/** Errors of Wrangler and of projects' own scripts that ask for a variable of an account. */
const WANTS_ACCOUNT =
  /\b(?:set|missing|needs?|requires?|provide)\b.*\bCLOUDFLARE_(?:API_TOKEN|ACCOUNT_ID)\b/i;

export class ShownOutput {
  readonly #scratch: string;
  readonly #cache: string;
  #isUsage = false;
  #error: string | null = null;
  #wantsAccount = false;

  /**
   * @param scratch the build's directory; lines show its files as `/project/index.js`
   * @param cache the caches' directory; lines show it as `/cache`
   */
  constructor(scratch: string, cache: string) {
    this.#scratch = realpathSync(scratch);
    this.#cache = realpathSync(cache);
  }

  /** The first error sentence of a package manager, or a shell's message for a missing program; null if there was none. */
  get error(): string | null {
    return this.#error;
  }

  /** Whether a line named a variable of a Cloudflare account. */
  get wantsAccount(): boolean {
    return this.#wantsAccount;
  }

  /** Returns the line for the log; null if the line is of no use to the author. */
  shown(line: string): string | null {
    const text = line.replaceAll(this.#scratch, '').replaceAll(this.#cache, '/cache');
    if (NPM.test(text)) {
      this.#isUsage ||= NPM_USAGE.test(text);
      if (this.#isUsage || NPM_LOG.test(text)) return null;
    }
    this.#wantsAccount ||= WANTS_ACCOUNT.test(text);
    const [, words] =
      ERRORS.map((each) => each.exec(text)).find((found) => found !== null) ?? NOT_FOUND.exec(text) ?? [];
    if (words !== undefined && !BESIDES.test(words)) this.#error ??= words;
    return text;
  }
}
