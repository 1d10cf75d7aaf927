// Caddy as a child of the host: found, started, told its config, started again when it ends.
import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants, mkdirSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { log, reason } from '../../log.ts';
import { Backoff } from '../../machine/backoff.ts';
import { LineReader } from '../../machine/lines.ts';
import { dieWithParent } from '../../machine/users.ts';
import { ADMIN_HOST, adminSocket, bootConfig } from './config.ts';

/** Longest wait for the admin API after a start, and for an answer of it, in ms. */
const START_MS = 10_000;
const LOAD_MS = 30_000;
const POLL_MS = 20;
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
  #child: ChildProcess | null = null;
  #exited: Promise<void> = Promise.resolve();
  #problem: string | null = 'not started';
  #stopping = false;

  /**
   * @param program path of Caddy
   * @param directory of its sockets and certificates; made if missing, for this user only
   * @param onCertificateFailure is told each time that there is no certificate to be had for a hostname
   */
  constructor(
    program: string,
    directory: string,
    onCertificateFailure: (hostname: string, error: string) => void = () => {},
  ) {
    this.#program = program;
    this.#directory = directory;
    this.#onCertificateFailure = onCertificateFailure;
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
    this.#signal('SIGTERM');
    const kill = setTimeout(() => this.#signal('SIGKILL'), STOP_MS);
    await this.#exited;
    clearTimeout(kill);
  }

  async #spawn(): Promise<void> {
    rmSync(adminSocket(this.#directory), { force: true });
    const [command, ...words] = [...dieWithParent(), this.#program, 'run', '--config', '-'];
    const child = spawn(command!, words, {
      cwd: this.#directory,
      env: { HOME: this.#directory, PATH: '/usr/bin:/bin' },
      detached: true,
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    const startedAt = performance.now();
    this.#child = child;
    this.#exited = this.#watch(child);
    this.#exited.then(() => this.#ended(performance.now() - startedAt));
    child.stdin!.on('error', () => {});
    child.stdin!.end(JSON.stringify(bootConfig(this.#directory)));
    const deadline = startedAt + START_MS;
    while (!(await this.#answers())) {
      if (this.#child !== child) throw new Error('Caddy ended while it started; its log says why');
      if (performance.now() > deadline) throw new Error(`Caddy is not ready after ${START_MS / 1000} s`);
      await delay(POLL_MS);
    }
  }

  /** Resolves at its end. Its errors go to the host's log. */
  #watch(child: ChildProcess): Promise<void> {
    const reader = new LineReader((line) => this.#read(line));
    child.stderr!.on('data', (chunk) => reader.write(chunk)).on('end', () => reader.end());
    return new Promise((resolve) => {
      child.once('error', (error) => {
        log('error', 'Caddy does not start', { error: error.message });
        resolve();
      });
      child.once('close', () => resolve());
    });
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

  #answers(): Promise<boolean> {
    return this.#ask('GET', '/config/admin').then(
      () => true,
      () => false,
    );
  }

  async #post(path: string, body: object): Promise<void> {
    await this.#ask('POST', path, JSON.stringify(body));
  }

  #ask(method: string, path: string, body = ''): Promise<void> {
    return new Promise((resolve, reject) => {
      const call = request({
        socketPath: adminSocket(this.#directory),
        method,
        path,
        agent: false,
        headers: {
          host: ADMIN_HOST,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
        },
        signal: AbortSignal.timeout(LOAD_MS),
      });
      call.once('error', reject);
      call.once('response', (response) => {
        text(response).then((answer) => {
          if (response.statusCode === 200) resolve();
          else reject(new Error(messageIn(answer)));
        }, reject);
      });
      call.end(body);
    });
  }

  #signal(signal: NodeJS.Signals): void {
    const child = this.#child;
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    try {
      process.kill(-child.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
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
