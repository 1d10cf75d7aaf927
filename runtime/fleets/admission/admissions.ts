// What a request to an app gets: a process at once, a wait while one starts, or a refusal. Requests wake the app.
import { setImmediate } from 'node:timers/promises';
import type { Admission, Refused } from '../../edge/upstream/backend.ts';
import { type Level, reason } from '../../log.ts';
import type { Idling } from '../life/idling.ts';
import { admission, failedWake, overloaded, type Phase, type Running } from '../life/phase.ts';
import type { Supervisor } from '../life/supervisor.ts';
import type { WakeFigures } from './wake-figures.ts';
import { Wakes } from './wakes.ts';

export interface AdmissionOptions {
  /** How wakes went, of all fleets. */
  wakes: WakeFigures;
  /** Has the control plane wake the app. Rejects when it does not serve then. */
  wake: () => Promise<void>;
  /** Says something of the process to the app's owner. */
  say: (level: Level, words: string) => void;
}

/** An app that gets no memory says so at most this often, in ms, however many requests come. */
const TELL_SHED_EVERY_MS = 60_000;

export class Admissions {
  readonly #options: AdmissionOptions;
  readonly #process: Supervisor;
  readonly #idling: Idling;
  readonly #wakes = new Wakes(
    () => this.#timed(() => this.#askToWake()),
    (error) => this.#options.say('error', `the app was not woken: ${reason(error)}`),
  );
  #startAhead: Promise<unknown> | null = null;
  /** When requests that were refused for want of memory were told of last. */
  #shedAt = Number.NEGATIVE_INFINITY;
  /** Starts after a rest, for requests, since `takeWakes` was called. */
  #wakeCount = 0;

  constructor(options: AdmissionOptions, process: Supervisor, idling: Idling) {
    this.#options = options;
    this.#process = process;
    this.#idling = idling;
  }

  /** @param coming settles with the start that has been asked for, if one has */
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

  /** Whether the app sleeps; it may have a process for due work. */
  get isAsleep(): boolean {
    const { phase } = this.#process;
    return phase.name === 'asleep' || (phase.name === 'running' && phase.asleep);
  }

  /**
   * The start that a wake makes while it asks the control plane: settles with what it failed with, or null when it did not
   * fail. Null when no wake is under way.
   */
  get startAhead(): Promise<unknown> | null {
    return this.#startAhead;
  }

  /** The app serves: requests that wait for a wake may go on. */
  arrived(): void {
    this.#wakes.arrived();
  }

  /** A sleeping app that runs for due work serves everybody from now on. */
  awaken(phase: Running): void {
    this.countWake();
    this.#process.activity.begin(false);
    this.#process.enter({ ...phase, asleep: false });
  }

  /** The app was started after a rest. */
  countWake(): void {
    this.#wakeCount++;
  }

  /** How many starts after a rest there were since the call before. */
  takeWakes(): number {
    const wakes = this.#wakeCount;
    this.#wakeCount = 0;
    return wakes;
  }

  /** A request for a sleeping app. Due work may have a process already; then a wake needs none. */
  #admitAsleep(): Admission {
    if (this.#process.phase.name === 'asleep' && !this.#process.hasMemory()) return this.#shed();
    const woken = this.#wakes.join();
    return woken === null ? failedWake(this.#wakes.retryAfterS) : { kind: 'hold', ready: woken };
  }

  /** Refuses a request for want of memory, and says so now and then. */
  #shed(): Refused {
    const now = performance.now();
    if (now - this.#shedAt > TELL_SHED_EVERY_MS) {
      this.#shedAt = now;
      this.#options.say('warn', 'requests are answered with 503: the host has no memory for a process now');
    }
    return overloaded();
  }

  /** The process starts while the control plane is asked. It gets no request before the control plane agrees, and ends if that refuses. */
  async #askToWake(): Promise<void> {
    if (this.#process.phase.name === 'asleep') {
      // A start that fails is not made again for the same wake: its time is used up, or its release does not load.
      this.#startAhead = this.#idling.start().then(
        () => null,
        (error: unknown) => error,
      );
      // The process is made in this turn of the loop. Its start takes longer than the control plane does.
      await setImmediate();
    }
    try {
      await this.#options.wake();
    } finally {
      this.#startAhead = null;
    }
    if (this.isAsleep) throw new Error('the control plane let the app sleep on');
  }

  /** Counts a wake, and the time that it took. */
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

  /** Starts a hibernated app, once for all who wait. Nobody who leaves cancels it for the others. */
  #startHibernated(): void {
    const phase: Phase = { name: 'starting', gate: Promise.withResolvers(), hibernated: true };
    const wanted = this.#process.wanted;
    this.#process.enter(phase);
    this.#process.operations
      .run(async () => {
        // An operation that came before may have started it, or stopped it.
        if (this.#process.phase !== phase) return;
        this.#process.cancelRestart();
        await this.#timed(() => this.#process.bringUp(wanted));
        this.countWake();
      })
      .catch(() => {});
  }
}
