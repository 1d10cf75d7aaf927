// The time from a save to the first changed answer: `cellar dev` beside `wrangler dev`, each on its own copy of one project, in
// alternating rounds of one run.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { request } from 'undici';
import { freePort } from '../runtime/edge/caddy/caddy.ts';
import { effort } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const ROUNDS = effort(25, 1);
const TARGET = 0.5;
const ROOT = fileURLToPath(new URL('..', import.meta.url));
const READY_MS = 60_000;
/** Poll interval, in ms. */
const LOOK_MS = 5;
/** Pause after each save that was answered, in ms. */
const REST_MS = 700;

/** Prints both medians, and their ratio. */
export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-bench-dev-'));
  const port = await freePort('127.0.0.1');
  const servers = [
    new Server(directory, 'cellar', [join(ROOT, 'cli/cellar'), 'dev', '--port', '0']),
    new Server(directory, 'wrangler', [
      join(ROOT, 'node_modules/.bin/wrangler'),
      'dev',
      `--port=${port}`,
      '--show-interactive-dev-session=false',
    ]),
  ] as const;
  try {
    await Promise.all(servers.map((server) => server.ready()));
    for (let round = 0; round <= ROUNDS; round++)
      for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
        const took = await server.save(`round ${round}`);
        // The first save warms up both.
        if (round > 0) server.times.push(took);
        await sleep(REST_MS);
      }
    const [ours, theirs] = servers.map(({ times }) => median(times)) as [number, number];
    console.log(`from a save to its answer, median of ${ROUNDS}: ${ours.toFixed(0)} ms with cellar dev`);
    console.log(`  ${theirs.toFixed(0)} ms with wrangler dev`);
    console.log(`  ${(ours / theirs).toFixed(2)} x (target: at most ${TARGET})`);
  } finally {
    await Promise.all(servers.map((server) => server.end()));
    rmSync(directory, { recursive: true, force: true });
  }
}

/** One of the two servers, on its copy of the template with a database. */
class Server {
  readonly times: number[] = [];
  readonly #page: string;
  readonly #source: string;
  readonly #child: ChildProcess;
  #said = '';

  constructor(directory: string, name: string, words: string[]) {
    const folder = join(directory, name);
    cpSync(join(ROOT, 'templates/guestbook'), folder, { recursive: true });
    writeFileSync(join(folder, 'src/word.js'), "export const word = 'none';\n");
    const index = join(folder, 'src/index.js');
    const text = readFileSync(index, 'utf8');
    const answered = text.replace(
      /async fetch\([^)]*\) \{/,
      "$&\n    if (request.url.endsWith('/word')) return new Response(word);",
    );
    if (answered === text) throw new Error('the template has another handler than the bench knows');
    writeFileSync(index, `import { word } from './word.js';\n${answered}`);
    this.#page = join(folder, 'src/word.js');
    this.#source = "export const word = '%s';\n";
    this.#child = spawn(words[0]!, words.slice(1), {
      cwd: folder,
      env: {
        PATH: process.env.PATH,
        HOME: directory,
        XDG_CONFIG_HOME: join(directory, 'config'),
        CI: '1',
        NO_COLOR: '1',
        WRANGLER_SEND_METRICS: 'false',
        WRANGLER_LOG_PATH: join(directory, 'logs'),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.#child.stdout!, this.#child.stderr!])
      stream.setEncoding('utf8').on('data', (part: string) => {
        this.#said += stripVTControlCharacters(part);
      });
  }

  async ready(): Promise<void> {
    await this.#until(async () => (await this.#word()) === 'none');
  }

  /** Writes `word` into the source. @returns the time until the server answers with it, in ms */
  async save(word: string): Promise<number> {
    const from = performance.now();
    writeFileSync(this.#page, this.#source.replace('%s', word));
    await this.#until(async () => (await this.#word()) === word);
    return performance.now() - from;
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    this.#child.kill('SIGINT');
    await once(this.#child, 'exit');
  }

  async #word(): Promise<string | null> {
    const [, port] = /http:\/\/(?:localhost|127\.0\.0\.1):(\d+)/.exec(this.#said) ?? [];
    if (port === undefined) return null;
    try {
      const { body } = await request(`http://127.0.0.1:${port}/word`, { headers: { host: 'localhost' } });
      return await body.text();
    } catch {
      return null;
    }
  }

  async #until(isSo: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + READY_MS;
    while (!(await isSo())) {
      if (performance.now() > end) throw new Error(`not within ${READY_MS / 1000} s:\n${this.#said}`);
      await sleep(LOOK_MS);
    }
  }
}
