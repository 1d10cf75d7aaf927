// Runs the real Wrangler against a Cellar.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { COMPILE_CACHE_ENV } from '../compiled.ts';
import type { Cellar, Printed } from '../e2e/cellar.ts';

/** The release in the lock file, or another that `scripts/wranglers.ts` has installed. */
const WRANGLER =
  process.env.CELLAR_TEST_WRANGLER ??
  fileURLToPath(new URL('../../../node_modules/.bin/wrangler', import.meta.url));
/** Timeout of one run, in ms: on a busy machine, a start of Wrangler may take over a minute. */
const DEADLINE_MS = 240_000;

/** A project in a temporary folder. */
export class Project {
  readonly directory: string;
  readonly #cellar: Cellar;

  constructor(cellar: Cellar, files: Record<string, string>) {
    this.#cellar = cellar;
    this.directory = mkdtempSync(join(cellar.directory, 'project-'));
    this.write(files);
  }

  write(files: Record<string, string>): void {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.directory, name)), { recursive: true });
      writeFileSync(join(this.directory, name), text);
    }
  }

  /** Returns the environment that directs Wrangler to the Cellar. */
  environment(token = this.#cellar.key): Record<string, string> {
    return {
      PATH: process.env.PATH ?? '',
      HOME: this.#cellar.directory,
      XDG_CONFIG_HOME: join(this.#cellar.directory, 'config'),
      CI: '1',
      NO_COLOR: '1',
      WRANGLER_SEND_METRICS: 'false',
      // The banner would query the registry for the newest version at each run.
      WRANGLER_HIDE_BANNER: 'true',
      WRANGLER_LOG_PATH: join(this.#cellar.directory, 'wrangler-logs'),
      CLOUDFLARE_API_BASE_URL: `${this.#cellar.api}/client/v4`,
      CLOUDFLARE_API_TOKEN: token,
      ...COMPILE_CACHE_ENV,
    };
  }

  /** Runs Wrangler until it exits. */
  wrangler(...words: string[]): Promise<Printed> {
    return this.run(words);
  }

  /** Starts Wrangler. `end` interrupts it; `printed` returns its output so far. */
  start(...words: string[]): { printed: () => string; end: () => Promise<void> } {
    const child = spawn(WRANGLER, words, { cwd: this.directory, env: this.environment(), stdio: 'pipe' });
    const closed = new Promise<void>((resolve) => child.on('close', () => resolve()));
    let text = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (part: string) => {
        text += stripVTControlCharacters(part);
      });
    const end = async () => {
      child.kill('SIGINT');
      await closed;
    };
    return { printed: () => text, end };
  }

  run(
    words: string[],
    { token, environment }: { token?: string; environment?: Record<string, string> } = {},
  ): Promise<Printed> {
    const child = spawn(WRANGLER, words, {
      cwd: this.directory,
      env: { ...this.environment(token), ...environment },
      timeout: DEADLINE_MS,
      stdio: 'pipe',
    });
    const printed = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (text: string) => {
        printed[name] += stripVTControlCharacters(text);
      });
    child.stdin.end();
    return new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code) => resolve({ code: code ?? -1, ...printed }));
    });
  }
}
