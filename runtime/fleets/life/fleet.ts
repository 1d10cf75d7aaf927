// One app's process through its life: started, restarted after a crash, replaced by a deploy, ended when nobody needs it,
// stopped. Operations run one after another, and at no time do two processes have the app's storage.
import type { Release } from '../../../bundler/release.ts';
import type { ProcessState } from '../../../handlers/contract/host/host-calls.ts';
import type { Admission, Backend, Refused } from '../../edge/upstream/backend.ts';
import { type AdmissionOptions, Admissions } from '../admission/admissions.ts';
import { type LeasedCell, Leasing } from '../admission/leasing.ts';
import type { Alarm } from '../due/alarms.ts';
import type { Rest } from '../due/due.ts';
import { hold, retire, sleep, stop } from './ending.ts';
import { Idling } from './idling.ts';
import type { ReleaseRef } from './launch.ts';
import { NO_MEMORY, Supervisor, type SupervisorOptions } from './supervisor.ts';
import { adopt, renew, replaceStorage, type SwapSteps, swap } from './swap.ts';

export type { Rest } from '../due/due.ts';
export type { ReleaseRef } from './launch.ts';

export interface FleetOptions extends SupervisorOptions, AdmissionOptions {
  appId: string;
}

/** `cpuMs` and `wakes` (starts after a rest, for requests) since they were taken before; `memoryBytes` as it is now. */
export interface FleetUsage {
  cpuMs: number;
  memoryBytes: number;
  wakes: number;
}

type Resting = 'none' | 'idle' | 'asleep' | 'stopped' | 'held';

const HEALTH_TIMEOUT_MS = 2_000;

export class Fleet implements Backend {
  readonly #options: FleetOptions;
  readonly #process: Supervisor;
  readonly #idling: Idling;
  readonly #leasing: Leasing;
  readonly #admissions: Admissions;
  /** A restart that waits for its turn. */
  #renewal: Promise<boolean> | null = null;
  /** Settles when the start that was asked for last has ended, also one that still waits for its turn. */
  #coming: Promise<void> | null = null;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#process = new Supervisor(
      options,
      () => this.#admissions.arrived(),
      (why) => this.#idling.atLowPriority(why),
    );
    this.#idling = new Idling(this.#process);
    this.#leasing = new Leasing(this.#process);
    this.#admissions = new Admissions(options, this.#process, this.#idling);
  }

  get site(): string {
    return this.#options.appId;
  }

  get state(): ProcessState {
    return this.#process.state;
  }

  /** Why it does not run, or did not start. `null` while it runs. */
  get lastError(): string | null {
    return this.#process.lastError;
  }

  get liveDeployId(): string | null {
    return this.#process.live?.deployId ?? null;
  }

  /** The process, while one serves. */
  get pid(): number | null {
    return this.#process.phase.name === 'running' ? this.#process.phase.cell.pid : null;
  }

  /** Bytes that this process has had the disk take, as last read; 0 without one. */
  get writtenBytes(): number {
    const phase = this.#process.phase;
    return phase.name === 'running' ? (phase.cell.usage?.writtenBytes ?? 0) : 0;
  }

  /** Memory that is this process's alone, as last read; null without one. */
  get memoryBytes(): number | null {
    const phase = this.#process.phase;
    return phase.name === 'running' ? (phase.cell.usage?.privateBytes ?? 0) : null;
  }

  /** What was used since the call before, as far as that was read; null when it is nothing. */
  takeUsage(): FleetUsage | null {
    const { phase } = this.#process;
    const wakes = this.#admissions.takeWakes();
    const cell = phase.name === 'running' ? phase.cell : null;
    if (cell === null && wakes === 0) return null;
    return { wakes, cpuMs: cell?.takeCpuMs() ?? 0, memoryBytes: cell?.usage?.privateBytes ?? 0 };
  }

  /** Whether the host has ended it for what the app keeps on the disk. */
  get isHeld(): boolean {
    return this.#process.phase.name === 'held';
  }

  /** The last minute with a request, in ms since 1970. */
  get lastRequestAt(): number | null {
    return this.#process.activity.lastMinute;
  }

  /** Requests and upgraded connections that are open now, and work of Workflows as far as it keeps the process. */
  get openStreams(): number {
    return this.#process.phase.name === 'running'
      ? this.#process.phase.upstream.active + this.#process.phase.upstream.tunnels + this.#idling.steps
      : 0;
  }

  admit(): Admission {
    return this.#admissions.admit(this.#coming);
  }

  /**
   * Wakes a sleeping app for a proxy that holds its own requests. Anything else is left as it is.
   * @returns why requests would be refused because it sleeps on; null when they may come
   */
  wake(): Promise<Refused | null> {
    return this.#admissions.wake();
  }

  /**
   * Whether the process answers on the socket that runs none of the app's code: an endless loop in it shows. A
   * hibernated app is well, and is left alone.
   */
  async healthy(): Promise<boolean> {
    const phase = this.#process.phase;
    if (phase.name === 'idle' || phase.name === 'hibernating') return true;
    return phase.name === 'running' && phase.cell.answers('health', HEALTH_TIMEOUT_MS);
  }

  /**
   * Says what an app was when the host ended, before anything is asked of it: `idle` starts at its first request.
   * @param rest as told to `onRest`; `null` when that is not known for sure, and the storage must say
   */
  restore(name: Resting, live: ReleaseRef, rest: Rest | null, lastError: string | null = null): void {
    this.#process.live = live;
    this.#process.resume(name === 'held' ? { name, asleep: false } : { name }, lastError);
    if (rest !== null) this.#process.rest.resume(rest);
    else if (name === 'idle' || name === 'asleep') void this.#process.beginRest();
  }

  /**
   * Ends the process for what the app keeps on the disk. It runs again when somebody starts the app or deploys to it, and
   * after `letGo`. An app that has no process for good is left as it is.
   * @param atOnce whether requests in flight are cut, and an operation that is under way fails
   */
  hold(why: string, atOnce: boolean): Promise<void> {
    const { phase, operations } = this.#process;
    if (atOnce && operations.busy && phase.name === 'running') phase.cell.kill(why);
    return operations.run(() => hold(this.#process, why, atOnce));
  }

  /** Has the next request, or due work, start an app that is stopped. Other apps are left as they are. */
  rest(): Promise<void> {
    return this.#process.operations.run(async () => {
      if (this.#process.phase.name === 'stopped') void this.#process.goIdle('idle');
    });
  }

  /** Has the next request, or due work, start an app that is held. Other apps are left as they are. */
  letGo(): Promise<void> {
    return this.#process.operations.run(async () => {
      const { phase } = this.#process;
      if (phase.name === 'held') void this.#process.goIdle(phase.asleep ? 'asleep' : 'idle');
    });
  }

  /**
   * Makes `release` the one to run and resolves when it serves; at once if it does already. It is restarted
   * whenever its process ends, after a failed start too.
   * @throws {Error} with the reason when it does not start
   */
  start(release: ReleaseRef): Promise<void> {
    const [wanted, ahead] = [this.#process.wanted, this.#admissions.startAhead];
    const started = this.#process.operations.run(async () => {
      // The start ahead came before this operation, so it has ended.
      const failure = await ahead;
      const phase = this.#process.phase;
      if (phase.name === 'running' && this.#process.live?.deployId === release.deployId) {
        if (phase.asleep) this.#admissions.awaken(phase);
        return;
      }
      if (phase.name === 'leased' && this.#process.live?.deployId === release.deployId) {
        this.#process.serve(phase.cell, undefined, phase.leases);
        return;
      }
      const tried = phase.name === 'asleep' && this.#process.live?.deployId === release.deployId;
      this.#process.live = release;
      this.#process.forgive();
      if (failure !== null && tried) {
        this.#process.failed(failure);
        throw failure;
      }
      if (phase.name !== 'running' && !this.#process.hasMemory()) {
        this.#process.cancelRestart();
        void this.#process.goIdle('idle', NO_MEMORY);
        throw new Error(NO_MEMORY);
      }
      await retire(this.#process, this.#process.warn);
      await this.#process.bringUp(wanted);
      if (phase.name === 'asleep') this.#admissions.countWake();
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
   * Ends the process: requests in flight get 10 s, then SIGTERM, then SIGKILL. A start under way is given up.
   * @param live the release a start would run, if the fleet was not told of it before
   */
  stop(live?: ReleaseRef): Promise<void> {
    this.giveUpStarts();
    return this.#process.operations.run(() => stop(this.#process, live));
  }

  /** Gives up on starts that were asked for before now. */
  giveUpStarts(): void {
    this.#process.giveUpStarts();
  }

  /**
   * Ends the process as `stop` does. Requests that come meanwhile are held, and they or the next one wake the app; work
   * that falls due gets a process for as long as it takes, and steps of Workflows that this cuts are tried again at once.
   */
  sleep(live?: ReleaseRef): Promise<void> {
    if (!this.#admissions.isAsleep) this.giveUpStarts();
    return this.#process.operations.run(async () => {
      if (!this.#admissions.isAsleep) await sleep(this.#process, live);
    });
  }

  /**
   * Replaces the release that runs, if one does, by `next`, holding requests meanwhile.
   * @throws {Error} with workerd's or SQLite's own message. Then all is as before: the release before serves again
   */
  swap(next: ReleaseRef, steps: SwapSteps): Promise<void> {
    return this.#process.operations.run(() => swap(this.#process, next, steps));
  }

  /**
   * Tries a release on storage of its own, beside the one that serves.
   * @returns what the log of its deploy should say of it
   * @throws {Error} why it would not be swapped in
   */
  try(release: ReleaseRef): Promise<string[]> {
    return this.#process.launcher.try(release, this.#process.operations.closing);
  }

  /**
   * Starts the live release again where it runs or should, because what its process is given has changed. Requests are
   * held meanwhile, as for a deploy. An app that rests or is stopped starts nothing. Calls that come before it has begun
   * share it.
   * @returns whether a new process serves
   * @throws {Error} why the release does not start; a process that ran before runs on
   */
  renew(): Promise<boolean> {
    this.#renewal ??= this.#process.operations.run(async () => {
      this.#renewal = null;
      return renew(this.#process, this.#process.warn);
    });
    return this.#renewal;
  }

  /**
   * Makes `next` the release that a later start runs, for an app that is not to run now: tried and migrated like any.
   * @param resting what the app is then
   * @throws {Error} as `swap` does; then the release before stays
   */
  adopt(next: ReleaseRef, steps: SwapSteps, resting: 'asleep' | 'stopped'): Promise<void> {
    return this.#process.operations.run(() => adopt(this.#process, next, steps, resting));
  }

  /**
   * Has `replace` change the app's storage while no process has it, holding requests meanwhile. Then all is as before.
   * @throws what `replace` throws
   */
  replaceStorage(replace: () => Promise<void>): Promise<void> {
    return this.#process.operations.run(() => replaceStorage(this.#process, replace, this.#process.warn));
  }

  /**
   * Fills the app's cache with what a release has for it. Only a namespace's needs that no process has the storage.
   * @throws {Error} with the key that could not be put
   */
  async prefill(
    release: ReleaseRef,
    filled: NonNullable<Release['prefill']>,
    signal: AbortSignal,
  ): Promise<void> {
    const fill = () => this.#process.launcher.prefill(release, filled, signal);
    await (filled.kind === 'bucket' ? fill() : this.replaceStorage(fill));
  }

  /**
   * Has `use` speak with a process of the app, without waking it: a sleeping app sleeps on, a stopped one takes no
   * requests, and a process that was started for this goes again. While it lasts the app does not hibernate, and what
   * ends or replaces its process waits for it as for requests in flight. Alarms that are overdue may run meanwhile, a
   * stopped app's too.
   * @param purpose what it is for, in messages
   * @param mayBlock whether the process may answer nobody else meanwhile; one that still does not after 30 s is ended
   * @throws {Error} when there is no process or room for one, when it ends, and when all of it takes longer than 30 s
   */
  withCell<T>(purpose: string, use: (cell: LeasedCell) => Promise<T>, mayBlock = false): Promise<T> {
    return this.#leasing.withCell(purpose, use, mayBlock);
  }

  /** The live release's crons with the times that they are due at. @throws {Error} when they cannot be read */
  crons(): Promise<Alarm[]> {
    return this.#process.crons();
  }

  /** Resolves when the operations that were asked for before have ended. */
  settled(): Promise<void> {
    return this.#process.operations.run(async () => {});
  }

  /** To be called about once a second: ends a quiet process, and starts one for work that falls due. */
  tick(): void {
    this.#idling.look();
  }

  /** Stops it for good. What is under way is given up: a trial, a migration (which undoes itself), a start. */
  close(): Promise<void> {
    return this.#process.operations.close(() => stop(this.#process));
  }
}
