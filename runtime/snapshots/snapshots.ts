// The host's side of snapshots: schedules and state. Child processes do the work.
import { rm } from 'node:fs/promises';
import type { HostStats, Verified } from '../../handlers/contract/admin.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { S3Place } from '../bucket/place.ts';
import type { Layout } from '../disk/data-directory.ts';
import { log, reason } from '../log.ts';
import { FairQueue } from '../queues/fair-queue.ts';
import { SerialQueue } from '../queues/serial-queue.ts';
import type { HostLease } from './host-lease.ts';
import { Jobs } from './jobs.ts';
import { type Looked, look } from './look.ts';
import type { Compared, CompareJob } from './restore/compare.ts';
import type { Restored, RestoreJob } from './restore/storage.ts';
import { Schedule } from './schedule.ts';
import type { Head, LeftOut } from './store/manifest.ts';
import type { StoreOwner } from './store/owner.ts';
import type { StorePlace } from './store/place.ts';
import type { CapturedApp, HoldBuckets } from './take/capture.ts';
import type { Copied } from './take/copy.ts';
import { BEFORE_DELETED_CLASSES, HOURLY, type Keep, kindOf } from './take/retention.ts';
import type { Taken } from './take/take.ts';
import { NEVER_VERIFIED } from './verify.ts';

const HOUR_MS = 3_600_000;
/** Delay from the host's start to the very first snapshot, or verification, of a Cellar, in ms. */
const FIRST_MS = 10 * 60_000;
/** Delay of a retry after a failed snapshot or verification, in ms, unless the interval of the schedule is shorter. */
const RETRY_MS = HOUR_MS;

/** One job of the queue runs at a time. A copy may take minutes, so accounts take turns. */
const LIMITS = { name: 'copies of storage', running: 1, runningPerOwner: 1, waitingPerOwner: 50 };
/** The owner of the host's own jobs in the queue, such as snapshots and restores. */
const HOST = '';

export interface SnapshotsOptions {
  store: HostStore;
  paths: Layout;
  place: StorePlace;
  /** Where apps in the bucket have their data; null without a bucket. */
  bucket: S3Place | null;
  keep: Keep;
  /** MiB that must stay free on the disk of the data directory. */
  floorMb: number;
  /** Time between snapshots, in ms; null: no schedule. */
  everyMs: number | null;
  /** Hourly snapshots between the others, with limits of their own; null: none. */
  hourly: { everyMs: number; hasRoom: () => boolean } | null;
  /** Time between verifications, in ms; null: no schedule. */
  verifyMs: number | null;
  /** Whether each app's files belong to a system user of its own. */
  hasUsers: boolean;
  holdBuckets: HoldBuckets;
  /** Null in a Cellar of one host. */
  hosts: SnapshotsHosts | null;
  /** Called with the damaged snapshots, the newest first, when there are any. */
  onDamaged: (damaged: Verified['damaged']) => void;
  /** Called with the apps that a new snapshot could not read, or with the error of a failed snapshot. */
  onTaken: (failed: Head['failures'] | Error) => void;
}

/** What snapshots of several hosts need. One host at a time takes or verifies them. */
export interface SnapshotsHosts {
  /** The id of this host. */
  self: string;
  leases: Record<'take' | 'verify', HostLease>;
  /** Whether this host has apps whose data is on its disk. */
  hasLocal: () => boolean;
  /** Returns the apps whose data is on the disk of another host. */
  leftOut: () => LeftOut[];
}

/** The state that `admin.stats` reports. */
export type SnapshotsState = HostStats['snapshots'];

export class Snapshots {
  readonly #options: SnapshotsOptions;
  readonly #jobs: Jobs;
  readonly #queue = new FairQueue(LIMITS);
  /** Calls of `look` run one after another, because each may need its own process. */
  readonly #looks = new SerialQueue();
  readonly #taking = new Schedule(() => this.#takeOnSchedule());
  readonly #verification = new Schedule(() => this.#verifyOnSchedule());
  /** The verification in progress. */
  #verifying: Promise<Verified> | null = null;
  #verified = NEVER_VERIFIED;
  #newest: string | null = null;
  /** When the newest ordinary snapshot (neither hourly nor of a deploy) was taken, in ms since 1970. */
  #ordinaryAt: number | null = null;
  #state: Pick<SnapshotsState, 'last_at' | 'last_written_bytes' | 'last_bytes' | 'problem'> = {
    last_at: null,
    last_written_bytes: null,
    last_bytes: null,
    problem: null,
  };
  readonly #ending = new AbortController();

  constructor(options: SnapshotsOptions) {
    this.#options = options;
    this.#jobs = new Jobs(options);
  }

  get state(): SnapshotsState {
    return {
      ...this.#state,
      under_way: this.#jobs.underWay,
      verified: this.#verified,
      newest_damaged: this.isNewestDamaged,
    };
  }

  /** Whether the last verification found that the newest snapshot is damaged. */
  get isNewestDamaged(): boolean {
    return this.#verified.damaged.some(({ key }) => key === this.#newest);
  }

  /** Starts the schedules. A snapshot or verification that was due while no host ran starts now. Never rejects. */
  async start(): Promise<void> {
    const { everyMs, verifyMs, paths } = this.#options;
    try {
      await this.#next(() => rm(paths.snapshotting, { recursive: true, force: true }));
      const unreadable = await this.#lookUp();
      if (unreadable !== undefined) throw new Error(unreadable.error);
    } catch (error) {
      // Sends no alert: no snapshot has failed, and the next one may succeed.
      this.#state = { ...this.#state, problem: reason(error) };
      if (!this.#ending.signal.aborted)
        log('error', 'the snapshots could not be read at the start', { error: reason(error) });
    }
    if (everyMs !== null) this.#taking.start(untilNext(this.#state.last_at, this.#intervalMs));
    if (verifyMs !== null) this.#verification.start(untilNext(this.#verified.at, verifyMs));
  }

  /**
   * Takes a snapshot, after all earlier jobs of this host, and after a snapshot that another host is taking.
   * @param why the reason, to be shown
   */
  take(why: string): Promise<Taken> {
    return this.#next(() => this.#alone('take', (signal) => this.#take(why, signal)));
  }

  async #take(why: string, signal: AbortSignal): Promise<Taken> {
    const { paths, place, bucket, keep, floorMb, hasUsers, hosts } = this.#options;
    const begun = performance.now();
    try {
      const job = {
        kind: 'take',
        root: paths.root,
        store: place,
        ...(await this.#owner()),
        why,
        keep,
        floorMb,
        hasUsers,
        bucket,
        hosts: hosts && { self: hosts.self, hasLocal: hosts.hasLocal(), leftOut: hosts.leftOut() },
      } as const;
      const taken = await this.#jobs.run<'take'>(job, signal);
      this.#recordPlace();
      this.#remember(taken.head);
      if (kindOf(taken.head) === 'other') this.#ordinaryAt = Date.parse(taken.head.created_at);
      this.#options.onTaken(taken.head.failures);
      this.#newest = taken.head.id;
      if (taken.verified !== null) this.#learn(taken.verified);
      const { id, bytes } = taken.head;
      const seconds = ((performance.now() - begun) / 1000).toFixed(1);
      log('info', 'snapshot taken', { id, why, bytes, written: taken.bytes, seconds });
      return taken;
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  /**
   * Takes a snapshot before a deploy's deleted classes lose their data.
   * @returns its id
   * @throws {Error} also when the app could not be read: then the snapshot has older data for it
   */
  async takeForClasses(appId: string, slug: string): Promise<string> {
    const { head, unread } = await this.take(`${BEFORE_DELETED_CLASSES} of ${slug}`);
    if (unread.includes(appId)) throw new Error(`snapshot ${head.id} has app ${slug} as of an earlier one`);
    return head.id;
  }

  /**
   * Reads all packs that snapshots need, outside the queue. A call during a verification returns its result.
   * @throws {Error} when the store cannot be read
   */
  verify(): Promise<Verified> {
    return this.#verifyOnce(async () => true);
  }

  /** @param isDue called once no other host verifies; when it resolves with false, nothing is verified */
  #verifyOnce(isDue: () => Promise<boolean>): Promise<Verified> {
    this.#verifying ??= this.#alone('verify', async (signal) =>
      (await isDue()) ? this.#verify(signal) : this.#verified,
    ).finally(() => {
      this.#verifying = null;
    });
    return this.#verifying;
  }

  /**
   * Extracts an app's storage, or one database of it, from a snapshot into a directory. Every byte is checked.
   * @throws {NotThere}, {Unusable}, {NoRoom}; then the directory `into.directory` does not exist
   */
  extract(wanted: Pick<RestoreJob, 'snapshot' | 'app' | 'only' | 'into'>): Promise<Restored> {
    const { store, paths, place } = this.#options;
    const of = store.snapshots.cellar();
    const job = { kind: 'restore', root: paths.root, store: place, of, ...wanted } as const;
    return this.#next(() => this.#jobs.run<'restore'>(job, this.#ending.signal));
  }

  /**
   * Compares an app's current storage with that of a snapshot, and changes nothing.
   * @throws {NotThere}, {Unusable}
   */
  compare(wanted: Pick<CompareJob, 'snapshot' | 'app' | 'only' | 'storages'>): Promise<Compared> {
    const { store, paths, place, bucket } = this.#options;
    const of = store.snapshots.cellar();
    const job = { kind: 'compare', root: paths.root, store: place, of, bucket, ...wanted } as const;
    return this.#next(() => this.#jobs.run<'compare'>(job, this.#ending.signal));
  }

  /**
   * Copies an app's current storage into a directory. Accounts take turns.
   * @param owner the app's account
   * @param hasBuckets whether R2 objects on this machine are copied too
   * @throws {QueueFull}; the reason of `left`, once it aborts; {Error} when the copy fails. A killed copy may leave files in
   *   `into`
   */
  copy(app: CapturedApp, into: string, owner: string, left: AbortSignal, hasBuckets = true): Promise<Copied> {
    const { paths, bucket } = this.#options;
    const job = { kind: 'copy', root: paths.root, app, hasBuckets, bucket, into } as const;
    const signal = AbortSignal.any([this.#ending.signal, left]);
    return this.#queue.run({ owner, signal }, () => this.#jobs.run<'copy'>(job, signal));
  }

  /** Returns the snapshots that can be read, the newest first. */
  async list(): Promise<Head[]> {
    const { heads, unreadable } = await this.#look(null);
    for (const each of unreadable) log('warn', 'a snapshot cannot be read', each);
    return heads;
  }

  /** Aborts all jobs: an incomplete snapshot does not count. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    this.#taking.stop();
    this.#verification.stop();
    // Runs after the current job. Waiting jobs are aborted.
    const ended = this.#queue.run({ owner: HOST }, () => {});
    await Promise.all([ended, this.#verifying?.catch(() => {})]);
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.run({ owner: HOST, signal: this.#ending.signal }, work);
  }

  /** Returns the owner of the store, once its id is on the disk: after a crash, a new id would make the snapshots unusable. */
  async #owner(): Promise<StoreOwner> {
    const { store } = this.#options;
    const of = store.snapshots.cellar();
    await store.synced();
    const directory = this.#otherDirectory;
    return { of, claimed: store.snapshots.place() === directory ? directory : null };
  }

  /** The directory in RUNNER_SNAPSHOT_URL; null for a bucket, and for the default directory in the data directory. */
  get #otherDirectory(): string | null {
    const { paths, place } = this.#options;
    return 'directory' in place && place.directory !== paths.snapshots ? place.directory : null;
  }

  #recordPlace(): void {
    const { snapshots } = this.#options.store;
    const directory = this.#otherDirectory;
    if (directory !== null && directory !== snapshots.place()) snapshots.recordPlace(directory);
  }

  /** Does work that only one host may do at a time. */
  #alone<T>(what: 'take' | 'verify', work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { hosts } = this.#options;
    const { signal } = this.#ending;
    return hosts === null ? work(signal) : hosts.leases[what].run(signal, work);
  }

  /** Reads the state of the store, which other hosts change too. @returns the newest unreadable snapshot, if there is one */
  async #lookUp(): Promise<Looked['unreadable'][number] | undefined> {
    const { hosts } = this.#options;
    const { newest, record, heads, unreadable } = await this.#look(hosts?.hasLocal() ? hosts.self : '');
    if (newest !== null && newest > (this.#newest ?? '')) this.#newest = newest;
    if (record !== null && (record.at ?? '') >= (this.#verified.at ?? '')) {
      const { bad: _, ...verified } = record;
      this.#verified = verified;
    }
    const [own, ordinary] = [() => true, (head: Head) => kindOf(head) === 'other'].map((isWanted) =>
      heads.find((head) => (!hosts?.hasLocal() || head.host === hosts.self) && isWanted(head)),
    );
    if (ordinary !== undefined) this.#ordinaryAt = Date.parse(ordinary.created_at);
    // This host may have taken a newer snapshot while these were listed.
    if (own !== undefined && own.created_at > (this.#state.last_at ?? '')) this.#remember(own);
    return unreadable[0];
  }

  /** Reads the state of the store. Decryption needs a library of 25 MB, so only a snapshot process loads it. */
  #look(until: string | null): Promise<Looked> {
    const { place } = this.#options;
    const job = { kind: 'look', store: place, until } as const;
    if (!place.keys?.length) return look(job);
    return this.#looks.run(() => this.#jobs.run<'look'>(job, this.#ending.signal));
  }

  async #verify(signal: AbortSignal): Promise<Verified> {
    const begun = performance.now();
    const job = { kind: 'verify', store: this.#options.place, ...(await this.#owner()) } as const;
    try {
      const verified = await this.#jobs.run<'verify'>(job, signal);
      this.#learn(verified);
      const { snapshots, packs, bytes, damaged } = verified;
      const seconds = ((performance.now() - begun) / 1000).toFixed(1);
      log('info', 'snapshots verified', { snapshots, packs, bytes, damaged: damaged.length, seconds });
      return verified;
    } catch (error) {
      // Sends no alert: the existing snapshots may be intact, and new ones may succeed.
      this.#state = { ...this.#state, problem: `the verification failed: ${reason(error)}` };
      if (!this.#ending.signal.aborted)
        log('error', 'snapshots could not be verified', { error: reason(error) });
      throw error;
    }
  }

  async #takeOnSchedule(): Promise<number> {
    const isAlone = this.#options.hosts === null;
    try {
      return await this.#next(() =>
        this.#alone('take', (signal) => (isAlone ? this.#takeScheduled(signal) : this.#takeIfDue(signal))),
      );
    } catch (error) {
      this.#fail(error);
      return this.#retryMs;
    }
  }

  /** Delay after a failed snapshot, in ms. */
  get #retryMs(): number {
    return Math.min(this.#intervalMs, RETRY_MS);
  }

  /** Time between scheduled snapshots, in ms. */
  get #intervalMs(): number {
    const { everyMs, hourly } = this.#options;
    return Math.min(everyMs ?? Number.POSITIVE_INFINITY, hourly?.everyMs ?? Number.POSITIVE_INFINITY);
  }

  /**
   * Takes an ordinary snapshot if one is due, or else an hourly one. A failure is reported, and does not reject.
   * @returns the delay until the next one, in ms
   */
  async #takeScheduled(signal: AbortSignal): Promise<number> {
    const { everyMs, hourly } = this.#options;
    const age = this.#ordinaryAt === null ? everyMs! : Date.now() - this.#ordinaryAt;
    // Below 0, the clock was set back.
    const isOrdinary = hourly === null || age < 0 || age >= everyMs! - this.#intervalMs / 2;
    if (!isOrdinary && !hourly.hasRoom()) {
      log('warn', 'no hourly snapshot is taken: disk space is low');
      return this.#intervalMs;
    }
    const taken = await this.#take(isOrdinary ? 'schedule' : HOURLY, signal).catch(() => null);
    return taken === null ? this.#retryMs : this.#intervalMs;
  }

  /** Takes a snapshot, unless another host has just taken one. @returns the delay until the next one is due, in ms */
  async #takeIfDue(signal: AbortSignal): Promise<number> {
    await this.#lookUp();
    const left = this.#state.last_at === null ? 0 : untilNext(this.#state.last_at, this.#intervalMs);
    return left > 0 ? left : this.#takeScheduled(signal);
  }

  /** Verifies, and takes a new snapshot at once when the newest is damaged. */
  async #verifyOnSchedule(): Promise<number> {
    const { everyMs, verifyMs } = this.#options;
    try {
      const before = this.#verified.at;
      await this.#verifyOnce(async () => {
        if (this.#options.hosts === null) return true;
        await this.#lookUp();
        return this.#verified.at === before || untilNext(this.#verified.at, verifyMs!) <= 0;
      });
      if (this.isNewestDamaged && everyMs !== null) await this.take('the newest snapshot is damaged');
      return untilNext(this.#verified.at, verifyMs!);
    } catch {
      return Math.min(verifyMs!, RETRY_MS);
    }
  }

  #learn(verified: Verified): void {
    this.#verified = verified;
    const { damaged } = verified;
    if (damaged.length === 0) return;
    const objects = verified.objects.map(({ name, problem }) => `${name} is ${problem}`).join(', ');
    log('error', 'snapshots are damaged', { snapshots: damaged.map(({ key }) => key).join(' '), objects });
    this.#options.onDamaged(damaged);
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
    if (this.#ending.signal.aborted) return;
    log('error', 'a snapshot failed', { error: reason(error) });
    this.#options.onTaken(new Error(reason(error)));
  }
}

/** Returns the time until work last done at `last` is due, in ms: at most `everyMs`, even if the clock was set back. */
function untilNext(last: string | null, everyMs: number): number {
  return Math.min(last === null ? FIRST_MS : Date.parse(last) + everyMs - Date.now(), everyMs);
}
