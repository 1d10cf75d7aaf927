// Keeps one app's process: brings the live release up, and starts it again after a crash. The fleet's operations call it one at
// a time; `ending.ts` has those that end the process.
import type { ProcessState } from '../../../handlers/contract/host/host-calls.ts';
import { Upstream } from '../../edge/upstream/upstream.ts';
import { type Level, reason } from '../../log.ts';
import { Backoff, type Restart } from '../../processes/backoff.ts';
import { Leases } from '../admission/leases.ts';
import type { Eater, MemoryGauge } from '../admission/memory.ts';
import { NoTurn, type Slots, type Starter } from '../admission/slots.ts';
import { Activity } from '../due/activity.ts';
import type { Alarm } from '../due/alarms.ts';
import { DueReader, type Rest, RestRecord } from '../due/due.ts';
import type { Cell, CellExit } from '../process/cell.ts';
import { CoreUse } from '../process/core-use.ts';
import { Launcher, type Place, type ReleaseRef } from './launch.ts';
import { Operations } from './operations.ts';
import { type Phase, processState } from './phase.ts';
import { resumeWorkflows } from './resume.ts';

/** Why a process does not run. `load`: it did not start; `crash`: it ended by itself. */
export interface ProcessFailure {
  mechanism: 'load' | 'crash';
  deployId: string | null;
  reason: string;
}

export interface SupervisorOptions extends Place {
  /** The account of the app, as it is now. */
  owner: () => string;
  /** Quiet time after which the process goes, in ms; `Infinity` for never. */
  idleMs: number;
  /** The last minute with a request, in ms since 1970, as known from before. */
  lastRequestAt: number | null;
  /** Turns to start, shared by all fleets. A deploy does not wait for one: its app is down meanwhile. */
  slots: Slots;
  /** Time that requests in flight get before a process is replaced, in ms. Default: that of a deploy. */
  drainMs?: number;
  /** The host's memory, shared by all fleets. */
  memory: MemoryGauge;
  /** Says something of the process to the app's owner. */
  say: (level: Level, words: string) => void;
  /** Called when the process did not start, or ended by itself. */
  onFailure: (failure: ProcessFailure) => void;
  /** Called after each change of `state` or `lastError`. */
  onState: (state: ProcessState, lastError: string | null) => void;
  /**
   * Called when the process was ended because nobody needs it, and with `null` before there is one again: that one serves
   * when this has resolved. Must not reject.
   */
  onRest: (rest: Rest | null) => Promise<void>;
}

/** What a process is started for. `asleep`: for due work of an app that sleeps and takes no requests. */
export interface Purpose {
  forDueWork: boolean;
  asleep: boolean;
}

export const NO_MEMORY =
  'the host is short of memory (RUNNER_FLEET_MAX_RSS_MB); the next request tries again';
const FOR_REQUESTS: Purpose = { forDueWork: false, asleep: false };

export class Supervisor implements Starter {
  readonly operations = new Operations();
  readonly activity: Activity;
  readonly rest: RestRecord;
  /** The release to run. */
  live: ReleaseRef | null = null;
  readonly options: SupervisorOptions;
  /** Called when the app begins to serve requests. */
  readonly #onServing: () => void;
  /** Called when others need the memory of its process, with the reason. */
  readonly #atLowPriority: (why: string) => void;
  /** The app as the memory's gauge sees it. */
  readonly #eater: Eater = {
    footprint: 0,
    atLowPriority: (why) => this.#atLowPriority(why),
    coreUse: new CoreUse(),
  };
  /** The limit that the process before this one went over, if that is why it ended. */
  #limit: string | null = null;
  #launcher: Launcher | null = null;
  #dueReader: DueReader | null = null;
  readonly #backoff = new Backoff();
  #phase: Phase = { name: 'none' };
  #lastError: string | null = null;
  #restart: NodeJS.Timeout | null = null;
  /** Aborted when starts that were asked for before are no longer wanted. */
  #unwanted = new AbortController();

  constructor(options: SupervisorOptions, onServing: () => void, atLowPriority: (why: string) => void) {
    this.options = options;
    this.#onServing = onServing;
    this.#atLowPriority = atLowPriority;
    this.activity = new Activity(options.idleMs, options.lastRequestAt);
    this.rest = new RestRecord(options.onRest);
  }

  /** Says something to the app's owner as a warning. */
  readonly warn = (words: string): void => this.options.say('warn', words);

  /** Made when it is first needed, as the reader of due work is: thousands of apps may rest. */
  get launcher(): Launcher {
    this.#launcher ??= new Launcher(this.options);
    return this.#launcher;
  }

  get #due(): DueReader {
    const { user, directories } = this.options;
    this.#dueReader ??= new DueReader(user, directories.data, (release) => this.launcher.dueWork(release));
    return this.#dueReader;
  }

  get owner(): string {
    return this.options.owner();
  }

  get phase(): Phase {
    return this.#phase;
  }

  get state(): ProcessState {
    return processState(this.#phase);
  }

  /**
   * Why it does not run, or did not start. While it runs: which limit the process before went over, until somebody
   * starts or deploys the app; else `null`.
   */
  get lastError(): string | null {
    return this.#lastError;
  }

  /** Aborted when a start that is asked for now is no longer wanted. */
  get wanted(): AbortSignal {
    return this.#unwanted.signal;
  }

  /** Whether the host has memory for a process of this app. Hungrier apps may have to make room. */
  hasMemory(): boolean {
    return this.options.memory.admits(this.#eater);
  }

  /** Takes over the phase in which the host ended. */
  resume(phase: Phase, lastError: string | null = null): void {
    this.#phase = phase;
    this.#lastError = lastError;
  }

  /** Gives up on starts that were asked for before now. */
  giveUpStarts(): void {
    this.#unwanted.abort(new Error('the app was stopped'));
    this.#unwanted = new AbortController();
  }

  /** Begins a phase. Whoever waits for the one before goes on. */
  enter(phase: Phase, lastError: string | null = null): void {
    const [before, state, error] = [this.#phase, this.state, this.#lastError];
    this.#phase = phase;
    this.#lastError = lastError;
    if ('gate' in before && phase !== before) before.gate.resolve();
    if (phase.name === 'running' && !phase.asleep) this.#onServing();
    if (state !== this.state || error !== lastError) this.options.onState(this.state, lastError);
  }

  /**
   * No process runs, and none is needed before a request, or the due time that the storage tells.
   * @param delayMs time that work waits which is due already
   * @returns as `beginRest`
   */
  goIdle(name: 'idle' | 'asleep', lastError = this.#limit, delayMs = 0): Promise<void> {
    this.enter({ name }, lastError);
    return this.beginRest(delayMs);
  }

  /** Finds out when there is work to do. Resolves then, or when there is a process again; never rejects. */
  beginRest(delayMs = 0): Promise<void> {
    return this.rest.begin((over) => this.nextDue(over), delayMs);
  }

  /**
   * When the app has work to do by itself, in ms since 1970; null for never, and now when that cannot be read.
   * @throws when it is given up, as it is when the host stops
   */
  async nextDue(giveUp?: AbortSignal): Promise<number | null> {
    const { closing } = this.operations;
    const signal = giveUp === undefined ? closing : AbortSignal.any([closing, giveUp]);
    try {
      return await this.#due.next(this.live!.directory, signal);
    } catch (error) {
      signal.throwIfAborted();
      this.options.say('warn', `alarms could not be read, so the process stays for them: ${reason(error)}`);
      return Date.now();
    }
  }

  /** The live release's crons with the times that they are due at; none without a release. @throws when they cannot be read */
  async crons(): Promise<Alarm[]> {
    return this.live === null ? [] : this.#due.crons(this.live.directory, this.operations.closing);
  }

  /** Starts the live release in its turn. @throws when it does not start; another start is then arranged */
  async bringUp(
    wanted: AbortSignal,
    purpose = FOR_REQUESTS,
    failed = () => this.#backoff.failed(),
  ): Promise<void> {
    const signal = AbortSignal.any([this.operations.closing, wanted]);
    try {
      this.serve(await this.launchLive(signal), purpose);
    } catch (error) {
      if (signal.aborted) this.enter({ name: 'stopped' });
      else if (error instanceof NoTurn) void this.goIdle(purpose.asleep ? 'asleep' : 'idle', error.message);
      else {
        this.#failed('load', reason(error));
        if (purpose.asleep) this.#postpone(failed(), reason(error));
        else this.#crash(failed(), reason(error));
      }
      throw error;
    }
  }

  /** Starts the process of an app that rests, for something else than requests: a sleeping app stays asleep. @throws as `bringUp` */
  bringUpResting(wanted: AbortSignal): Promise<void> {
    const asleep = this.#phase.name === 'asleep';
    if (!asleep) this.enter({ name: 'starting', gate: Promise.withResolvers(), hibernated: true });
    return this.bringUp(wanted, { forDueWork: true, asleep });
  }

  /** Starts a process of the live release in its turn; it serves nobody yet. @throws when it does not start */
  launchLive(signal: AbortSignal): Promise<Cell> {
    const { slots, say } = this.options;
    const log = (line: string) => say('info', line);
    return slots.run(this, (leftMs) => this.launch(this.live!, log, signal, leftMs), signal);
  }

  /**
   * Starts a process of `release`, which serves nobody yet. There must be none.
   * @param timeoutMs longest wait for its sockets
   */
  async launch(
    release: ReleaseRef,
    log: (line: string) => void,
    signal: AbortSignal,
    timeoutMs?: number,
  ): Promise<Cell> {
    // The disk takes it while the process starts. So early the process runs no code of the app.
    let written = Promise.resolve();
    const onSpawned = () => {
      written = this.rest.end();
    };
    const cell = await this.launcher.launch(release, log, { signal, startTimeoutMs: timeoutMs, onSpawned });
    this.options.memory.watch(cell, this.#eater);
    await written;
    return cell;
  }

  /** Has a process that was launched serve. */
  serve(
    cell: Cell,
    { forDueWork, asleep } = FOR_REQUESTS,
    leases = new Leases(() => this.activity.keep()),
  ): void {
    const release = this.live?.deployId ?? null;
    const started = { readyAt: cell.startedAt, startMs: cell.startMs, release };
    const upstream = new Upstream({ socketPath: cell.socketPath('http') }, started, cell.doors);
    this.activity.begin(forDueWork);
    this.options.say('info', `a process runs after ${Math.round(cell.startMs)} ms`);
    this.enter({ name: 'running', cell, upstream, asleep, leases }, this.#limit);
    void cell.exited.then((exit) => this.#exited(cell, exit));
    void this.#resumeWorkflows(cell, leases);
  }

  /** Resumes Workflows that were interrupted. The process stays until they have been asked for. */
  async #resumeWorkflows(cell: Cell, leases: Leases): Promise<void> {
    const { directory } = this.live!;
    const work = await this.launcher.dueWork(directory).catch(() => null);
    if (work === null || work.workflows.length === 0) return;
    const lease = leases.hold();
    const { closing } = this.operations;
    await resumeWorkflows(cell, { due: this.#due, release: directory, closing, lease, warn: this.warn });
    lease.release();
  }

  /** A start that somebody waited for failed: it is tried again, but not at once. */
  failed(error: unknown): void {
    if (error instanceof NoTurn) void this.goIdle('idle', error.message);
    else {
      this.#failed('load', reason(error));
      this.#crash(this.#backoff.failed(), reason(error));
    }
  }

  /** Forgets earlier failures: there is a new release, or somebody asks for a start. */
  forgive(): void {
    this.#limit = null;
    this.#backoff.reset();
  }

  /** Cancels the start that was to follow a crash. */
  cancelRestart(): void {
    if (this.#restart !== null) clearTimeout(this.#restart);
    this.#restart = null;
  }

  #failed(mechanism: ProcessFailure['mechanism'], why: string): void {
    this.options.onFailure({ mechanism, deployId: this.live?.deployId ?? null, reason: why });
  }

  #exited(cell: Cell, exit: CellExit): void {
    const phase = this.#phase;
    // An end that was asked for is no crash: the phase has left the process before it is told to go.
    if (phase.name !== 'running' || phase.cell !== cell) return;
    phase.upstream.destroy();
    this.#limit = exit.limit;
    this.#failed('crash', exit.reason);
    const restart = this.#backoff.next(performance.now() - cell.startedAt);
    if (phase.asleep) this.#postpone(restart, exit.reason);
    else this.#crash(restart, exit.reason);
  }

  /** The due work of a sleeping app failed: it gets another process later. */
  #postpone({ delayMs }: Restart, error: string): void {
    this.options.say(
      'error',
      `the app sleeps on; what is due is tried again in ${delayMs} ms or later: ${error}`,
    );
    void this.goIdle('asleep', error, delayMs);
  }

  /** Holds or refuses requests, as `restart` says, and starts the live release again after its delay. */
  #crash({ delayMs, loop }: Restart, error: string): void {
    if (this.operations.closing.aborted) {
      this.enter({ name: 'stopped' });
      return;
    }
    this.options.say('error', `restart in ${delayMs} ms: ${error}`);
    const phase = this.#phase;
    if (loop) this.enter({ name: 'crashed', retryAt: performance.now() + delayMs }, error);
    else if (phase.name === 'starting') this.enter(phase, error);
    else this.enter({ name: 'starting', gate: Promise.withResolvers(), hibernated: false }, error);
    const wanted = this.#unwanted.signal;
    this.#restart = setTimeout(() => {
      const due = this.#restart;
      // An operation that came meanwhile has cancelled this restart and says itself what runs.
      this.operations
        .run(async () => {
          if (due === this.#restart) await this.#startAgain(wanted);
        })
        .catch(() => {});
    }, delayMs);
  }

  async #startAgain(wanted: AbortSignal): Promise<void> {
    this.#restart = null;
    if (!this.hasMemory()) void this.goIdle('idle', NO_MEMORY);
    else await this.bringUp(wanted, FOR_REQUESTS, () => this.#backoff.next(0));
  }
}
