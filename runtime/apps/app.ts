// One app of this host: its wanted state, its live release, and the fleet that runs its process.
import type { ListedApp, ObservedApp, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import type { Fleet, ReleaseRef } from '../fleets/life/fleet.ts';
import { log, reason } from '../log.ts';
import { SerialQueue } from '../queues/serial-queue.ts';
import { type ReportOptions, StateReport } from './state-report.ts';

/** The state of an app when the host last stopped, from the database. */
export interface AppBefore {
  liveDeployId: string | null;
  deployedAt: string | null;
  /** Set when it rested without a process; null when it had a process, or when nothing is recorded. */
  rest: { dueAt: number | null } | null;
  /** Why its process was stopped for its disk use; undefined when it was not. */
  heldFor: string | undefined;
}

/** The steps of `App.makeLive`, and callbacks for it. */
export interface MakeLiveSteps {
  /** Records the live release in one transaction with all that depends on it. Gets the app as observed then. */
  commit: (at: string, observed: ObservedApp) => void;
  /** Resolves when the commit is durable. Never rejects. */
  synced: () => Promise<void>;
  /** Receives lines for the deploy's log. */
  log: (line: string) => void;
  /** Cancels the change, as long as nothing is changed. */
  signal?: AbortSignal;
}

/** The dependencies of an `App`. */
interface AppParts {
  wanted: WantedApp;
  preview: PreviewRow | null;
  fleet: Fleet;
  /** Options for reports of its state to the control plane. */
  reports: ReportOptions;
  /** Returns the directory of a release. */
  releaseDirectory: (deployId: string) => string;
}

export class App {
  wanted: WantedApp;
  /** The app and version that a preview shows; null for an app that is no preview. */
  preview: PreviewRow | null;
  readonly fleet: Fleet;
  /** Reports the state of the process to the control plane. */
  readonly report: StateReport;
  readonly #releaseDirectory: (deployId: string) => string;
  #liveDeployId: string | null = null;
  #deployedAt: string | null = null;
  /** Tail of the work queue: settles when all earlier work has ended. */
  readonly #work = new SerialQueue();

  constructor({ wanted, preview, fleet, reports, releaseDirectory }: AppParts) {
    this.wanted = wanted;
    this.preview = preview;
    this.fleet = fleet;
    this.report = new StateReport(reports, this);
    this.#releaseDirectory = releaseDirectory;
  }

  get id(): string {
    return this.wanted.id;
  }

  get liveDeployId(): string | null {
    return this.#liveDeployId;
  }

  /** Returns the app in the form that is reported to the control plane. */
  observe(): ObservedApp {
    return {
      id: this.wanted.id,
      generation: this.wanted.generation,
      process_state: this.fleet.state,
      live_deploy_id: this.#liveDeployId,
      deployed_at: this.#deployedAt,
      last_error: this.fleet.lastError,
    };
  }

  /** Returns the same, with the additional fields of lists. */
  list(): ListedApp {
    const { lastRequestAt, openStreams } = this.fleet;
    const at = lastRequestAt === null ? null : new Date(lastRequestAt).toISOString();
    return { ...this.observe(), last_activity_at: at, open_streams: openStreams };
  }

  /** Runs `work` after all earlier work, so that wanted states are applied in order. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#work.run(work);
  }

  /** Restores the state from before the host's restart. Call it before anything else. */
  restore({ liveDeployId, deployedAt, rest, heldFor }: AppBefore): void {
    this.#deployedAt = deployedAt;
    this.#liveDeployId = liveDeployId;
    const live = this.#live;
    if (live !== undefined) {
      const phase = restingPhase(this.wanted);
      if (phase === 'idle' && heldFor !== undefined) this.fleet.restore('held', live, rest, heldFor);
      else this.fleet.restore(phase, live, rest);
    }
    this.report.assumeTold();
  }

  /** Starts the app after all earlier work. Never rejects. */
  startInTurn(): Promise<void> {
    return this.inTurn(() => this.#start());
  }

  /** Applies the wanted state: runs the live release, puts it to sleep or stops it. Call it inside `inTurn`. */
  async reachWanted(): Promise<void> {
    if (this.wanted.desired_state === 'stopped') return this.fleet.stop(this.#live);
    if (this.wanted.asleep) return this.fleet.sleep(this.#live);
    // A hibernated app needs nothing: the next request starts it.
    if (this.fleet.state === 'idle' && this.fleet.liveDeployId === this.#liveDeployId) return;
    await this.#start();
  }

  /** Stops a preview when its app is stopped; otherwise lets its next request start it. Call it inside `inTurn`. */
  async reachWantedAsPreview(): Promise<void> {
    if (this.#live === undefined) return;
    if (this.wanted.desired_state === 'running') await this.fleet.rest();
    else await this.fleet.stop(this.#live);
  }

  /** Starts the live release, if there is one. Never rejects: a failure is in the log and in `last_error`. */
  async #start(): Promise<void> {
    const live = this.#live;
    if (live === undefined) return;
    await this.fleet.start(live).catch((error: unknown) => {
      const fields = { app: this.wanted.slug, deploy: live.deployId, error: reason(error) };
      log('warn', 'app does not start', fields);
    });
  }

  /**
   * Makes a release the live one. Starts no process when the app is stopped or asleep.
   * @throws {Error} with workerd's reason when the release does not start; the one before stays live
   */
  makeLive(deployId: string, steps: MakeLiveSteps): Promise<void> {
    return this.inTurn(async () => {
      const commit = async () => {
        const at = new Date().toISOString();
        steps.commit(at, { ...this.observe(), live_deploy_id: deployId, deployed_at: at });
        this.#liveDeployId = deployId;
        this.#deployedAt = at;
        // Visitors may soon write to storage whose names only this record has.
        await steps.synced();
      };
      const next = this.#release(deployId);
      const swap = { ...steps, commit };
      const resting = restingPhase(this.wanted);
      if (resting === 'idle') return this.fleet.swap(next, swap);
      await this.fleet.adopt(next, swap, resting);
      steps.log(`the app is ${resting}: this release starts when the app does`);
    });
  }

  /** The live release; undefined before the first deploy. */
  get #live(): ReleaseRef | undefined {
    return this.#liveDeployId === null ? undefined : this.#release(this.#liveDeployId);
  }

  #release(deployId: string): ReleaseRef {
    return { deployId, directory: this.#releaseDirectory(deployId) };
  }
}

/** Returns the state of an app without a process. */
function restingPhase(wanted: WantedApp): 'idle' | 'asleep' | 'stopped' {
  if (wanted.desired_state === 'stopped') return 'stopped';
  return wanted.asleep ? 'asleep' : 'idle';
}
