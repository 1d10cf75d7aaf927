// One app's process through its life: started, restarted after a crash, replaced by a deploy, sent away when nobody
// needs it, stopped. Operations run one after another, and at no time do two processes have the app's storage.
import type { ProcessState } from '../../handlers/host-types.ts';
import type { Admission, Backend, Refused } from '../edge/backend.ts';
import { Upstream } from '../edge/upstream.ts';
import { reason } from '../log.ts';
import { Activity } from './activity.ts';
import { Backoff, type Restart } from './backoff.ts';
import type { Cell, CellExit } from './cell.ts';
import { nextDue, type Rest, RestRecord } from './due.ts';
import { launch, migrateRelease, type Place, type ReleaseRef } from './launch.ts';
import type { MemoryGauge } from './memory.ts';
import { Operations } from './operations.ts';
import { admission, end, failedWake, overloaded, type Phase, processState, type Running } from './phase.ts';
import { NoTurn, type Slots } from './slots.ts';
import { tryRelease } from './trial.ts';
import { Wakes } from './wakes.ts';
import { Watchdog } from './watchdog.ts';

export type { Rest } from './due.ts';
export type { ReleaseRef } from './launch.ts';

export interface FleetOptions extends Place {
  appId: string;
  /** Quiet time after which the process goes, in ms; `Infinity` for never. */
  idleMs: number;
  /** The last minute with a request, in ms since 1970, as known from before. */
  lastRequestAt: number | null;
  /** Turns to start, shared by all fleets. A deploy does not wait for one: its app is down meanwhile. */
  slots: Slots;
  /** The host's memory, shared by all fleets. */
  memory: MemoryGauge;
  /** Has the control plane wake the app. Rejects when it does not serve then. */
  wake: () => Promise<void>;
  /** Called after each change of `state` or `lastError`. */
  onState: (state: ProcessState, lastError: string | null) => void;
  /** Called when the process has gone because nobody needs it, and with `null` before there is one again. */
  onRest: (rest: Rest | null) => void;
}

/** What a deploy does with a replaced release. */
export interface SwapSteps {
  /** Makes the new release the live one for good. Called once it runs, before it gets requests; may throw. */
  commit: () => void;
  log: (line: string) => void;
}

type Resting = 'none' | 'idle' | 'asleep' | 'stopped';

const HEALTH_TIMEOUT_MS = 2_000;
const NO_MEMORY = 'the host is short of memory (RUNNER_FLEET_MAX_RSS_MB); the next request tries again';

export class Fleet implements Backend {
  readonly #options: FleetOptions;
  readonly #watchdog = new Watchdog((cell) => {
    this.#options.onLine('the process does not answer any more, as in an endless loop; it is ended');
    cell.kill();
  });
  readonly #operations = new Operations();
  readonly #backoff = new Backoff();
  readonly #activity: Activity;
  readonly #rest: RestRecord;
  readonly #wakes = new Wakes(
    () => this.#askToWake(),
    (error) => this.#options.onLine(`the app was not woken: ${reason(error)}`),
  );
  #phase: Phase = { name: 'none' };
  #live: ReleaseRef | null = null;
  #lastError: string | null = null;
  #restart: NodeJS.Timeout | null = null;
  /** Settles when the start that was asked for last has ended, also one that still waits for its turn. */
  #coming: Promise<void> | null = null;
  /** Aborted when starts that were asked for before are no longer wanted. */
  #unwanted = new AbortController();

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#activity = new Activity(options.idleMs, options.lastRequestAt);
    this.#rest = new RestRecord(options.onRest);
  }

  get site(): string {
    return this.#options.appId;
  }

  get state(): ProcessState {
    return processState(this.#phase);
  }

  /** Why it does not run, or did not start. `null` while it runs. */
  get lastError(): string | null {
    return this.#lastError;
  }

  get liveDeployId(): string | null {
    return this.#live?.deployId ?? null;
  }

  /** The process, while one serves. */
  get pid(): number | null {
    return this.#phase.name === 'running' ? this.#phase.cell.pid : null;
  }

  /** The last minute with a request, in ms since 1970. */
  get lastRequestAt(): number | null {
    return this.#activity.lastMinute;
  }

  /** Requests and upgraded connections that are open now. */
  get openStreams(): number {
    return this.#phase.name === 'running' ? this.#phase.upstream.active + this.#phase.upstream.tunnels : 0;
  }

  admit(): Admission {
    const phase = this.#phase;
    if (phase.name === 'running' && !phase.asleep) this.#activity.requests++;
    else if (phase.name === 'idle' && this.#coming === null) {
      if (this.#options.memory.over) return overloaded();
      this.#wake();
    } else if (this.#isAsleep()) return this.#admitAsleep();
    return admission(this.#phase, this.#coming);
  }

  /**
   * Wakes a sleeping app for a proxy that holds its own requests. Anything else is left as it is.
   * @returns why requests would be refused because it sleeps on; null when they may come
   */
  async wake(): Promise<Refused | null> {
    if (!this.#isAsleep()) return null;
    const asked = this.#admitAsleep();
    if (asked.kind === 'hold') await asked.ready;
    if (asked.kind === 'refuse') return asked;
    return this.#isAsleep() ? failedWake(this.#wakes.retryAfterS) : null;
  }

  /**
   * Whether the process answers on the socket that runs none of the app's code: an endless loop in it shows. A
   * hibernated app is well, and is left alone.
   */
  async healthy(): Promise<boolean> {
    const phase = this.#phase;
    if (phase.name === 'idle' || phase.name === 'hibernating') return true;
    return phase.name === 'running' && phase.cell.answers('health', HEALTH_TIMEOUT_MS);
  }

  /**
   * Says what an app was when the host ended, before anything is asked of it: `idle` starts at its first request.
   * @param rest as told to `onRest`; `null` when that is not known for sure, and the storage must say
   */
  restore(name: Resting, live: ReleaseRef, rest: Rest | null): void {
    this.#live = live;
    this.#rest.resume(rest ?? { dueAt: this.#nextDue() });
    this.#phase = { name };
  }

  /**
   * Makes `release` the one to run and resolves when it serves; at once if it does already. It is restarted
   * whenever its process ends, after a failed start too.
   * @throws {Error} with the reason when it does not start
   */
  start(release: ReleaseRef): Promise<void> {
    const wanted = this.#unwanted.signal;
    const started = this.#operations.run(async () => {
      const phase = this.#phase;
      if (phase.name === 'running' && this.#live?.deployId === release.deployId) {
        if (phase.asleep) this.#awaken(phase);
        return;
      }
      this.#live = release;
      this.#backoff.reset();
      if (phase.name !== 'running' && this.#options.memory.over) {
        this.#cancelRestart();
        this.#goIdle('idle', NO_MEMORY);
        throw new Error(NO_MEMORY);
      }
      await this.#retire(this.#options.onLine);
      await this.#bringUp(wanted, () => this.#backoff.failed());
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
    return this.#operations.run(() => this.#stop(live));
  }

  /** Gives up on starts that were asked for before now. */
  giveUpStarts(): void {
    this.#unwanted.abort(new Error('the app was stopped'));
    this.#unwanted = new AbortController();
  }

  /**
   * Ends the process as `stop` does. Requests that come meanwhile are held, and they or the next one wake the app; work
   * that falls due gets a process for as long as it takes.
   */
  sleep(live?: ReleaseRef): Promise<void> {
    if (!this.#isAsleep()) this.giveUpStarts();
    return this.#operations.run(async () => {
      if (this.#isAsleep()) return;
      this.#cancelRestart();
      this.#live ??= live ?? null;
      const [phase, error] = [this.#phase, this.#lastError];
      if (phase.name === 'running') {
        this.#enter({ name: 'hibernating', gate: Promise.withResolvers() });
        await end(phase, this.#options.onLine);
      }
      if (this.#live === null) this.#enter({ name: 'none' });
      else this.#goIdle('asleep', error);
    });
  }

  /**
   * Replaces the release that runs, if one does, by `next`, holding requests meanwhile.
   * @throws {Error} with workerd's or SQLite's own message. Then all is as before: the release before serves again
   */
  swap(next: ReleaseRef, steps: SwapSteps): Promise<void> {
    return this.#operations.run(async () => {
      await tryRelease(this.#options.workerd, next.directory, this.#operations.closing);
      const before = this.#phase;
      await this.#retire(steps.log);
      try {
        const cell = await this.#launch(next, steps.log, this.#operations.closing);
        await commitOrStop(cell, steps.commit);
        this.#live = next;
        this.#backoff.reset();
        this.#serve(cell, { forDueWork: false });
      } catch (error) {
        await this.#restore(before, steps.log);
        throw error;
      }
    });
  }

  /**
   * Makes `next` the release that a later start runs, for an app that is not to run now: tried and migrated like any.
   * @param resting what the app is then
   * @throws {Error} as `swap` does; then the release before stays
   */
  adopt(next: ReleaseRef, steps: SwapSteps, resting: 'asleep' | 'stopped'): Promise<void> {
    return this.#operations.run(async () => {
      await tryRelease(this.#options.workerd, next.directory, this.#operations.closing);
      if (resting === 'asleep') await this.#retire(steps.log);
      else await this.#stop();
      try {
        await migrateRelease(this.#options, next, steps.log, this.#operations.closing);
        steps.commit();
        this.#live = next;
      } finally {
        if (resting === 'asleep') this.#goIdle('asleep');
        else this.#enter({ name: this.#live === null ? 'none' : 'stopped' });
      }
    });
  }

  /** To be called about once a second: sends a quiet process away, and gets one for work that falls due. */
  tick(): void {
    const phase = this.#phase;
    const quiet = phase.name === 'running' && this.#activity.isQuiet(phase.upstream);
    if (this.#operations.busy) return;
    if (phase.name === 'running' && phase.upstream.active > 0) this.#watchdog.look(phase.cell);
    if (quiet) this.#operations.run(() => this.#hibernate(phase)).catch(() => {});
    else if (this.#hasDueWork() && !this.#options.memory.over) this.#startDueWork();
  }

  /** Stops it for good. What is under way is given up: a trial, a migration (which undoes itself), a start. */
  close(): Promise<void> {
    return this.#operations.close(() => this.#stop());
  }

  /** A request for a sleeping app. Due work may have a process already; then a wake needs none. */
  #admitAsleep(): Admission {
    if (this.#phase.name === 'asleep' && this.#options.memory.over) return overloaded();
    const woken = this.#wakes.join();
    return woken === null ? failedWake(this.#wakes.retryAfterS) : { kind: 'hold', ready: woken };
  }

  async #askToWake(): Promise<void> {
    await this.#options.wake();
    if (this.#isAsleep()) throw new Error('the control plane let it sleep on');
  }

  /** Starts a hibernated app, once for all who wait. Nobody who leaves cancels it for the others. */
  #wake(): void {
    const phase: Phase = { name: 'starting', gate: Promise.withResolvers(), hibernated: true };
    const wanted = this.#unwanted.signal;
    this.#enter(phase);
    this.#operations
      .run(async () => {
        // An operation that came before may have started it, or stopped it.
        if (this.#phase !== phase) return;
        this.#cancelRestart();
        await this.#bringUp(wanted, () => this.#backoff.failed());
      })
      .catch(() => {});
  }

  /** A sleeping app that runs for due work serves everybody from now on. */
  #awaken(phase: Running): void {
    this.#activity.begin(false);
    this.#enter({ ...phase, asleep: false });
  }

  #hasDueWork(): boolean {
    const resting = this.#phase.name === 'idle' || this.#phase.name === 'asleep';
    return resting && this.#rest.isDue();
  }

  /** Starts the process for due work. A sleeping app stays asleep for everybody else. */
  #startDueWork(): void {
    const phase = this.#phase;
    const wanted = this.#unwanted.signal;
    this.#operations
      .run(async () => {
        if (this.#phase !== phase || this.#options.memory.over) return;
        const asleep = phase.name === 'asleep';
        if (!asleep) this.#enter({ name: 'starting', gate: Promise.withResolvers(), hibernated: true });
        await this.#bringUp(wanted, () => this.#backoff.failed(), { forDueWork: true, asleep });
      })
      .catch(() => {});
  }

  /** Ends the process of a quiet app, unless work is about to fall due, or under way. */
  async #hibernate(phase: Phase): Promise<void> {
    if (phase.name !== 'running' || this.#phase !== phase || !this.#activity.isQuiet(phase.upstream)) return;
    const dueAt = this.#nextDue();
    if (dueAt !== null && dueAt <= Date.now() + this.#activity.worthWaitingMs) {
      this.#activity.keep();
      return;
    }
    this.#enter(phase.asleep ? { name: 'asleep' } : { name: 'hibernating', gate: Promise.withResolvers() });
    await end(phase, this.#options.onLine);
    this.#goIdle(phase.asleep ? 'asleep' : 'idle');
  }

  /** No process runs, and none is needed before a request, or the due time that the storage tells. */
  #goIdle(name: 'idle' | 'asleep', lastError: string | null = null): void {
    this.#rest.begin(this.#nextDue());
    this.#enter({ name }, lastError);
  }

  #nextDue(): number | null {
    try {
      return nextDue(this.#live!.directory, this.#options.directories.data);
    } catch (error) {
      this.#options.onLine(`alarms could not be read and wait for the next request: ${reason(error)}`);
      return null;
    }
  }

  #isAsleep(): boolean {
    return this.#phase.name === 'asleep' || (this.#phase.name === 'running' && this.#phase.asleep);
  }

  /** Holds requests and ends the process, if there is one. Whoever calls it starts another, or says why not. */
  async #retire(log: (line: string) => void): Promise<void> {
    this.#cancelRestart();
    const phase = this.#phase;
    if (phase.name !== 'starting') {
      const hibernated = phase.name === 'idle';
      this.#enter({ name: 'starting', gate: Promise.withResolvers(), hibernated });
    }
    if (phase.name === 'running') await end(phase, log);
  }

  async #stop(live?: ReleaseRef): Promise<void> {
    this.#cancelRestart();
    const phase = this.#phase;
    this.#live ??= live ?? null;
    if (phase.name === 'running') {
      this.#enter({ name: 'draining' });
      await end(phase, this.#options.onLine);
    }
    this.#enter({ name: this.#live === null ? 'none' : 'stopped' });
  }

  /** Starts the live release in its turn. @throws when it does not start; what comes then is arranged */
  async #bringUp(
    wanted: AbortSignal,
    failed: () => Restart,
    how: { forDueWork: boolean; asleep?: boolean } = { forDueWork: false },
  ): Promise<void> {
    const { slots, onLine } = this.#options;
    const signal = AbortSignal.any([this.#operations.closing, wanted]);
    try {
      const cell = await slots.run((leftMs) => this.#launch(this.#live!, onLine, signal, leftMs), signal);
      this.#serve(cell, how);
    } catch (error) {
      if (signal.aborted) this.#enter({ name: 'stopped' });
      else if (error instanceof NoTurn) this.#goIdle(how.asleep ? 'asleep' : 'idle', error.message);
      else if (how.asleep) this.#postpone(failed(), reason(error));
      else this.#crash(failed(), reason(error));
      throw error;
    }
  }

  /** @param timeoutMs longest wait for its sockets */
  #launch(
    release: ReleaseRef,
    log: (line: string) => void,
    signal: AbortSignal,
    timeoutMs?: number,
  ): Promise<Cell> {
    this.#rest.end();
    return launch(this.#options, release, log, signal, timeoutMs);
  }

  #serve(cell: Cell, { forDueWork, asleep = false }: { forDueWork: boolean; asleep?: boolean }): void {
    const upstream = new Upstream({ socketPath: cell.socketPath('http') });
    this.#activity.begin(forDueWork);
    this.#enter({ name: 'running', cell, upstream, asleep });
    void cell.exited.then((exit) => this.#exited(cell, exit));
  }

  /** After a failed swap: what served before serves again, and what did not run stays so. */
  async #restore(before: Phase, log: (line: string) => void): Promise<void> {
    const { name } = before;
    if (this.#live === null || name === 'none' || name === 'stopped' || this.#operations.closing.aborted) {
      this.#enter({ name: this.#live === null ? 'none' : 'stopped' });
      return;
    }
    if (name === 'idle' || name === 'asleep') {
      this.#goIdle(name);
      return;
    }
    try {
      this.#serve(await this.#launch(this.#live, log, this.#operations.closing), { forDueWork: false });
      log('the release before serves again');
    } catch (error) {
      log(`the release before does not start either: ${reason(error)}`);
      this.#crash(this.#backoff.failed(), reason(error));
    }
  }

  #exited(cell: Cell, exit: CellExit): void {
    const phase = this.#phase;
    // An end that was asked for is no crash: the phase has left the process before it is told to go.
    if (phase.name !== 'running' || phase.cell !== cell) return;
    phase.upstream.destroy();
    const restart = this.#backoff.next(performance.now() - cell.startedAt);
    if (phase.asleep) this.#postpone(restart, exit.reason);
    else this.#crash(restart, exit.reason);
  }

  /** The due work of a sleeping app failed: it gets another process later. */
  #postpone({ delayMs }: Restart, error: string): void {
    this.#options.onLine(`due work is tried again in ${delayMs} ms or later: ${error}`);
    this.#goIdle('asleep', error);
    this.#rest.postpone(delayMs);
  }

  /** Holds or refuses requests, as `restart` says, and starts the live release again after its delay. */
  #crash({ delayMs, loop }: Restart, error: string): void {
    if (this.#operations.closing.aborted) {
      this.#enter({ name: 'stopped' });
      return;
    }
    this.#options.onLine(`restart in ${delayMs} ms: ${error}`);
    const phase = this.#phase;
    if (loop) this.#enter({ name: 'crashed', retryAt: Date.now() + delayMs }, error);
    else if (phase.name === 'starting') this.#enter(phase, error);
    else this.#enter({ name: 'starting', gate: Promise.withResolvers(), hibernated: false }, error);
    const wanted = this.#unwanted.signal;
    this.#restart = setTimeout(() => {
      const due = this.#restart;
      // An operation that came meanwhile has cancelled this restart and says itself what runs.
      this.#operations
        .run(async () => {
          if (due === this.#restart) await this.#startAgain(wanted);
        })
        .catch(() => {});
    }, delayMs);
  }

  async #startAgain(wanted: AbortSignal): Promise<void> {
    this.#restart = null;
    if (this.#options.memory.over) this.#goIdle('idle', NO_MEMORY);
    else await this.#bringUp(wanted, () => this.#backoff.next(0));
  }

  #cancelRestart(): void {
    if (this.#restart !== null) clearTimeout(this.#restart);
    this.#restart = null;
  }

  #enter(phase: Phase, lastError: string | null = null): void {
    const [before, state, error] = [this.#phase, this.state, this.#lastError];
    this.#phase = phase;
    this.#lastError = lastError;
    if ('gate' in before && phase !== before) before.gate.resolve();
    if (phase.name === 'running' && !phase.asleep) this.#wakes.arrived();
    if (state !== this.state || error !== lastError) this.#options.onState(this.state, lastError);
  }
}

async function commitOrStop(cell: Cell, commit: () => void): Promise<void> {
  try {
    commit();
  } catch (error) {
    await cell.stop();
    throw error;
  }
}
