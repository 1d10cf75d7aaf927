// Caddy as a child of the host: found, started, told its config, started again when it ends.
import { accessSync, constants, mkdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { dieWithParent } from '../../isolation/users.ts';
import { log, reason } from '../../log.ts';
import { Backoff } from '../../processes/backoff.ts';
import { type Child, startChild } from '../../processes/child.ts';
import { LineReader } from '../../processes/lines.ts';
import { askSocket } from '../../sockets/ask-socket.ts';
import { until } from '../../threads/until.ts';
import { ADMIN_HOST, adminSocket, bootConfig } from './config.ts';

/** The wait for the admin API after a start. */
const START = { everyMs: 20, timeoutMs: 10_000 };
/** Longest wait for an answer of it, in ms, and its longest answer. */
const LOAD_MS = 30_000;
const ANSWER_BYTES = 1024 * 1024;
/** It is asked every `everyMs` whether it still answers, which may take `deadlineMs`; after `tries` failures it is ended. */
const WATCH = { everyMs: 5_000, deadlineMs: 5_000, tries: 3 };
/** What Caddy may take for its end beyond the grace in its config, in ms. */
const STOP_MS = 12_000;

/**
 * The path of the `caddy` program.
 * @throws {Error} saying how to get it when it is not installed
 */
export function findCaddy(searchPath = process.env.PATH ?? ''): string {
  for (const directory of searchPath.split(delimiter)) {
    const path = join(directory, 'caddy');
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Elsewhere.
    }
  }
  throw new Error('RUNNER_EDGE=caddy needs Caddy: `apt-get install caddy`, or leave RUNNER_EDGE out');
}

/** A TCP port of `host` that is free now, because Caddy does not say which one it took. */
export function freePort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, host, () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

export class Caddy {
  readonly #program: string;
  readonly #directory: string;
  readonly #backoff = new Backoff();
  readonly #onCertificateFailure: (hostname: string, error: string) => void;
  #config: object | null = null;
  #child: Child | null = null;
  #exited: Promise<void> = Promise.resolve();
  #problem: string | null = 'not started';
  #stopping = false;
  readonly #watching: typeof WATCH;
  #watch: NodeJS.Timeout | undefined;

  /**
   * @param program path of Caddy
   * @param directory of its sockets and certificates; made if missing, for this user only
   * @param onCertificateFailure is told each time that there is no certificate to be had for a hostname
   * @param watch how it is asked whether it still answers
   */
  constructor(
    program: string,
    directory: string,
    onCertificateFailure: (hostname: string, error: string) => void = () => {},
    watch = WATCH,
  ) {
    this.#program = program;
    this.#directory = directory;
    this.#onCertificateFailure = onCertificateFailure;
    this.#watching = watch;
  }

  /** Why it does not serve as it should; null when it does. */
  get problem(): string | null {
    return this.#problem;
  }

  /** Its process while it runs. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /**
   * Starts it with a config. From then on it is started again when it ends. `stop` ends the start too.
   * @throws {Error} in Caddy's own words when it does not start or refuses the config
   */
  async start(config: object): Promise<void> {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    try {
      await this.#spawn();
      await this.load(config);
    } catch (error) {
      if (this.#stopping) return;
      await this.stop();
      throw error;
    }
  }

  /**
   * Gives it a config. One that it refuses changes nothing but `problem`: it serves on with the one before.
   * @throws {Error} in Caddy's own words
   */
  async load(config: object): Promise<void> {
    try {
      await this.#post('/load', config);
    } catch (error) {
      this.#problem = `Caddy does not take its config: ${reason(error)}`;
      throw new Error(this.#problem);
    }
    this.#config = config;
    this.#problem = null;
  }

  /** Ends it: what is in flight gets the grace of its config, then it is killed. */
  async stop(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#watch);
    this.#signal('SIGTERM');
    const kill = setTimeout(() => this.#signal('SIGKILL'), STOP_MS);
    await this.#exited;
    clearTimeout(kill);
  }

  async #spawn(): Promise<void> {
    rmSync(adminSocket(this.#directory), { force: true });
    const startedAt = performance.now();
    const child = await startChild([...dieWithParent(), this.#program, 'run', '--config', '-'], {
      cwd: this.#directory,
      environment: { HOME: this.#directory, PATH: '/usr/bin:/bin' },
    }).catch((error: unknown) => {
      this.#ended(0);
      throw error;
    });
    this.#child = child;
    this.#exited = child.closed.then(() => this.#ended(performance.now() - startedAt));
    if (this.#stopping) child.end();
    // Its errors go to the host's log.
    const reader = new LineReader((line) => this.#read(line));
    child.stderr.on('data', (chunk) => reader.write(chunk)).on('end', () => reader.end());
    child.stdout.resume();
    child.stdin.end(JSON.stringify(bootConfig(this.#directory)));
    const isReady = async () => {
      if (await this.#answers()) return true;
      if (this.#child !== child) throw new Error('Caddy ended while it started; its log says why');
      return false;
    };
    if (!(await until(isReady, START)))
      throw new Error(`Caddy is not ready after ${START.timeoutMs / 1000} s`);
    this.#watchOver(child, this.#watching.tries);
  }

  /** Ends a Caddy that runs and answers no more, so that it is started again. @param left questions that it may leave unanswered */
  #watchOver(child: Child, left: number): void {
    const { everyMs, deadlineMs, tries } = this.#watching;
    clearTimeout(this.#watch);
    this.#watch = setTimeout(async () => {
      const answers = await this.#answers(deadlineMs);
      if (this.#child !== child || this.#stopping) return;
      if (answers && left < tries) this.#problem = null;
      if (answers) return this.#watchOver(child, tries);
      this.#problem = 'Caddy runs and does not answer';
      log('error', left > 1 ? this.#problem : `${this.#problem}; it is ended and started again`);
      if (left > 1) this.#watchOver(child, left - 1);
      else this.#signal('SIGKILL');
    }, everyMs).unref();
  }

  /** One line of Caddy's log: JSON with a level, a logger and a message. */
  #read(line: string): void {
    let entry: { level?: string; logger?: string; msg?: string; error?: string; identifier?: string };
    try {
      entry = JSON.parse(line);
    } catch {
      entry = { msg: line };
    }
    const { level, logger, msg = '', error, identifier } = entry;
    if (level === 'info') return;
    log(level === 'error' ? 'error' : 'warn', `caddy: ${msg}`, { logger, error, hostname: identifier });
    if (logger === 'tls.obtain' && level === 'error' && identifier !== undefined)
      this.#onCertificateFailure(identifier, error ?? msg);
  }

  #ended(livedMs: number): void {
    this.#child = null;
    if (this.#stopping || this.#config === null) return;
    this.#problem = 'Caddy ended';
    const { delayMs } = this.#backoff.next(livedMs);
    log('error', 'Caddy ended; it is started again', { delay_ms: delayMs });
    setTimeout(() => void this.#restart(), delayMs).unref();
  }

  async #restart(): Promise<void> {
    if (this.#stopping) return;
    try {
      await this.#spawn();
      await this.load(this.#config!);
      log('info', 'Caddy runs again');
    } catch (error) {
      this.#problem = reason(error);
      log('error', 'Caddy does not start', { error: reason(error) });
      // Its end is what starts it again.
      this.#signal('SIGKILL');
    }
  }

  #answers(deadlineMs = LOAD_MS): Promise<boolean> {
    return this.#ask('GET', '/config/admin', '', deadlineMs).then(
      () => true,
      () => false,
    );
  }

  async #post(path: string, body: object): Promise<void> {
    await this.#ask('POST', path, JSON.stringify(body));
  }

  async #ask(method: string, path: string, body = '', deadlineMs = LOAD_MS): Promise<void> {
    const { status, text } = await askSocket(adminSocket(this.#directory), {
      method,
      path,
      body,
      headers: { host: ADMIN_HOST, 'content-type': 'application/json' },
      limitBytes: ANSWER_BYTES,
      signal: AbortSignal.timeout(deadlineMs),
    });
    if (status !== 200) throw new Error(messageIn(text ?? 'it said too much'));
  }

  #signal(signal: NodeJS.Signals): void {
    this.#child?.end(signal);
  }
}

/** The message of an admin API's error. */
function messageIn(answer: string): string {
  try {
    return String((JSON.parse(answer) as { error: unknown }).error);
  } catch {
    return answer.slice(0, 500);
  }
}
