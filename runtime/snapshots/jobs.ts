// Starts a snapshot process for each job, and answers its requests.
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { Layout } from '../disk/data-directory.ts';
import { dieWithParent } from '../isolation/users.ts';
import { log } from '../log.ts';
import { cleanEnvironment, startChild, trustedAuthorities } from '../processes/child.ts';
import { endFirst } from '../resources/limited.ts';
import { onOneProcessor } from '../resources/one-processor.ts';
import { withDataLimit } from '../resources/process-limits.ts';
import { compileCache } from '../threads/compile-cache.ts';
import { NoRoom, NotThere, Unusable } from './errors.ts';
import type { DoneOf, Job, OutputLine } from './process.ts';
import type { HoldBuckets } from './take/capture.ts';

const PROGRAM = fileURLToPath(new URL('./process.ts', import.meta.url));
/** Timeout of a job, in ms. */
const DEADLINE_MS = 6 * 3_600_000;
/** Heap limit of the process, in MiB. */
const HEAP_MB = 1024;
/** Limit of the process's writable memory, in bytes. Node alone reserves 560 MiB. */
const MEMORY_BYTES = 3 * 2 ** 30;
const FAILURES = { not_there: NotThere, unusable: Unusable, no_room: NoRoom, error: Error };

export interface JobsOptions {
  store: HostStore;
  paths: Layout;
  holdBuckets: HoldBuckets;
}

export interface RunningJob {
  what: Exclude<Job['kind'], 'look'>;
  /** ISO 8601. */
  since: string;
}

export class Jobs {
  readonly #options: JobsOptions;
  readonly #underWay = new Set<RunningJob>();

  constructor(options: JobsOptions) {
    this.#options = options;
  }

  /** The running job that began last; null when none runs. Jobs of kind `look` do not count. */
  get underWay(): RunningJob | null {
    return [...this.#underWay].at(-1) ?? null;
  }

  /**
   * Runs a job in a child process of its own.
   * @throws {NotThere}, {Unusable}, {NoRoom} or {Error}, as the child reports; the signal's reason when `signal` aborts
   */
  async run<Kind extends Job['kind']>(
    job: Extract<Job, { kind: Kind }>,
    signal: AbortSignal,
  ): Promise<DoneOf[Kind]> {
    if (job.kind === 'look') return (await this.#run(job, signal)) as DoneOf[Kind];
    const underWay: RunningJob = { what: job.kind, since: new Date().toISOString() };
    this.#underWay.add(underWay);
    try {
      return (await this.#run(job, signal)) as DoneOf[Kind];
    } finally {
      this.#underWay.delete(underWay);
    }
  }

  async #run(job: Job, signal: AbortSignal): Promise<DoneOf[Job['kind']]> {
    const bound = [...dieWithParent(), ...endFirst(), ...withDataLimit(MEMORY_BYTES)];
    const words = [...bound, ...onOneProcessor(), 'nice', '-n', '19', process.execPath];
    const child = await startChild([...words, `--max-old-space-size=${HEAP_MB}`, PROGRAM], {
      title: 'the process of snapshots',
      environment: { ...cleanEnvironment(), ...trustedAuthorities(), ...compileCache() },
    });
    const end = () => child.end();
    let isLate = false;
    const deadline = setTimeout(() => {
      isLate = true;
      end();
    }, DEADLINE_MS);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    const held = new Set<string>();
    let errors = '';
    child.stderr.on('data', (chunk: Buffer) => {
      errors = (errors + chunk.toString('utf8')).slice(-2_000);
    });
    try {
      child.stdin.write(`${JSON.stringify(job)}\n`);
      for await (const line of createInterface({ input: child.stdout })) {
        const word = JSON.parse(line) as OutputLine;
        if ('warn' in word) log('warn', `snapshot: ${word.warn}`);
        else if ('ask' in word) child.stdin.write(`${JSON.stringify(await this.#give(word, held))}\n`);
        else if ('done' in word) return word.done;
        else throw new FAILURES[word.kind](word.failed);
      }
      signal.throwIfAborted();
      if (isLate)
        throw new Error(
          `the process of snapshots took longer than ${DEADLINE_MS / 3_600_000} hours and was ended`,
        );
      throw new Error(`the process of snapshots ended: ${errors.trim() || 'without an error message'}`);
    } finally {
      clearTimeout(deadline);
      signal.removeEventListener('abort', end);
      child.end();
      for (const app of held) await this.#options.holdBuckets(app, false).catch(() => {});
    }
  }

  /** Answers a request of the process. @param held the apps for which removals of R2 objects' files are deferred */
  async #give(word: Extract<OutputLine, { ask: string }>, held: Set<string>): Promise<string | null> {
    if (word.ask === 'copy') return this.#copyDatabase();
    const { app, isHeld } = word;
    if (isHeld) held.add(app);
    // If the bucket service has just ended, the snapshot goes on.
    await this.#options.holdBuckets(app, isHeld).catch(() => {});
    if (!isHeld) held.delete(app);
    return null;
  }

  async #copyDatabase(): Promise<string> {
    const { paths, store } = this.#options;
    mkdirSync(paths.snapshotting, { recursive: true, mode: 0o700 });
    const path = join(paths.snapshotting, 'host.sqlite');
    rmSync(path, { force: true });
    await store.snapshots.copy(path);
    return path;
  }
}
