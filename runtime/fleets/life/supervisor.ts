// Supervises one app's process: starts the live release, and restarts it after a crash. The operations of `Fleet` call it
// one at a time. The operations that end the process are in `ending.ts`.
import type { ProcessState } from '../../../handlers/contract/host/host-calls.ts';
import { Upstream } from '../../edge/upstream/upstream.ts';
import { CUT_OFF } from '../../hosts/gate.ts';
import { type Level, reason } from '../../log.ts';
import { Backoff, type Restart } from '../../processes/backoff.ts';
import { Leases } from '../admission/leases.ts';
import type { MemoryGauge, MemoryUser } from '../admission/memory.ts';
import { type Slots, type StartingApp, StartRefused } from '../admission/slots.ts';
import { Activity } from '../due/activity.ts';
import { type Alarm, type AlarmsReader, alarmsOnDisk } from '../due/alarms.ts';
import { DueReader, type RestingApp, RestRecord } from '../due/due.ts';
import type { Cell, CellExit } from '../process/cell.ts';
import { CoreUse } from '../process/core-use.ts';
import { Launcher, MOST_PROCESSES, type Place, type ReleaseRef } from './launch.ts';
import { Operations } from './operations.ts';
import { BUCKET_AWAY, type Phase, processState, type Running } from './phase.ts';
import { Replicas } from './replicas.ts';
import { resumeWorkflows } from './resume.ts';

/** Why a process does not run. `load`: it did not start; `crash`: it ended by itself. */
export interface ProcessFailure {
  mechanism: 'load' | 'crash';
  deployId: string | null;
  reason: string;
}

export interface SupervisorOptions extends Place {
  /** Returns the account that owns the app now. */
  owner: () => string;
  /** Time without requests or other work after which the process ends, in ms; `Infinity` for never. */
  idleMs: number;
  /** The start of the last minute with a request before the host's start, in ms since 1970; null for none. */
  lastRequestAt: number | null;
  /** Start slots, shared by all fleets. A deploy takes no slot, because its app serves no requests until the start ends. */
  slots: Slots;
  /** Time for requests in flight before a process is stopped or replaced, in ms. Default: 10 s. */
  drainMs?: number;
  /** The host's memory, shared by all fleets. */
  memory: MemoryGauge;
  /** Writes a line to the app's own log. */
  say: (level: Level, words: string) => void;
  /** Called when a process did not start, or ended by itself. */
  onFailure: (failure: ProcessFailure) => void;
  /** The id of the version that requests are recorded with; null or left out: the id of the deploy. */
  version?: string | null;
  /** Called after each change of `state` or `lastError`. */
  onState: (state: ProcessState, lastError: string | null) => void;
  /** Called when the app falls asleep, and when it begins to serve requests again. */
  onAsleep: (asleep: boolean) => void;
  /**
   * Called for an app without a process, once the time of its next due work is known. Called with `null` when a process
   * starts; the process serves only once the promise has resolved. Must not reject.
   */
  onRest: (rest: RestingApp | null) => Promise<void>;
}

export const NO_MEMORY =
  'the host is short of memory (RUNNER_FLEET_MAX_RSS_MB); the next request tries again';

export class Supervisor implements StartingApp {
  readonly operations = new Operations();
  readonly activity: Activity;
  readonly rest: RestRecord;
  /** The release to run. */
  live: ReleaseRef | null = null;
  /** Whether the app sleeps: the next request wakes it. It may have a process for due work or a lease. */
  asleep = false;
  /** The wanted number of processes, from 1 to `MOST_PROCESSES`. Without a cluster, only one runs. */
  processCount = 1;
  readonly options: SupervisorOptions;
  /** Ends the process because other apps need its memory. @param why the text for the app's log */
  readonly #evict: (why: string) => void;
  /** The memory gauge's view of the app's first process and of the processes that later replace it. */
  readonly #eater: MemoryUser = {
    footprint: 0,
    evict: (why) => this.#evict(why),
    coreUse: new CoreUse(),
  };
  /** The limit that the previous process exceeded and was ended for; null when it ended for another reason. */
  #limit: string | null = null;
  #launcher: Launcher | null = null;
  #dueReader: DueReader | null = null;
  readonly #backoff = new Backoff();
  #phase: Phase = { name: 'none' };
  #lastError: string | null = null;
  #restart: NodeJS.Timeout | null = null;
  /** Aborted to cancel earlier requested starts. */
  #unwanted = new AbortController();
  /** Resolves when the replicas of a crashed process have ended. */
  #othersEnded: Promise<void> = Promise.resolve();

  constructor(options: SupervisorOptions, evict: (why: string) => void) {
    this.options = options;
    this.#evict = evict;
    this.activity = new Activity(options.idleMs, options.lastRequestAt);
    this.rest = new RestRecord(options.onRest);
  }

  readonly warn = (words: string): void => this.options.say('warn', words);

  /** Created on first use, as `#due` is, to save memory: thousands of apps may be at rest. */
  get launcher(): Launcher {
    this.#launcher ??= new Launcher(this.options);
    return this.#launcher;
  }

  get #due(): DueReader {
    const { owner, user, directories, cluster } = this.options;
    const readAlarms: AlarmsReader = cluster
      ? (request, signal) => cluster.readAlarms(request, signal)
      : alarmsOnDisk(directories.data, { owner, user });
    const workOf = (release: string) => this.launcher.dueWork(release);
    this.#dueReader ??= new DueReader({ workOf, readAlarms });
    return this.#dueReader;
  }

  get owner(): string {
    return this.options.owner();
  }

  get phase(): Phase {
    return this.#phase;
  }

  get state(): ProcessState {
    return processState(this.#phase, this.asleep);
  }

  /**
   * Why the process does not run or did not start; null without an error. While a process runs: the limit that the previous
   * process exceeded, until a new release or a requested start.
   */
  get lastError(): string | null {
    return this.#lastError;
  }

  /** A signal for starts that are requested now. `giveUpStarts` aborts it. */
  get wanted(): AbortSignal {
    return this.#unwanted.signal;
  }

  /** Whether the host has memory for a process of this app. May end the processes of larger apps to free memory. */
  hasMemory(): boolean {
    return this.options.memory.admits(this.#eater);
  }

  /** Why no process of an app in the bucket may run: the bucket does not answer, or this host is cut off; else null. */
  get obstacle(): string | null {
    const { cluster } = this.options;
    if (cluster?.isCutOff) return CUT_OFF;
    return cluster?.isAway() ? BUCKET_AWAY : null;
  }

  /**
   * Call when the app's data and code have moved, to the bucket or from it, and no process runs. Later processes use them
   * there.
   */
  moved({ cluster, load }: Pick<SupervisorOptions, 'cluster' | 'load'>): void {
    this.options.cluster = cluster;
    this.options.load = load;
    this.#launcher = null;
    this.#dueReader = null;
  }

  /** Restores the phase from before a restart of the host. */
  resume(phase: Phase, lastError: string | null = null): void {
    this.#phase = phase;
    this.#lastError = lastError;
  }

  /** Cancels earlier requested starts. */
  giveUpStarts(): void {
    this.#unwanted.abort(new Error('the app was stopped'));
    this.#unwanted = new AbortController();
  }

  /** Enters a phase. Requests queued in the previous one continue. */
  enter(phase: Phase, lastError: string | null = null): void {
    const [before, state, error] = [this.#phase, this.state, this.#lastError];
    this.#phase = phase;
    this.#lastError = lastError;
    if ('gate' in before && phase !== before) before.gate.resolve();
    if (state !== this.state || error !== lastError) this.options.onState(this.state, lastError);
  }

  /**
   * Enters the phase `idle`, without a process. It lasts until a request comes or stored work is due.
   * @param delayMs delay for work that is already due, in ms
   * @returns the promise of `beginRest`
   */
  goIdle(lastError = this.#limit, delayMs = 0): Promise<void> {
    this.enter({ name: 'idle' }, lastError);
    return this.beginRest(delayMs);
  }

  /** Finds and records when work is next due. Resolves when that is known, or when a process starts. Never rejects. */
  beginRest(delayMs = 0): Promise<void> {
    return this.rest.begin((over) => this.nextDue(over), delayMs);
  }

  /**
   * Returns when the app's next work is due, in ms since 1970; null for never. Returns the current time if the alarms cannot
   * be read.
   * @throws the signal's reason when `giveUp` or `Fleet.close` aborts it
   */
  async nextDue(giveUp?: AbortSignal): Promise<number | null> {
    const { closing } = this.operations;
    const signal = giveUp === undefined ? closing : AbortSignal.any([closing, giveUp]);
    try {
      return await this.#due.next(this.live!.directory, signal);
    } catch (error) {
      signal.throwIfAborted();
      this.options.say(
        'warn',
        `alarms could not be read, so the idle process keeps running for them: ${reason(error)}`,
      );
      return Date.now();
    }
  }

  /** Returns the live release's crons with their due times; none without a release. @throws when they cannot be read */
  async crons(): Promise<Alarm[]> {
    return this.live === null ? [] : this.#due.crons(this.live.directory, this.operations.closing);
  }

  /** Marks the app as awake, because it serves requests. */
  awaken(): void {
    if (!this.asleep) return;
    this.asleep = false;
    this.options.onAsleep(false);
    this.matchReplicas();
  }

  /**
   * Starts the live release once it has a slot, and makes it serve.
   * @param failed returns when to try again after a failure of the release
   * @throws {Error} when it does not start. If the start was cancelled, the app is then stopped. If the host refused it or
   *   an obstacle exists, the app goes idle. Otherwise a retry is scheduled
   */
  async bringUp(
    wanted: AbortSignal,
    forDueWork = false,
    failed = () => this.#backoff.failed(),
  ): Promise<void> {
    const signal = AbortSignal.any([this.operations.closing, wanted]);
    try {
      this.serve(await this.launchLive(signal), forDueWork);
    } catch (error) {
      if (signal.aborted) this.enter({ name: 'stopped' });
      else if (this.obstacle !== null) this.#await(this.obstacle);
      else if (error instanceof StartRefused) void this.goIdle(error.message);
      else {
        this.#failed('load', reason(error));
        this.#crash(failed(), reason(error));
      }
      throw error;
    }
  }

  /** Starts the process of an idle app for due work or a lease. A sleeping app stays asleep. @throws as `bringUp` does */
  bringUpResting(wanted: AbortSignal): Promise<void> {
    this.enter({ name: 'starting', gate: Promise.withResolvers(), hibernated: true });
    return this.bringUp(wanted, true);
  }

  /** Launches a process of the live release once it has a slot. The process gets no requests yet. @throws when it fails */
  async launchLive(signal: AbortSignal): Promise<Cell> {
    const { slots, say, cluster } = this.options;
    // Waits before it takes a slot, so that other apps can use the slot meanwhile.
    await cluster?.untilAllowed(signal);
    const log = (line: string) => say('info', line);
    return slots.run(this, (leftMs) => this.launch(this.live!, log, signal, leftMs), signal);
  }

  /**
   * Launches a process of `release`. The process gets no requests yet. No other process of the app may exist.
   * @param timeoutMs longest wait for the process's sockets, in ms
   */
  async launch(
    release: ReleaseRef,
    log: (line: string) => void,
    signal: AbortSignal,
    timeoutMs?: number,
  ): Promise<Cell> {
    // Removes the record of the next due work once the process exists, before the app's code runs and may change it.
    let written = Promise.resolve();
    const onSpawned = () => {
      written = this.rest.end();
    };
    await this.options.cluster?.untilAllowed(signal);
    await this.#othersEnded;
    const cell = await this.launcher.launch(release, log, { signal, startTimeoutMs: timeoutMs, onSpawned });
    this.options.memory.watch(cell, this.#eater);
    await written;
    return cell;
  }

  /** Lets a launched process take requests. Marks the app as awake, unless the process is for due work. */
  serve(cell: Cell, forDueWork = false, leases = new Leases(() => this.activity.keep())): void {
    this.activity.begin(forDueWork);
    this.options.say('info', `a process runs after ${Math.round(cell.startMs)} ms`);
    this.#run({ name: 'running', cell, upstream: this.#connect(cell), leases, replicas: this.#replicas() });
    if (!forDueWork) this.awaken();
    this.matchReplicas();
  }

  /** Starts or ends replicas. An app has no replicas without a cluster, while it sleeps, and while it only runs due work. */
  matchReplicas(): void {
    if (this.#phase.name !== 'running') return;
    const isAlone = this.options.cluster === undefined || this.asleep || this.activity.isForDueWork;
    this.#phase.replicas.scale(isAlone ? 1 : Math.min(this.processCount, MOST_PROCESSES));
  }

  #run(running: Running): void {
    const { cell, leases } = running;
    this.enter(running, this.#limit);
    void cell.exited.then((exit) => this.#exited(cell, exit));
    void this.#resumeWorkflows(cell, leases);
  }

  #connect(cell: Cell): Upstream {
    const release = this.options.version ?? this.live?.deployId ?? null;
    const started = { readyAt: cell.startedAt, startMs: cell.startMs, release };
    return new Upstream({ socketPath: cell.socketPath('http') }, started, cell.callSockets);
  }

  #replicas(): Replicas {
    const { slots, memory, say } = this.options;
    return new Replicas({
      memory,
      say,
      connect: (cell) => this.#connect(cell),
      launch: async (number, ended) => {
        const signal = AbortSignal.any([ended, this.operations.closing]);
        await this.options.cluster?.untilAllowed(signal);
        const launch = (leftMs: number) =>
          this.launcher.launchBeside(number, { signal, startTimeoutMs: leftMs });
        return slots.run(this, launch, signal);
      },
      onFailure: (mechanism, why) => {
        if (this.obstacle !== null) return;
        this.#failed(mechanism, why);
        if (this.#phase.name === 'running') void this.#resumeWorkflows(this.#phase.cell, this.#phase.leases);
      },
    });
  }

  /** Makes a running replica the first process, because the first has ended. @returns whether there was a replica */
  #goOn({ replicas }: Running, delayMs: number, why: string): boolean {
    const replica = replicas.takeOver(delayMs);
    if (replica === null) return false;
    this.options.say(
      'error',
      `one of the app's processes ended, and is started again in ${delayMs} ms: ${why}`,
    );
    this.options.memory.watch(replica.cell, this.#eater);
    this.#run({ name: 'running', ...replica, leases: new Leases(() => this.activity.keep()), replicas });
    return true;
  }

  /** Resumes interrupted Workflows. A lease keeps the process until all were resumed. */
  async #resumeWorkflows(cell: Cell, leases: Leases): Promise<void> {
    const { directory } = this.live!;
    const work = await this.launcher.dueWork(directory).catch(() => null);
    if (work === null || work.workflows.length === 0) return;
    const lease = leases.hold();
    const { closing } = this.operations;
    await resumeWorkflows(cell, { due: this.#due, release: directory, closing, lease, warn: this.warn });
    lease.release();
  }

  /**
   * Call when a start failed outside `bringUp`. Goes idle if the host refused it or an obstacle exists; else retries later.
   */
  failed(error: unknown): void {
    if (error instanceof StartRefused) void this.goIdle(error.message);
    else if (this.obstacle !== null) this.#await(this.obstacle);
    else {
      this.#failed('load', reason(error));
      this.#crash(this.#backoff.failed(), reason(error));
    }
  }

  /** Forgets earlier failures. Call it for a new release or a requested start, or when an outage is over. */
  forgive(): void {
    this.#limit = null;
    this.#backoff.reset();
  }

  cancelRestart(): void {
    if (this.#restart !== null) clearTimeout(this.#restart);
    this.#restart = null;
  }

  #failed(mechanism: ProcessFailure['mechanism'], why: string): void {
    // When the host stops, the same signal may also have ended the apps' processes. That is not a failure.
    if (this.operations.closing.aborted) return;
    this.options.onFailure({ mechanism, deployId: this.live?.deployId ?? null, reason: why });
  }

  #exited(cell: Cell, exit: CellExit): void {
    const phase = this.#phase;
    // A requested end is not a crash. It leaves the phase `running` before it ends the process.
    if (phase.name !== 'running' || phase.cell !== cell) return;
    phase.upstream.destroy();
    this.#limit = exit.limit;
    if (this.obstacle !== null) {
      this.#othersEnded = phase.replicas.end(0);
      this.#await(this.obstacle);
      return;
    }
    this.#failed('crash', exit.reason);
    const restart = this.#backoff.next(performance.now() - cell.startedAt);
    if (this.#goOn(phase, restart.delayMs, exit.reason)) return;
    this.#othersEnded = phase.replicas.end(0);
    if (this.asleep) this.#postpone(restart, exit.reason);
    else this.#crash(restart, exit.reason);
  }

  /** Enters the phase `idle` with `obstacle` as the error. The app has no process until the obstacle is gone. */
  #await(obstacle: string): void {
    this.options.say('error', obstacle);
    void this.goIdle(obstacle);
  }

  /** Retries the due work of a sleeping app later, because its process has crashed. */
  #postpone({ delayMs }: Restart, error: string): void {
    this.options.say(
      'error',
      `due work of the sleeping app could not run, such as a cron or an alarm; next try in ${delayMs} ms or later: ${error}`,
    );
    void this.goIdle(error, delayMs);
  }

  /**
   * Restarts the live release after the delay. Requests are queued meanwhile, or refused in a crash loop. A sleeping app
   * stays asleep: after the delay its next request, or due work, starts it.
   */
  #crash({ delayMs, loop }: Restart, error: string): void {
    if (this.operations.closing.aborted) {
      this.enter({ name: 'stopped' });
      return;
    }
    const { asleep } = this;
    this.options.say('error', `${asleep ? 'not started again for' : 'restart in'} ${delayMs} ms: ${error}`);
    const phase = this.#phase;
    if (loop || asleep) this.enter({ name: 'crashed', retryAt: performance.now() + delayMs }, error);
    else if (phase.name === 'starting') this.enter(phase, error);
    else this.enter({ name: 'starting', gate: Promise.withResolvers(), hibernated: false }, error);
    const wanted = this.#unwanted.signal;
    this.#restart = setTimeout(() => {
      const due = this.#restart;
      // An operation that ran in the meantime may have cancelled this restart.
      this.operations
        .run(async () => {
          if (due !== this.#restart) return;
          if (asleep) void this.goIdle(error);
          else await this.#startAgain(wanted);
        })
        .catch(() => {});
    }, delayMs);
  }

  async #startAgain(wanted: AbortSignal): Promise<void> {
    this.#restart = null;
    if (!this.hasMemory()) void this.goIdle(NO_MEMORY);
    else await this.bringUp(wanted, false, () => this.#backoff.next(0));
  }
}
