// Decides what a request to an app gets: a process, a wait for its start, or a refusal. Requests wake sleeping apps.
import { setImmediate } from 'node:timers/promises';
import type { Admission, Refused } from '../../edge/upstream/backend.ts';
import { type Level, reason } from '../../log.ts';
import type { IdleCheck } from '../life/idling.ts';
import { admission, failedWake, overloaded, type Phase, type Running } from '../life/phase.ts';
import type { Supervisor } from '../life/supervisor.ts';
import type { WakeFigures } from './wake-figures.ts';
import { Wakes } from './wakes.ts';

export interface AdmissionOptions {
  /** Wake statistics of all fleets. */
  wakes: WakeFigures;
  /** Asks the control plane to wake the app. Rejects when the app does not serve afterwards. */
  wake: () => Promise<void>;
  /** Writes a line to the app's own log. */
  say: (level: Level, words: string) => void;
}

/** Shortest interval between two log lines about requests refused for lack of memory, in ms. */
const TELL_SHED_EVERY_MS = 60_000;

export class Admissions {
  readonly #options: AdmissionOptions;
  readonly #process: Supervisor;
  readonly #idling: IdleCheck;
  readonly #wakes = new Wakes(
    () => this.#timed(() => this.#askToWake()),
    (error) => this.#options.say('error', `the app was not woken: ${reason(error)}`),
  );
  #startAhead: Promise<unknown> | null = null;
  /** When the last such line was logged. */
  #shedAt = Number.NEGATIVE_INFINITY;
  /** Starts of a resting app for requests, since `takeWakes` was called. */
  #wakeCount = 0;

  constructor(options: AdmissionOptions, process: Supervisor, idling: IdleCheck) {
    this.#options = options;
    this.#process = process;
    this.#idling = idling;
  }

  /** @param coming settles with the start that was requested, if any */
  admit(coming: Promise<void> | null): Admission {
    const phase = this.#process.phase;
    if (phase.name === 'running' && !phase.asleep) this.#process.activity.requests++;
    else if (phase.name === 'idle' && coming === null) {
      if (!this.#process.hasMemory()) return this.#shed();
      this.#startHibernated();
    } else if (this.isAsleep) return this.#admitAsleep();
    return admission(this.#process.phase, coming);
  }

  /** As `Fleet.wake`. */
  async wake(): Promise<Refused | null> {
    if (!this.isAsleep) return null;
    const asked = this.#admitAsleep();
    if (asked.kind === 'hold') await asked.ready;
    if (asked.kind === 'refuse') return asked;
    return this.isAsleep ? failedWake(this.#wakes.retryAfterS) : null;
  }

  /** Whether the app sleeps. It may still have a process for due work. */
  get isAsleep(): boolean {
    const { phase } = this.#process;
    return phase.name === 'asleep' || (phase.name === 'running' && phase.asleep);
  }

  /**
   * The start that runs while a wake asks the control plane. Resolves with its error, or null on success. Null when no wake
   * is under way.
   */
  get startAhead(): Promise<unknown> | null {
    return this.#startAhead;
  }

  /** The app serves: requests that wait for a wake continue. */
  arrived(): void {
    this.#wakes.arrived();
  }

  /** A sleeping app that runs for due work now takes requests. */
  awaken(phase: Running): void {
    this.countWake();
    this.#process.activity.begin(false);
    this.#process.enter({ ...phase, asleep: false });
  }

  /** Counts a start of a resting app. */
  countWake(): void {
    this.#wakeCount++;
  }

  /** Returns the number of starts of a resting app since the last call. */
  takeWakes(): number {
    const wakes = this.#wakeCount;
    this.#wakeCount = 0;
    return wakes;
  }

  /** Admits a request for a sleeping app. If due work already has a process, the wake uses that one. */
  #admitAsleep(): Admission {
    if (this.#process.phase.name === 'asleep' && !this.#process.hasMemory()) return this.#shed();
    const woken = this.#wakes.join();
    return woken === null ? failedWake(this.#wakes.retryAfterS) : { kind: 'hold', ready: woken };
  }

  /** Refuses a request for want of memory, with a rate-limited log line. */
  #shed(): Refused {
    const now = performance.now();
    if (now - this.#shedAt > TELL_SHED_EVERY_MS) {
      this.#shedAt = now;
      this.#options.say('warn', 'requests are answered with 503: the host has no memory for a process now');
    }
    return overloaded();
  }

  /**
   * Starts the process while asking the control plane. It gets no request before the control plane agrees, and ends on a
   * refusal.
   */
  async #askToWake(): Promise<void> {
    if (this.#process.phase.name === 'asleep') {
      // One wake does not retry a failed start: its time is used up, or its release does not load.
      this.#startAhead = this.#idling.start().then(
        () => null,
        (error: unknown) => error,
      );
      // The process is spawned in this turn of the event loop. Its start takes longer than the control plane's answer.
      await setImmediate();
    }
    try {
      await this.#options.wake();
    } finally {
      this.#startAhead = null;
    }
    if (this.isAsleep) throw new Error('the control plane let the app sleep on');
  }

  /** Counts a wake and measures its duration. */
  async #timed(wake: () => Promise<void>): Promise<void> {
    const { wakes } = this.#options;
    const from = performance.now();
    try {
      await wake();
      wakes.add(performance.now() - from);
    } catch (error) {
      wakes.add(null);
      throw error;
    }
  }

  /** Starts a hibernated app once for all waiting requests. A client that disconnects does not cancel the start. */
  #startHibernated(): void {
    const phase: Phase = { name: 'starting', gate: Promise.withResolvers(), hibernated: true };
    const wanted = this.#process.wanted;
    this.#process.enter(phase);
    this.#process.operations
      .run(async () => {
        // An earlier operation may have started or stopped it.
        if (this.#process.phase !== phase) return;
        this.#process.cancelRestart();
        await this.#timed(() => this.#process.bringUp(wanted));
        this.countWake();
      })
      .catch(() => {});
  }
}
