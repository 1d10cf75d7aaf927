// Tells the control plane the state of one app's process, through the outbox.
import type { ObservedApp, ProcessState } from '../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import { logRarely, reason } from '../log.ts';

/** How a report reaches the control plane. */
export interface ReportOptions {
  store: HostStore;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
}

/** An app whose state is told. */
interface Reported {
  wanted: { slug: string };
  fleet: { state: ProcessState };
  observe: () => ObservedApp;
}

export class StateReport {
  readonly #options: ReportOptions;
  readonly #app: Reported;
  /** The state that the control plane was told last; null before. */
  #told: ProcessState | null = null;
  /** Whether the last state could not be written. It is tried again at the next tick. */
  #isUnwritten = false;

  constructor(options: ReportOptions, app: Reported) {
    this.#options = options;
    this.#app = app;
  }

  /** Takes the present state for told: the control plane asks for those of all apps when it starts. */
  assumeTold(): void {
    this.#told = this.#app.fleet.state;
  }

  /** To be called when the state may have changed. Hibernating and waking wait for the next tick, since a request waits for the wake. */
  changed(state: ProcessState): void {
    const wakes = (this.#told === 'idle' || this.#told === 'stopped') && state === 'running';
    if (!wakes && state !== 'idle') this.#tell();
  }

  /** To be called about once a second: tells what was not told yet. */
  tick(): void {
    if (this.#isUnwritten || this.#told !== this.#app.fleet.state) this.#tell();
  }

  /** Never throws: a full disk must not stop the change of state. */
  #tell(): void {
    const app = this.#app;
    this.#told = app.fleet.state;
    this.#isUnwritten = true;
    try {
      this.#options.store.outbox.add({ type: 'app', app: app.observe() });
    } catch (error) {
      logRarely('error', 'the state of an app could not be written; it is tried again', {
        app: app.wanted.slug,
        error: reason(error),
      });
      return;
    }
    this.#isUnwritten = false;
    this.#options.onFacts();
  }
}
