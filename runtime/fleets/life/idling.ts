// Ends a process that is idle or stuck, or whose memory other apps need. Starts a process for due work.
import { EXCEEDED_CPU } from '../../edge/refusals.ts';
import type { Cell } from '../process/cell.ts';
import { type Stuck, Watchdog } from '../process/watchdog.ts';
import { hibernate } from './ending.ts';
import { openIn, processesOf, type Running } from './phase.ts';
import type { Supervisor } from './supervisor.ts';

/** How long a process may take to report its pending work, in ms. Then it counts as idle. */
const WORK_TIMEOUT_MS = 1_000;

export class IdleCheck {
  readonly #process: Supervisor;
  readonly #watchdogs = new WeakMap<Cell, Watchdog>();
  /** The running phase that is kept without requests, because other work runs or is due soon; null for none. */
  #working: Running | null = null;
  /** How many tasks in Workflows the processes of `#working` had when last asked. */
  #steps = 0;
  /** Whether the end of the process is queued because other apps need its memory. */
  #isEvicting = false;

  constructor(process: Supervisor) {
    this.#process = process;
  }

  /** The number of Workflow tasks that keep an idle app's processes running. */
  get steps(): number {
    return this.#working !== null && this.#working === this.#process.phase ? this.#steps : 0;
  }

  /** Ends an idle or stuck process, and starts one for due work. Call about once a second. */
  look(): void {
    this.#process.matchReplicas();
    const { phase, operations } = this.#process;
    const running = phase.name === 'running' ? phase : null;
    const quiet = running !== null && this.#isQuiet(running);
    if (operations.busy) return;
    if (running !== null) {
      const { leases } = running;
      const processes = processesOf(running);
      const used = openIn(processes) + leases.held > 0 || running === this.#working;
      for (const { cell } of processes) {
        // An SQL query of the app's owner may block the process for long. The lease's timeout ends it, so the watchdog
        // pauses.
        if (leases.mayBlock) this.#watchdogOf(cell).pause();
        else this.#watchdogOf(cell).look(cell, used);
      }
    }
    if (quiet) operations.run(() => this.#hibernate(running)).catch(() => {});
    else if (this.#hasDueWork() && this.#process.hasMemory()) this.#start().catch(() => {});
  }

  #watchdogOf(cell: Cell): Watchdog {
    const watchdog = this.#watchdogs.get(cell) ?? new Watchdog((stuck, why) => this.#endStuck(stuck, why));
    this.#watchdogs.set(cell, watchdog);
    return watchdog;
  }

  #endStuck(cell: Cell, why: Stuck): void {
    const process = processesOf(this.#process.phase).find((each) => each.cell === cell);
    if (why === 'silent') {
      cell.kill('the process stopped answering, and used no CPU time');
      return;
    }
    if (process) process.upstream.refusal = EXCEEDED_CPU;
    cell.kill(
      `exceeded CPU: the app computed without a pause for longer than its limit of ${cell.cpuLimitMs} ms allows (limits.cpu_ms in its Wrangler configuration, up to RUNNER_CELL_CPU_MAX_S)`,
    );
  }

  #hasDueWork(): boolean {
    const { phase, rest } = this.#process;
    return phase.name === 'idle' && rest.isDue() && this.#process.obstacle === null;
  }

  /**
   * Starts a process for due work, if the app has none. A sleeping app stays asleep.
   * @throws {Error} as `Supervisor.bringUp` does
   */
  #start(): Promise<void> {
    const { phase, wanted, operations } = this.#process;
    const start = async () => {
      if (this.#process.phase !== phase || !this.#process.hasMemory()) return;
      await this.#process.bringUpResting(wanted);
    };
    return operations.run(start);
  }

  /** Ends the process because other apps need its memory. @param why the text for the app's log */
  evict(why: string): void {
    if (this.#isEvicting) return;
    this.#isEvicting = true;
    const leave = async () => {
      this.#isEvicting = false;
      const { phase, options } = this.#process;
      if (phase.name !== 'running') return;
      options.say('warn', why);
      await hibernate(this.#process, phase, why);
    };
    this.#process.operations.run(leave).catch(() => {});
  }

  #isQuiet(running: Running): boolean {
    return this.#process.activity.isQuiet(openIn(processesOf(running))) && running.leases.held === 0;
  }

  /** Ends the process of an idle app, unless it has work under way or due soon. */
  async #hibernate(phase: Running): Promise<void> {
    const { activity } = this.#process;
    if (this.#process.phase !== phase || !this.#isQuiet(phase)) return;
    const cells = processesOf(phase).map(({ cell }) => cell);
    const containers = this.#process.options.containers?.() ?? 0;
    const work = containers + (await sumOf(cells, (cell) => cell.workAfterAnswers(WORK_TIMEOUT_MS)));
    const steps = work > 0 ? await sumOf(cells, (cell) => cell.stepsAtWork(WORK_TIMEOUT_MS)) : 0;
    const dueAt = await this.#process.nextDue();
    // A request may have come while the processes were asked.
    if (this.#process.phase !== phase || !this.#isQuiet(phase)) return;
    if (work > 0 || (dueAt !== null && dueAt <= Date.now() + activity.worthWaitingMs)) {
      activity.keep();
      this.#working = phase;
      this.#steps = steps;
      return;
    }
    this.#working = null;
    this.#process.options.say('info', 'the process ends because the app is idle');
    await hibernate(this.#process, phase);
  }
}

async function sumOf(cells: Cell[], count: (cell: Cell) => Promise<number>): Promise<number> {
  return (await Promise.all(cells.map(count))).reduce((sum, each) => sum + each, 0);
}
