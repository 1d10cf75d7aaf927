// The host's side of snapshots: when one is taken, and what came of it. The work is done by a process of its own.
import { mkdirSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { HostStore } from '../../sqlite/host/index.ts';
import { log, reason } from '../log.ts';
import { cleanEnvironment, startChild } from '../machine/child.ts';
import { compileCache } from '../machine/compile-cache.ts';
import type { Layout } from '../machine/data-directory.ts';
import { onOneProcessor } from '../machine/one-processor.ts';
import { dieWithParent } from '../machine/users.ts';
import type { CapturedApp, HoldBuckets } from './capture.ts';
import type { Copied } from './copy.ts';
import { NotThere, Unusable } from './errors.ts';
import { type Head, listSnapshots, readHead } from './manifest.ts';
import { openStore, type StorePlace } from './place.ts';
import type { Done, Job, Word } from './process.ts';
import { FOR_CLASSES, type Keep } from './retention.ts';
import type { Restored, RestoreJob } from './storage.ts';
import type { Taken } from './take.ts';

const PROGRAM = fileURLToPath(new URL('./process.ts', import.meta.url));
/** Longest run of the process, in ms. */
const DEADLINE_MS = 6 * 3_600_000;
/** Memory of its JavaScript objects, in MiB. */
const HEAP_MB = 1024;
const HOUR_MS = 3_600_000;
/** The first snapshot of all is taken so long after the start, in ms. */
const FIRST_MS = 10 * 60_000;
/** A snapshot that failed is tried again after so long, in ms, or when the next one is due. */
const RETRY_MS = HOUR_MS;
/** A timer cannot be set for longer. */
const LONGEST_TIMER_MS = 24 * HOUR_MS;

export interface SnapshotsOptions {
  store: HostStore;
  paths: Layout;
  place: StorePlace;
  keep: Keep;
  /** Time between snapshots, in ms; null for none by itself. */
  everyMs: number | null;
  /** Whether apps' files are those of users of their own. */
  hasUsers: boolean;
  holdBuckets: HoldBuckets;
}

/** What `admin.stats` says. */
export interface SnapshotsState {
  /** When the last one was taken, ISO 8601, how large what was written for it is, and how large all that is in it. */
  last_at: string | null;
  last_written_bytes: number | null;
  last_bytes: number | null;
  /** Why the last try failed, or what is not in the last one; null when all is well. */
  problem: string | null;
  /** What is done at the moment, and since when, ISO 8601. */
  under_way: { what: 'take' | 'restore' | 'copy'; since: string } | null;
}

export class Snapshots {
  readonly #options: SnapshotsOptions;
  /** What was asked for last: one thing is done after another. */
  #last: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | null = null;
  #state: Omit<SnapshotsState, 'under_way'> = {
    last_at: null,
    last_written_bytes: null,
    last_bytes: null,
    problem: null,
  };
  #underWay: SnapshotsState['under_way'] = null;
  readonly #ending = new AbortController();

  constructor(options: SnapshotsOptions) {
    this.#options = options;
  }

  get state(): SnapshotsState {
    return { ...this.#state, under_way: this.#underWay };
  }

  /** Begins to take snapshots by itself. What was due while no host ran is due now. Never rejects. */
  async start(): Promise<void> {
    const { everyMs, paths } = this.#options;
    try {
      await this.#next(() => rm(paths.snapshotting, { recursive: true, force: true }));
      const store = openStore(this.#options.place);
      const newest = (await listSnapshots(store)).at(-1);
      const head = newest === undefined ? null : await readHead(store, newest);
      // One may have been taken while they were listed.
      if (head !== null && this.#state.last_at === null) this.#remember(head);
    } catch (error) {
      this.#fail(error);
    }
    if (everyMs === null) return;
    const { last_at } = this.#state;
    const next = last_at === null ? FIRST_MS : Date.parse(last_at) + everyMs - Date.now();
    // The clock may have been set back since.
    this.#schedule(Math.min(next, everyMs));
  }

  /**
   * Takes a snapshot, after those that were asked for before.
   * @param why for people
   */
  take(why: string): Promise<Taken> {
    return this.#next(async () => {
      const { store, paths, place, keep, hasUsers } = this.#options;
      const begun = performance.now();
      try {
        const of = store.snapshots.cellar();
        // A host that came up with another name would not know this snapshot for its own.
        await store.synced();
        const job: Job = {
          kind: 'take',
          root: paths.root,
          store: place,
          of,
          why,
          keep,
          hasUsers,
        };
        const taken = (await this.#run(job)) as Taken;
        this.#remember(taken.head);
        const { id, bytes } = taken.head;
        const seconds = ((performance.now() - begun) / 1000).toFixed(1);
        log('info', 'snapshot taken', { id, why, bytes, written: taken.bytes, seconds });
        return taken;
      } catch (error) {
        this.#fail(error);
        throw error;
      }
    });
  }

  /**
   * Takes a snapshot before a deploy's deleted classes lose their data.
   * @returns its id
   * @throws {Error} also when the app could not be read: then the snapshot has older data of it
   */
  async takeForClasses(appId: string, slug: string): Promise<string> {
    const { head, unread } = await this.take(`${FOR_CLASSES} of ${slug}`);
    if (unread.includes(appId)) throw new Error(`snapshot ${head.id} has app ${slug} as of an earlier one`);
    return head.id;
  }

  /**
   * Writes an app's storage, or one file of it, as a snapshot has it into a directory. Every byte has been checked then.
   * @throws {NotThere}, {Unusable}; then there is no such directory
   */
  extract(wanted: Pick<RestoreJob, 'snapshot' | 'app' | 'only' | 'into'>): Promise<Restored> {
    const { store, paths, place } = this.#options;
    const of = store.snapshots.cellar();
    const job: Job = { kind: 'restore', root: paths.root, store: place, of, ...wanted };
    return this.#next(() => this.#run(job) as Promise<Restored>);
  }

  /**
   * Writes a copy of what an app keeps at this moment into a directory, after what was asked for before.
   * @throws {Error} then there is no such directory
   */
  copy(app: CapturedApp, into: string): Promise<Copied> {
    const job: Job = { kind: 'copy', root: this.#options.paths.root, app, into };
    return this.#next(() => this.#run(job) as Promise<Copied>);
  }

  /** The snapshots that there are, the newest first. */
  async list(): Promise<Head[]> {
    const store = openStore(this.#options.place);
    const heads: Head[] = [];
    for (const id of (await listSnapshots(store)).reverse()) {
      const head = await readHead(store, id).catch((error: unknown) =>
        log('warn', 'a snapshot cannot be read', { id, error: reason(error) }),
      );
      if (head) heads.push(head);
    }
    return heads;
  }

  /** Ends what is under way: a snapshot that is not whole yet is none. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#last;
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(() => {
      this.#ending.signal.throwIfAborted();
      return work();
    });
    this.#last = result.catch(() => {});
    return result;
  }

  #schedule(delayMs: number): void {
    if (this.#ending.signal.aborted) return;
    const { everyMs } = this.#options;
    this.#timer = setTimeout(
      async () => {
        if (delayMs > LONGEST_TIMER_MS) return this.#schedule(delayMs - LONGEST_TIMER_MS);
        const next = await this.take('schedule').then(
          () => everyMs!,
          () => Math.min(everyMs!, RETRY_MS),
        );
        this.#schedule(next);
      },
      Math.min(Math.max(delayMs, 0), LONGEST_TIMER_MS),
    );
  }

  #remember({ created_at, written, bytes, failures }: Head): void {
    const problem = failures
      .map(({ slug, error }) => `${slug} is as of an earlier snapshot: ${error}`)
      .join('; ');
    this.#state = {
      last_at: created_at,
      last_written_bytes: written,
      last_bytes: bytes,
      problem: problem || null,
    };
  }

  #fail(error: unknown): void {
    this.#state = { ...this.#state, problem: reason(error) };
    if (!this.#ending.signal.aborted) log('error', 'a snapshot failed', { error: reason(error) });
  }

  /** Has the process do a job. @throws {NotThere}, {Unusable}, {Error} as the job does */
  async #run(job: Job): Promise<Done> {
    const { signal } = this.#ending;
    this.#underWay = { what: job.kind, since: new Date().toISOString() };
    const words = [...dieWithParent(), ...onOneProcessor(), 'nice', '-n', '19', process.execPath];
    const child = await startChild([...words, `--max-old-space-size=${HEAP_MB}`, PROGRAM], {
      title: 'the process of snapshots',
      environment: { ...cleanEnvironment(), ...compileCache() },
    }).catch((error: unknown) => {
      this.#underWay = null;
      throw error;
    });
    const end = () => child.end();
    const deadline = setTimeout(end, DEADLINE_MS);
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
        const word = JSON.parse(line) as Word;
        if ('warn' in word) log('warn', `snapshot: ${word.warn}`);
        else if ('ask' in word) child.stdin.write(`${JSON.stringify(await this.#give(word, held))}\n`);
        else if ('done' in word) return word.done;
        else throw new FAILURES[word.kind](word.failed);
      }
      signal.throwIfAborted();
      throw new Error(`the process of snapshots ended: ${errors.trim() || 'without a word'}`);
    } finally {
      this.#underWay = null;
      clearTimeout(deadline);
      signal.removeEventListener('abort', end);
      child.end();
      for (const app of held) await this.#options.holdBuckets(app, false).catch(() => {});
    }
  }

  /** What the process asks for. @param held the apps whose buckets are held for it */
  async #give(word: Extract<Word, { ask: string }>, held: Set<string>): Promise<string | null> {
    if (word.ask === 'copy') return this.#copyDatabase();
    const { app, isHeld } = word;
    if (isHeld) held.add(app);
    // A bucket service that ends just now is no reason to take no snapshot.
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

const FAILURES = { not_there: NotThere, unusable: Unusable, error: Error };
