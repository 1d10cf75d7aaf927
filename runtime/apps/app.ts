// One app of this host: what is wanted of it, which release is live, and the fleet that keeps its process.
import type { ListedApp, ObservedApp, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import type { Fleet, ReleaseRef } from '../fleets/life/fleet.ts';
import { log, reason } from '../log.ts';
import { type ReportOptions, StateReport } from './state-report.ts';

/** How an app was when the host ended, as it was written down. */
export interface AppBefore {
  liveDeployId: string | null;
  deployedAt: string | null;
  /** How its process rested; null when it had one, or when nothing was written down. */
  rest: { dueAt: number | null } | null;
  /** Why its process was ended because of what the app keeps on the disk; undefined when it was not. */
  heldFor: string | undefined;
}

/** What `App.makeLive` does at which moment. */
export interface MakeLiveSteps {
  /** Writes which release is live, in one transaction with what belongs to that; it gets the app as observed then. */
  commit: (at: string, observed: ObservedApp) => void;
  /** Resolves when what was committed is on the disk. Never rejects. */
  synced: () => Promise<void>;
  /** Gets lines for the deploy's log. */
  log: (line: string) => void;
  /** Gives the change up before anything is changed. */
  signal?: AbortSignal;
}

/** What an `App` is made of. */
interface AppParts {
  wanted: WantedApp;
  preview: PreviewRow | null;
  fleet: Fleet;
  /** How the control plane is told of it. */
  reports: ReportOptions;
  /** The directory of a release. */
  releaseDirectory: (deployId: string) => string;
}

export class App {
  wanted: WantedApp;
  /** The app and version that a preview shows; null for an app of its own. */
  preview: PreviewRow | null;
  readonly fleet: Fleet;
  /** Tells the control plane the state of the process. */
  readonly report: StateReport;
  readonly #releaseDirectory: (deployId: string) => string;
  #liveDeployId: string | null = null;
  #deployedAt: string | null = null;
  /** Settles when all has ended that was asked for until now. */
  #work: Promise<unknown> = Promise.resolve();

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

  /** The app as the control plane is told of it. */
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

  /** The same, with what lists show besides. */
  list(): ListedApp {
    const { lastRequestAt, openStreams } = this.fleet;
    const at = lastRequestAt === null ? null : new Date(lastRequestAt).toISOString();
    return { ...this.observe(), last_activity_at: at, open_streams: openStreams };
  }

  /** Runs `work` when all that was asked for before has ended, so that each wanted state follows the one before. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#work.then(work, work);
    this.#work = result.catch(() => {});
    return result;
  }

  /** Takes over how the app was when the host ended. To be called before anything is asked of it. */
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

  /** Starts the app when all that was asked for before has ended. Never rejects. */
  startInTurn(): Promise<void> {
    return this.inTurn(() => this.#start());
  }

  /** Brings about what is wanted: runs, sleeps or stops the live release. To be called in turn. */
  async reachWanted(): Promise<void> {
    if (this.wanted.desired_state === 'stopped') return this.fleet.stop(this.#live);
    if (this.wanted.asleep) return this.fleet.sleep(this.#live);
    // A hibernated app is as it should be: the next request starts it.
    if (this.fleet.state === 'idle' && this.fleet.liveDeployId === this.#liveDeployId) return;
    await this.#start();
  }

  /** Has a preview stop where its app has stopped, and else start at its next request. To be called in turn. */
  async reachWantedAsPreview(): Promise<void> {
    if (this.#live === undefined) return;
    if (this.wanted.desired_state === 'running') await this.fleet.rest();
    else await this.fleet.stop(this.#live);
  }

  /** Starts the live release, if there is one. Never rejects: why it does not start is in the log and in `last_error`. */
  async #start(): Promise<void> {
    const live = this.#live;
    if (live === undefined) return;
    await this.fleet.start(live).catch((error: unknown) => {
      const fields = { app: this.wanted.slug, deploy: live.deployId, error: reason(error) };
      log('warn', 'app does not start', fields);
    });
  }

  /**
   * Makes a release the live one. For an app that is stopped, or sleeps, it starts nothing.
   * @throws {Error} with workerd's own reason when the release does not start; the one before serves on
   */
  makeLive(deployId: string, steps: MakeLiveSteps): Promise<void> {
    return this.inTurn(async () => {
      const commit = async () => {
        const at = new Date().toISOString();
        steps.commit(at, { ...this.observe(), live_deploy_id: deployId, deployed_at: at });
        this.#liveDeployId = deployId;
        this.#deployedAt = at;
        // What visitors are about to write may lie in storage whose names only the pointer has.
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

/** What an app of which `wanted` is wanted is while it has no process. */
function restingPhase(wanted: WantedApp): 'idle' | 'asleep' | 'stopped' {
  if (wanted.desired_state === 'stopped') return 'stopped';
  return wanted.asleep ? 'asleep' : 'idle';
}
