// Reports the state of one app's process to the control plane, through the outbox.
import type { ObservedApp, ProcessState } from '../../handlers/contract/host/host-calls.ts';
import type { SleepMarker } from '../../sqlite/host/apps.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import { logRarely, reason } from '../log.ts';

export interface ReportOptions {
  store: HostStore;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
}

interface Reported {
  wanted: { id: string; slug: string };
  fleet: { state: ProcessState };
  sleepMarker: Readonly<SleepMarker>;
  observe: () => ObservedApp;
}

export class StateReport {
  readonly #options: ReportOptions;
  readonly #app: Reported;
  /** The last reported state; null before the first report. */
  #reported: ProcessState | null = null;
  #reportedMarker: Readonly<SleepMarker> | null = null;
  /** Whether reports are off, because the app leaves this host. The app's next host reports its state. */
  isSilent = false;
  /** Whether the last report could not be written. The next tick retries. */
  #isUnwritten = false;

  constructor(options: ReportOptions, app: Reported) {
    this.#options = options;
    this.#app = app;
  }

  /** Marks the current state as reported: the control plane fetches the states of all apps when it starts. */
  assumeReported(): void {
    this.#reported = this.#app.fleet.state;
    this.#reportedMarker = this.#app.sleepMarker;
  }

  /**
   * Call it when the state may have changed. Hibernation and wakes are reported at the next tick, so that the write
   * does not delay the requests that wait for a wake.
   */
  changed(state: ProcessState): void {
    const wakes = (this.#reported === 'idle' || this.#reported === 'stopped') && state === 'running';
    if (!wakes && state !== 'idle') this.#report();
  }

  moved(): void {
    this.#report();
  }

  /** Stores and reports the state if it is unreported. Call it about once a second. */
  tick(): void {
    const { fleet, sleepMarker } = this.#app;
    if (this.#isUnwritten || this.#reported !== fleet.state || this.#reportedMarker !== sleepMarker)
      this.#report();
  }

  /** Stores the state, and adds it to the outbox. Never throws: a full disk must not block the change of state. */
  #report(): void {
    if (this.isSilent) return;
    const app = this.#app;
    const { store } = this.#options;
    this.#reported = app.fleet.state;
    this.#reportedMarker = app.sleepMarker;
    this.#isUnwritten = true;
    try {
      store.transaction(() => {
        store.apps.setSleep(app.wanted.id, app.sleepMarker);
        store.outbox.add({ type: 'app', app: app.observe() });
      });
    } catch (error) {
      logRarely('error', 'the state of an app could not be written; Cellar tries again', {
        app: app.wanted.slug,
        error: reason(error),
      });
      return;
    }
    this.#isUnwritten = false;
    this.#options.onFacts();
  }
}
