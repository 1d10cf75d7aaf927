// A real Cellar for a test: the host as a child process, on ports that only this test uses, in a temporary data directory.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Agent, fetch, type RequestInit, type Response, WebSocket } from 'undici';
import { layout } from '../../../runtime/disk/data-directory.ts';
import { openFirewall } from '../../../runtime/isolation/firewall.ts';
import { openCellGroups } from '../../../runtime/resources/cell-groups.ts';
import { openControlGroups } from '../../../runtime/resources/cgroup.ts';
import { ownPort } from '../ports.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** The arguments that `npm start` passes to `node`. */
const START = readFileSync(join(ROOT, 'package.json'), 'utf8')
  .match(/"start": "exec node (.+)"/)![1]!
  .split(' ');
/** Resolves names below `localhost` to 127.0.0.1, as browsers and curl do. Some system resolvers do not. */
export const LOCALHOST = new Agent({
  connect: { lookup: (_name, _options, found) => found(null, [{ address: '127.0.0.1', family: 4 }]) },
});
/** Timeout of a start, in ms: a busy machine may need over a minute. */
const START_DEADLINE_MS = 180_000;
/** Timeout of a request, in ms. The first request may wait until the control UI is built. */
export const ANSWER_DEADLINE_MS = 180_000;

/** The `wrangler.toml` of a Worker in `index.js` with a Durable Object `Counter`. */
export const COUNTER_CONFIG = `name = "counter"
main = "index.js"
compatibility_date = "2026-10-01"
[[durable_objects.bindings]]
name = "COUNTER"
class_name = "Counter"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Counter"]
`;

/** The first lines of a Worker with that Durable Object. Each `add` increments the count and returns it. */
export const COUNTER_CLASS = `import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  async add() {
    const n = ((await this.ctx.storage.get('n')) ?? 0) + 1;
    await this.ctx.storage.put('n', n);
    return n;
  }
}
`;

/** Exit code and output of a finished command. */
export interface Printed {
  code: number;
  stdout: string;
  stderr: string;
}

interface ApiAnswer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  body: any;
}

export class Cellar {
  readonly directory: string;
  readonly #settings: Record<string, string>;
  readonly #node: string;
  readonly #hasChannel: boolean;
  #child: ChildProcess | null = null;
  #changes = 0;
  #killed = false;
  /** All machine names that the hosts had. A data directory that is deleted and created again gets a new machine name. */
  readonly #machines = new Set<string>();
  #output = '';
  readonly #printed = new EventEmitter();
  api = '';
  edgePort = 0;

  /**
   * @param node path of the Node.js program that runs the host
   * @param hasChannel whether the host gets an IPC channel, which `reload` needs
   */
  constructor(
    settings: Record<string, string> = {},
    node = join(ROOT, 'node_modules/.bin/node'),
    hasChannel = false,
  ) {
    this.#node = node;
    this.#hasChannel = hasChannel;
    this.directory = mkdtempSync(join(tmpdir(), 'cellar-e2e-'));
    // Other users may traverse this directory, as is usual for the parent of a data directory.
    chmodSync(this.directory, 0o711);
    this.#settings = settings;
  }

  get data(): string {
    return join(this.directory, 'data');
  }
  get token(): string {
    return readFileSync(join(this.data, 'token'), 'utf8').trim();
  }
  get key(): string {
    return readFileSync(join(this.data, 'api-key'), 'utf8').trim();
  }
  get pid(): number {
    return this.#child!.pid!;
  }
  /** All output of the host, over all its starts. */
  get output(): string {
    return this.#output;
  }

  /** Makes the host reload a part, as `npm run dev` does. */
  reload(part: 'control' | 'ui'): void {
    this.#child!.send({ reload: part });
  }

  /** Starts the host and waits until it serves. Later starts use the ports of the first. */
  async start(deadlineMs = START_DEADLINE_MS): Promise<this> {
    const child = spawn(this.#node, START, {
      cwd: ROOT,
      env: {
        ...Object.fromEntries(
          Object.entries(process.env).filter(([name]) => !/^(RUNNER|SERVICE)_/.test(name)),
        ),
        RUNNER_DATA_DIR: this.data,
        RUNNER_PORT: this.api === '' ? String(ownPort()) : new URL(this.api).port,
        RUNNER_EDGE_PORT: String(this.edgePort || ownPort()),
        // Tests send requests faster than people. `edge.test.ts` sets its own rate limits.
        SERVICE_EDGE_RPM: '0',
        SERVICE_EDGE_GIT_RPM: '0',
        ...this.#settings,
      },
      stdio: ['ignore', 'pipe', 'pipe', ...(this.#hasChannel ? (['ipc'] as const) : [])],
    });
    this.#child = child;
    // A test process that exits early must not leave the host running.
    const end = () => void child.kill();
    process.once('exit', end);
    child.once('exit', (_code, signal) => {
      process.off('exit', end);
      this.#killed ||= signal === 'SIGKILL';
    });
    const from = this.#output.length;
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.on('data', (chunk: Buffer) => {
        this.#output += chunk.toString('utf8');
        this.#printed.emit('line');
      });
    }
    // `close` comes after the last output. It wakes `waitFor`, so that `waitFor` notices the end of the host.
    child.on('close', () => this.#printed.emit('line'));
    const ready = await this.waitFor(
      / ready api=(\S+) git=\S+ app="?https?:\/\/\{slug\}\.[a-z.]+:(\d+)/,
      from,
      deadlineMs,
    );
    this.#machines.add(layout(this.data).machineName);
    this.api = ready[1]!;
    this.edgePort = Number(ready[2]);
    return this;
  }

  /** Resolves with the first match in the output after offset `from`. Rejects after the deadline, or when the host ends first. */
  async waitFor(pattern: RegExp, from = 0, deadlineMs = START_DEADLINE_MS): Promise<RegExpMatchArray> {
    const child = this.#child!;
    const deadline = AbortSignal.timeout(deadlineMs);
    for (;;) {
      const printed = this.#output.slice(from);
      const match = printed.match(pattern);
      if (match) return match;
      if (hasEnded(child)) {
        throw new Error(
          `the host ended (${child.signalCode ?? child.exitCode}) before ${pattern}:\n${printed}`,
        );
      }
      await once(this.#printed, 'line', { signal: deadline }).catch(() => {
        throw new Error(`no ${pattern} within ${deadlineMs} ms:\n${printed}`);
      });
    }
  }

  /** Sends a signal. Resolves when the host has ended and all its output was read. */
  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<{ code: number | null; signal: string | null }> {
    const child = this.#child!;
    this.#child = null;
    this.#killed ||= signal === 'SIGKILL';
    if (hasEnded(child)) return Promise.resolve({ code: child.exitCode, signal: child.signalCode });
    return new Promise((resolve) => {
      child.on('close', (code, ended) => resolve({ code, signal: ended }));
      child.kill(signal);
    });
  }

  /** Stops the host if it runs, and removes its directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child) await this.stop();
    if (this.#killed) await this.#removeIsolation();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /**
   * Removes firewall rules and control groups of killed hosts. The start of a host would remove them too, but only those of
   * its own data directory.
   */
  async #removeIsolation(): Promise<void> {
    if (existsSync(this.data)) this.#machines.add(layout(this.data).machineName);
    for (const name of this.#machines) {
      const [firewall, groups] = [await openFirewall(name, []), openControlGroups(name)];
      if (typeof firewall !== 'string') await firewall.close();
      if (typeof groups !== 'string') await groups.close();
      const cells = openCellGroups(name, 1);
      if (typeof cells !== 'string') cells.close();
    }
  }

  /** Calls the REST API with the runner token, or another key. */
  async call(method: string, path: string, body?: unknown, key = this.token): Promise<ApiAnswer> {
    const response = await fetch(this.api + path, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(ANSWER_DEADLINE_MS),
    });
    const text = await response.text();
    const json = response.headers.get('content-type')?.includes('json') && text !== '';
    return { status: response.status, body: json ? JSON.parse(text) : text };
  }

  /** Creates an app and returns its id. */
  async create(slug: string): Promise<string> {
    const { status, body } = await this.call('POST', '/v1/apps', { slug });
    if (status !== 201) throw new Error(`create answered ${status}: ${JSON.stringify(body)}`);
    return body.id;
  }

  // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  async app(id: string): Promise<any> {
    return (await this.call('GET', `/v1/apps/${id}`)).body;
  }

  /** Creates an app, deploys a sample with `files` added or replaced, and returns the app's id. */
  async deploy(slug: string, sample: string, files: Record<string, string> = {}): Promise<string> {
    const id = await this.create(slug);
    await this.deployAgain(slug, sample, files);
    return id;
  }

  /** Deploys a sample to an existing app by a forced push. */
  async deployAgain(slug: string, sample: string, files: Record<string, string> = {}): Promise<void> {
    const work = await this.checkout(sample);
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(work, name)), { recursive: true });
      writeFileSync(join(work, name), text);
    }
    // Two equal commits in the same second would have the same id.
    await this.commit(work, `change ${++this.#changes}`);
    const { stderr } = await this.push(work, slug, '--force');
    if (!stderr.includes('serves this push')) throw new Error(`the push was not deployed:\n${stderr}`);
  }

  /** Requests a path of an app at the edge and reads the whole body. */
  async get(
    slug: string,
    path = '/',
    init: RequestInit = {},
  ): Promise<{ status: number; text: string; headers: Response['headers'] }> {
    const response = await this.open(slug, path, init);
    return { status: response.status, text: await response.text(), headers: response.headers };
  }

  /** Like `get`, but returns the response with its body unread. */
  open(slug: string, path = '/', init: RequestInit = {}): Promise<Response> {
    const url = `http://${slug}.localhost:${this.edgePort}${path}`;
    return fetch(url, { signal: AbortSignal.timeout(ANSWER_DEADLINE_MS), ...init, dispatcher: LOCALHOST });
  }

  webSocket(slug: string, path: string): WebSocket {
    return new WebSocket(`ws://${slug}.localhost:${this.edgePort}${path}`, { dispatcher: LOCALHOST });
  }

  /** Returns the git remote of an app. The default key is that of the first account. */
  remote(slug: string, key = this.key): string {
    return `http://git:${key}@git.localhost:${this.edgePort}/${slug}`;
  }

  /** Copies a sample app into a new git repository with one commit. */
  async checkout(app: string): Promise<string> {
    const directory = mkdtempSync(join(this.directory, `${app}-`));
    cpSync(join(ROOT, 'test/apps', app), directory, { recursive: true });
    await this.git(directory, 'init', '--quiet', '--template=', '--initial-branch=main');
    await this.commit(directory, 'first');
    return directory;
  }

  /** Commits everything in a working copy. */
  async commit(directory: string, message: string): Promise<void> {
    await this.git(directory, 'add', '--all');
    await this.git(directory, 'commit', '--quiet', '--allow-empty', `--message=${message}`);
  }

  /** Pushes HEAD to main. `stderr` of the result is what the user sees. */
  push(directory: string, slug: string, ...options: string[]): Promise<Printed> {
    return this.git(directory, 'push', ...options, this.remote(slug), 'HEAD:main');
  }

  /** Runs stock git as a user would. Resolves whatever the exit code. */
  git(directory: string, ...words: string[]): Promise<Printed> {
    return new Promise((resolve) => {
      execFile(
        'git',
        words,
        {
          cwd: directory,
          timeout: 180_000,
          maxBuffer: 64 * 1024 * 1024,
          env: {
            PATH: process.env.PATH ?? '',
            HOME: this.directory,
            GIT_TERMINAL_PROMPT: '0',
            GIT_AUTHOR_NAME: 'Ada',
            GIT_AUTHOR_EMAIL: 'ada@example.com',
            GIT_COMMITTER_NAME: 'Ada',
            GIT_COMMITTER_EMAIL: 'ada@example.com',
          },
        },
        (error, stdout, stderr) => resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr }),
      );
    });
  }
}

/** Whether a process has ended, and what it printed has been read. */
function hasEnded({ exitCode, signalCode, stdout, stderr }: ChildProcess): boolean {
  return (exitCode !== null || signalCode !== null) && stdout!.closed && stderr!.closed;
}
