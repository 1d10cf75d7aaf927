// Runs Caddy as a child process of the host: finds it, starts it, configures it, restarts it when it exits.
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

/** Interval and timeout of the polls for the admin API after a start. */
const START = { everyMs: 20, timeoutMs: 10_000 };
/** Timeout of an admin API request, in ms. */
const LOAD_MS = 30_000;
/** Longest response of the admin API, in bytes. */
const ANSWER_BYTES = 1024 * 1024;
/** Health check: every `everyMs`, with a timeout of `deadlineMs`. After `tries` failures in a row Caddy is killed. */
const WATCH = { everyMs: 5_000, deadlineMs: 5_000, tries: 3 };
/** How long Caddy may take to exit after SIGTERM, its configured grace period included, in ms. */
const STOP_MS = 12_000;

/**
 * Returns the path of the `caddy` program.
 * @throws {Error} with install instructions when it is not in the search path
 */
export function findCaddy(searchPath = process.env.PATH ?? ''): string {
  for (const directory of searchPath.split(delimiter)) {
    const path = join(directory, 'caddy');
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Try the next directory.
    }
  }
  throw new Error('RUNNER_EDGE=caddy needs Caddy: `apt-get install caddy`, or leave RUNNER_EDGE out');
}

/** Returns a free TCP port of `host`. If Caddy chose a free port, it would not report which one. */
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
  readonly #healthCheck: typeof WATCH;
  #healthTimer: NodeJS.Timeout | undefined;

  /**
   * @param program path of Caddy
   * @param directory for Caddy's sockets and certificates; `start` creates it, for this user only
   * @param onCertificateFailure called each time a certificate for a hostname could not be obtained
   * @param watch settings of the health check
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
    this.#healthCheck = watch;
  }

  /** Why Caddy does not work properly; null when it does. */
  get problem(): string | null {
    return this.#problem;
  }

  /** Process id of Caddy; undefined while it does not run. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /**
   * Starts Caddy with a config, and from then on restarts it when it exits. `stop` also cancels a start.
   * @throws {Error} when Caddy does not start, or, with Caddy's message, when it rejects the config
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
   * Loads a config. When Caddy rejects it, only `problem` changes: Caddy keeps its previous config.
   * @throws {Error} with Caddy's message
   */
  async load(config: object): Promise<void> {
    try {
      await this.#post('/load', config);
    } catch (error) {
      this.#problem = `Caddy refuses its configuration: ${reason(error)}`;
      throw new Error(this.#problem);
    }
    this.#config = config;
    this.#problem = null;
  }

  /** Stops Caddy. Requests in flight get the grace period of its config. Kills Caddy if it still runs after `STOP_MS`. */
  async stop(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#healthTimer);
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
    // Caddy logs to stderr.
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
    this.#checkHealth(child, this.#healthCheck.tries);
  }

  /**
   * Checks a running Caddy again and again, and kills it when it no longer answers, so that it is restarted.
   * @param left number of failed checks until the kill
   */
  #checkHealth(child: Child, left: number): void {
    const { everyMs, deadlineMs, tries } = this.#healthCheck;
    clearTimeout(this.#healthTimer);
    this.#healthTimer = setTimeout(async () => {
      const answers = await this.#answers(deadlineMs);
      if (this.#child !== child || this.#stopping) return;
      if (answers && left < tries) this.#problem = null;
      if (answers) return this.#checkHealth(child, tries);
      this.#problem = 'Caddy runs and does not answer';
      log('error', left > 1 ? this.#problem : `${this.#problem}; it is ended and started again`);
      if (left > 1) this.#checkHealth(child, left - 1);
      else this.#signal('SIGKILL');
    }, everyMs).unref();
  }

  /** Handles one line of Caddy's log: JSON with a level, a logger and a message. */
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
      // The exit of Caddy triggers the next restart.
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
    if (status !== 200) throw new Error(messageIn(text ?? 'its answer is larger than 1 MiB'));
  }

  #signal(signal: NodeJS.Signals): void {
    this.#child?.end(signal);
  }
}

/** Returns the message in an error of the admin API. */
function messageIn(answer: string): string {
  try {
    return String((JSON.parse(answer) as { error: unknown }).error);
  } catch {
    return answer.slice(0, 500);
  }
}
