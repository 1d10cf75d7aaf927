// Manages one app's process: starts it, restarts it after a crash, replaces it on a deploy, ends it when idle, stops it. An
// app with many requests has several processes; `replicas.ts` manages the others. Operations run one after another. Two
// releases never share the app's storage.
import type { Release } from '../../../bundler/release.ts';
import type { ProcessState } from '../../../handlers/contract/host/host-calls.ts';
import type { Admission, Backend } from '../../edge/upstream/backend.ts';
import { CUT_OFF } from '../../hosts/gate.ts';
import { type AdmissionOptions, Admissions } from '../admission/admissions.ts';
import { type LeasedCell, type LeaseOptions, Leasing } from '../admission/leasing.ts';
import type { Alarm } from '../due/alarms.ts';
import type { RestingApp } from '../due/due.ts';
import { hold, retire, sleep, stop } from './ending.ts';
import { IdleCheck } from './idling.ts';
import type { ReleaseRef } from './launch.ts';
import { openIn, processesOf } from './phase.ts';
import { NO_MEMORY, Supervisor, type SupervisorOptions } from './supervisor.ts';
import { adopt, renew, renewVars, replaceStorage, type SwapSteps, swap } from './swap.ts';

export type { RestingApp } from '../due/due.ts';
export type { ReleaseRef } from './launch.ts';

export interface FleetOptions extends SupervisorOptions, AdmissionOptions {
  appId: string;
}

export interface FleetUsage {
  /** CPU time since the last call of `takeUsage`. */
  cpuMs: number;
  /** Private memory of all its processes, as last read. */
  memoryBytes: number;
  processes: number;
  /** How often requests have started the app from rest since the last call of `takeUsage`. */
  wakes: number;
}

type Resting = 'none' | 'idle' | 'stopped' | 'held';

const HEALTH_TIMEOUT_MS = 2_000;
/** Phases without a process. `crashed` is not among them, because its restart is scheduled. */
const AT_REST = ['none', 'idle', 'stopped', 'held'];

export class Fleet implements Backend {
  readonly #options: FleetOptions;
  readonly #process: Supervisor;
  readonly #idling: IdleCheck;
  readonly #leasing: Leasing;
  readonly #admissions: Admissions;
  /** The backend that gets the app's requests, see `movedTo`; null: this fleet. */
  #movedTo: Backend | null = null;
  /** A restart by `renew` that waits for its turn; null for none. */
  #renewal: Promise<boolean> | null = null;
  /** Resolves when the latest start requested by `start` has succeeded or failed; null when no such start waits or runs. */
  #coming: Promise<void> | null = null;
  /** The number of processes that the last call of `takeUsage` found. */
  #measured = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#process = new Supervisor(options, (why) => this.#idling.evict(why));
    this.#idling = new IdleCheck(this.#process);
    this.#leasing = new Leasing(this.#process);
    this.#admissions = new Admissions(options, this.#process);
  }

  get site(): string {
    return this.#options.appId;
  }

  get state(): ProcessState {
    return this.#process.state;
  }

  /** Why the process does not run or did not start; see `Supervisor.lastError`. */
  get lastError(): string | null {
    return this.#process.lastError;
  }

  get liveDeployId(): string | null {
    return this.#process.live?.deployId ?? null;
  }

  /** The number of processes that take requests. */
  get processes(): number {
    return processesOf(this.#process.phase).length;
  }

  /** Sets how many processes serve, from 1 to `MOST_PROCESSES`. An app whose data is on this machine has only one. */
  scale(count: number): void {
    this.#process.processCount = count;
    this.#process.matchReplicas();
  }

  /** The process id of the first process; null when no process serves. */
  get pid(): number | null {
    return this.#process.phase.name === 'running' ? this.#process.phase.cell.pid : null;
  }

  /** Whether the app has no process, and none is starting or ending. Then nothing reads the release's files. */
  get isAtRest(): boolean {
    const { phase, operations } = this.#process;
    return !operations.busy && AT_REST.includes(phase.name);
  }

  /** Bytes that its processes have written to disk, as last read; 0 without a process. */
  get writtenBytes(): number {
    return this.#sum('writtenBytes');
  }

  /** Private memory of its processes, as last read; null without a process. */
  get memoryBytes(): number | null {
    return this.processes === 0 ? null : this.#sum('privateBytes');
  }

  #sum(of: 'writtenBytes' | 'privateBytes'): number {
    return processesOf(this.#process.phase).reduce((sum, { cell }) => sum + (cell.usage?.[of] ?? 0), 0);
  }

  /**
   * Returns the usage since the previous call, as last sampled; null when no process serves, none did at the previous call,
   * and there were no wakes.
   */
  takeUsage(): FleetUsage | null {
    const wakes = this.#admissions.takeWakes();
    const processes = processesOf(this.#process.phase);
    const before = this.#measured;
    this.#measured = processes.length;
    if (processes.length === 0 && before === 0 && wakes === 0) return null;
    const cpuMs = processes.reduce((sum, { cell }) => sum + cell.takeCpuMs(), 0);
    return { wakes, cpuMs, memoryBytes: this.memoryBytes ?? 0, processes: processes.length };
  }

  /** Whether the host has ended the process for its disk use. */
  get isHeld(): boolean {
    return this.#process.phase.name === 'held';
  }

  /** The start of the last minute with a request, in ms since 1970; null for none. */
  get lastRequestAt(): number | null {
    return this.#process.activity.lastMinute;
  }

  /** Number of open requests, upgraded connections, and Workflow steps that keep an idle process running. */
  get openStreams(): number {
    return openIn(processesOf(this.#process.phase)) + this.#idling.steps;
  }

  admit(): Admission {
    if (this.#movedTo !== null) return this.#movedTo.admit();
    return this.#admissions.admit(this.#coming);
  }

  /** Sends queued and later requests to `home`: the app's new host, or the live version after a preview's share ends. */
  movedTo(home: Backend): void {
    this.#movedTo = home;
  }

  /**
   * Wakes a sleeping app for a proxy that queues requests itself. Does nothing for an app that does not sleep.
   * @returns `hold` or `refuse` while the app sleeps; null when it no longer sleeps
   */
  wake(): Admission | null {
    if (!this.asleep || this.#movedTo !== null) return null;
    const admission = this.admit();
    return admission.kind === 'forward' ? null : admission;
  }

  /**
   * Whether the process answers on a socket that runs none of the app's code. It does not answer while the app is in an
   * endless loop. An idle app without a process counts as healthy, unless it sleeps. No process is started for this check.
   */
  async healthy(): Promise<boolean> {
    const phase = this.#process.phase;
    if (phase.name === 'idle' || phase.name === 'hibernating') return !this.asleep;
    return phase.name === 'running' && phase.cell.answers('health', HEALTH_TIMEOUT_MS);
  }

  /**
   * Restores an app's phase from before a restart of the host. Call it before any other method. An `idle` app starts at its
   * first request or due work.
   * @param rest the last value of `onRest`; `null` when unknown: then the storage of an `idle` app is read for due work
   */
  restore(name: Resting, live: ReleaseRef, rest: RestingApp | null, lastError: string | null = null): void {
    this.#process.live = live;
    this.#process.resume({ name }, lastError);
    if (rest !== null) this.#process.rest.resume(rest);
    else if (name === 'idle') void this.#process.beginRest();
  }

  /** See `RestRecord.learn`. */
  learnDue(find: () => Promise<number | null>): Promise<void> {
    return this.#process.rest.learn(find);
  }

  /** Whether the app sleeps: its next request wakes it. It may have a process for due work. */
  get asleep(): boolean {
    return this.#process.asleep;
  }

  /** Marks the app as asleep or awake, whatever its process does. `onAsleep` is not called. */
  set asleep(asleep: boolean) {
    this.#process.asleep = asleep;
  }

  /** Whether a sleeping app is being started for requests or by `start`, not only for due work. */
  get isWaking(): boolean {
    return this.asleep && (this.#coming !== null || this.#admissions.isStarting);
  }

  /**
   * Ends the processes because the app uses too much disk. The app runs again after a start, a deploy or `letGo`. Does
   * nothing for an app that is stopped, held or not deployed.
   * @param atOnce whether requests in flight are aborted. If so, the process is killed even during another operation
   */
  hold(why: string, atOnce: boolean): Promise<void> {
    const { phase, operations } = this.#process;
    if (atOnce && operations.busy && phase.name === 'running') phase.cell.kill(why);
    return operations.run(() => hold(this.#process, why, atOnce));
  }

  /** Lets the next request or due work start a stopped app. Does nothing in other phases. */
  rest(): Promise<void> {
    return this.#process.operations.run(async () => {
      if (this.#process.phase.name === 'stopped') void this.#process.goIdle();
    });
  }

  /** Kills the processes of an app whose data is in the bucket, because this host does not reach the control plane. */
  cutOff(): Promise<void> {
    const end = () => {
      const { phase } = this.#process;
      if (phase.name === 'leased') phase.cell.kill(CUT_OFF);
      for (const { cell } of processesOf(phase)) cell.kill(CUT_OFF);
    };
    end();
    // An operation under way may start a process in the meantime.
    return this.#process.operations.run(async () => end());
  }

  /** Call it when the bucket or the control plane answers again. The next request or due work then starts a crashed app. */
  bucketIsBack(): Promise<void> {
    return this.#process.operations.run(async () => {
      if (this.#process.phase.name !== 'crashed') return;
      this.#process.forgive();
      this.#process.cancelRestart();
      void this.#process.goIdle();
    });
  }

  /** Lets the next request or due work start a held app. Does nothing in other phases. */
  letGo(): Promise<void> {
    return this.#process.operations.run(async () => {
      const { phase } = this.#process;
      if (phase.name === 'held') void this.#process.goIdle();
    });
  }

  /**
   * Starts `release`, and resolves when it serves. Does nothing if it already serves.
   * @throws {Error} with the reason when it does not start. `Supervisor.bringUp` documents the phase that follows. If the
   *   host has no memory, the app goes idle
   */
  start(release: ReleaseRef): Promise<void> {
    const { wanted } = this.#process;
    const started = this.#process.operations.run(async () => {
      const phase = this.#process.phase;
      if (phase.name === 'running' && this.#process.live?.deployId === release.deployId) {
        this.#process.awaken();
        return;
      }
      if (phase.name === 'leased' && this.#process.live?.deployId === release.deployId) {
        this.#process.serve(phase.cell, false, phase.leases);
        return;
      }
      this.#process.live = release;
      this.#process.forgive();
      if (phase.name !== 'running' && !this.#process.hasMemory()) {
        this.#process.cancelRestart();
        void this.#process.goIdle(NO_MEMORY);
        throw new Error(NO_MEMORY);
      }
      await retire(this.#process, this.#process.warn);
      await this.#process.bringUp(wanted);
    });
    const coming = started
      .catch(() => {})
      .then(() => {
        if (this.#coming === coming) this.#coming = null;
      });
    this.#coming = coming;
    return started;
  }

  /**
   * Stops the app: waits for requests in flight (10 s by default), then sends SIGTERM, then SIGKILL. Cancels earlier
   * requested starts.
   * @param live the release of later starts, for a fleet that has none yet
   */
  stop(live?: ReleaseRef): Promise<void> {
    this.giveUpStarts();
    return this.#process.operations.run(() => stop(this.#process, live));
  }

  /** Cancels earlier requested starts. */
  giveUpStarts(): void {
    this.#process.giveUpStarts();
  }

  /**
   * Puts an app with a live release to sleep. Ends its processes after requests in flight, which get at most 10 s. A later
   * request wakes the app; requests that come meanwhile are queued. Due work gets a process for as long as the work takes. A
   * new process retries the Workflow steps that were cut.
   */
  sleep(): Promise<void> {
    this.giveUpStarts();
    return this.#process.operations.run(() => sleep(this.#process));
  }

  /**
   * Replaces the live release, if any, by `next`, and starts it. Requests are queued meanwhile.
   * @throws {Error} with the reason, such as workerd's or SQLite's own message. The app then returns to its previous phase,
   *   and a release that ran is started again
   */
  swap(next: ReleaseRef, steps: SwapSteps): Promise<void> {
    return this.#process.operations.run(() => swap(this.#process, next, steps));
  }

  /**
   * Tries a release on temporary storage. The live release serves meanwhile.
   * @returns lines for the deploy log
   * @throws {Error} with the reason why the release cannot be deployed
   */
  try(release: ReleaseRef): Promise<string[]> {
    return this.#process.launcher.try(release, this.#process.operations.closing);
  }

  /**
   * Restarts the live release, because the inputs of its process have changed. Requests are queued meanwhile, as for a
   * deploy. An app that is idle, asleep, stopped or held is not started. Several calls before a restart begins share this
   * restart.
   * @returns whether a new process serves
   * @throws {Error} why the release does not start. If only the trial failed, the old process continues
   */
  renew(): Promise<boolean> {
    this.#renewal ??= this.#process.operations.run(async () => {
      this.#renewal = null;
      return renew(this.#process, this.#process.warn);
    });
    return this.#renewal;
  }

  /** Whether the overrides of variables have changed since the process was started. False without a process. */
  get hasOldVars(): boolean {
    const { phase, launcher } = this.#process;
    return (phase.name === 'running' || phase.name === 'starting') && !launcher.hasCurrentVars;
  }

  /**
   * Whether the process was started before the app had an outbound Worker. False without a process, and while one starts.
   */
  get lacksOutbound(): boolean {
    const { phase, launcher } = this.#process;
    return ![...AT_REST, 'starting', 'crashed'].includes(phase.name) && !launcher.hasOutbound;
  }

  /**
   * Restarts the live release as `renew` does, unless its process has the current overrides of variables.
   * @returns whether a process with them serves
   * @throws {Error} as `renew` does
   */
  renewVars(): Promise<boolean> {
    return this.#process.operations.run(() => renewVars(this.#process, this.#process.warn));
  }

  /**
   * Makes `next` the release of later starts, for an app that must not run now. Stops the app. `next` is tried, and the
   * databases are migrated, as in `swap`.
   * @throws {Error} as `swap` does. Later starts then run the previous release
   */
  adopt(next: ReleaseRef, steps: SwapSteps): Promise<void> {
    return this.#process.operations.run(() => adopt(this.#process, next, steps));
  }

  /**
   * Runs `replace` on the app's storage while no process uses it. Requests are queued meanwhile. Afterwards an app that ran
   * is started again, unless it sleeps.
   * @throws what `replace` throws
   */
  replaceStorage(replace: () => Promise<void>): Promise<void> {
    return this.#process.operations.run(() => replaceStorage(this.#process, replace, this.#process.warn));
  }

  /** Aborted by `close`. */
  get closing(): AbortSignal {
    return this.#process.operations.closing;
  }

  /** Call it within `replaceStorage`, after the app's data and code have moved between this machine and the bucket. */
  moved(place: Pick<FleetOptions, 'cluster' | 'load'>): void {
    this.#process.moved(place);
  }

  /**
   * Fills the app's cache with pages from the release. For a cache in a KV namespace, requests are queued meanwhile, because
   * no other process may use the storage.
   * @throws {Error} with the key that could not be put
   */
  async prefill(
    release: ReleaseRef,
    filled: NonNullable<Release['prefill']>,
    signal: AbortSignal,
  ): Promise<void> {
    const { launcher, operations } = this.#process;
    const ended = AbortSignal.any([operations.closing, signal]);
    const fill = () => launcher.prefill(release, filled, ended);
    await (filled.kind === 'bucket' ? fill() : this.replaceStorage(fill));
  }

  /**
   * Runs `use` with a process of the app. Starts one if there is none; that process ends again later. A sleeping app stays
   * asleep, and a stopped app takes no requests. A stop or deploy waits for `use` as for requests in flight. Overdue alarms
   * may run meanwhile, even of a stopped app.
   * @param purpose a name of `use`, for messages
   * @throws {Error} when there is no process or no memory for one, when the process ends, when the time is over, or when 16
   *   other calls use or await it
   * @throws what `use` throws
   */
  withCell<T>(purpose: string, use: (cell: LeasedCell) => Promise<T>, options?: LeaseOptions): Promise<T> {
    return this.#leasing.withCell(purpose, use, options);
  }

  /** Returns the live release's crons with their due times. @throws {Error} when they cannot be read */
  crons(): Promise<Alarm[]> {
    return this.#process.crons();
  }

  /** Resolves when all operations requested before this call have ended. Rejects once `close` was called. */
  settled(): Promise<void> {
    return this.#process.operations.run(async () => {});
  }

  /** Ends an idle or stuck process, and starts one for due work. Call about once a second. */
  tick(): void {
    this.#idling.look();
  }

  /**
   * Stops the app for good. Cancels a trial, a migration (which is rolled back), the filling of a cache, and a start.
   * @param why the message of the error with which these operations and later ones reject
   */
  close(why?: string): Promise<void> {
    return this.#process.operations.close(() => stop(this.#process), why);
  }
}
