// Decides whether a request to an app is forwarded to a process, waits for a start, or is refused. An app at rest (phase
// `idle`) has no process; its next request starts one.
import type { Admission, Refused } from '../../edge/upstream/backend.ts';
import type { Level } from '../../log.ts';
import { admission, noProcess, overloaded, type Phase } from '../life/phase.ts';
import type { Supervisor } from '../life/supervisor.ts';
import type { WakeFigures } from './wake-figures.ts';

export interface AdmissionOptions {
  /** Wake statistics of all fleets. */
  wakes: WakeFigures;
  /** Writes a line to the app's own log. */
  say: (level: Level, words: string) => void;
}

/** Shortest interval between two log lines about requests refused for lack of memory, in ms. */
const LOG_SHED_EVERY_MS = 60_000;

export class Admissions {
  readonly #options: AdmissionOptions;
  readonly #process: Supervisor;
  /** The phase of the latest start for requests; null before the first. */
  #starting: Phase | null = null;
  /** When the latest line about requests refused for lack of memory was logged, as `performance.now()`. */
  #shedAt = Number.NEGATIVE_INFINITY;
  /** How often requests have started the app from rest, since `takeWakes` was called. Failed starts do not count. */
  #wakeCount = 0;

  constructor(options: AdmissionOptions, process: Supervisor) {
    this.#options = options;
    this.#process = process;
  }

  /** @param coming resolves when the latest start requested by `Fleet.start` has ended; null when no such start is pending */
  admit(coming: Promise<void> | null): Admission {
    const { phase } = this.#process;
    if (phase.name === 'running') {
      this.#process.activity.requests++;
      this.#process.awaken();
    } else if (phase.name === 'idle' && coming === null) {
      const { obstacle } = this.#process;
      if (obstacle !== null) return noProcess(obstacle);
      if (!this.#process.hasMemory()) return this.#shed();
      this.#start();
    }
    return admission(this.#process.phase, this.#process.asleep, coming);
  }

  /** Whether a process is being started for requests, and not only for due work or a lease. */
  get isStarting(): boolean {
    return this.#starting !== null && this.#starting === this.#process.phase;
  }

  /** Returns how often requests have started the app from rest since the previous call. Failed starts do not count. */
  takeWakes(): number {
    const wakes = this.#wakeCount;
    this.#wakeCount = 0;
    return wakes;
  }

  /** Returns the refusal of a request when the host lacks memory. Logs at most one line every `LOG_SHED_EVERY_MS`. */
  #shed(): Refused {
    const now = performance.now();
    if (now - this.#shedAt > LOG_SHED_EVERY_MS) {
      this.#shedAt = now;
      this.#options.say('warn', 'requests are answered with 503: the host has no memory for a process now');
    }
    return overloaded();
  }

  /** Starts the app from rest. Later requests wait for the same start. A client that disconnects does not cancel it. */
  #start(): void {
    const phase: Phase = { name: 'starting', gate: Promise.withResolvers(), hibernated: true };
    const wanted = this.#process.wanted;
    this.#starting = phase;
    this.#process.enter(phase);
    this.#process.operations
      .run(async () => {
        // An earlier operation may have started or stopped the app.
        if (this.#process.phase !== phase) return;
        this.#process.cancelRestart();
        await this.#timed(() => this.#process.bringUp(wanted));
        this.#wakeCount++;
      })
      .catch(() => {});
  }

  /** Runs a start, and adds its duration or its failure to the wake statistics. */
  async #timed(start: () => Promise<void>): Promise<void> {
    const { wakes } = this.#options;
    const from = performance.now();
    try {
      await start();
      wakes.add(performance.now() - from);
    } catch (error) {
      wakes.add(null);
      throw error;
    }
  }
}
