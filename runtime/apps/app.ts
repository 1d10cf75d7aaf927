// One app of this host: its wanted state, its live release, and the fleet that runs its process.
import type { ObservedApp, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { SleepMarker } from '../../sqlite/host/apps.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import type { AppCluster } from '../bucket/app-cluster.ts';
import type { AppCode } from '../bucket/code/app-code.ts';
import { goesToSecond, type VersionSplit } from '../edge/version-split.ts';
import type { Fleet, ReleaseRef } from '../fleets/life/fleet.ts';
import { log, reason } from '../log.ts';
import { ClosableGate } from '../queues/closable-gate.ts';
import { SerialQueue } from '../queues/serial-queue.ts';
import { Refusal } from '../refusal.ts';
import { type ReportOptions, StateReport } from './state-report.ts';

/** The state of an app before this host's start, from the database, or from the app's record. */
export interface AppBefore {
  liveDeployId: string | null;
  deployedAt: string | null;
  sleep: SleepMarker;
  /** Set when the app had no process and waited for a request or due work; null when it had one, or nothing is recorded. */
  rest: { dueAt: number | null } | null;
  /** Why its process was stopped for its disk use; undefined when it was not. */
  heldFor: string | undefined;
}

/** A second version of an app, which gets a share of its requests. */
export interface SecondVersion extends VersionSplit {
  /** The preview that runs this version. */
  app: App;
}

/** The callbacks of `App.makeLive`, and the signal that cancels it. */
export interface MakeLiveSteps {
  /** Records the live release in one transaction with all that depends on it. `observed`: the app with that release. */
  commit: (at: string, observed: ObservedApp) => void;
  /** Resolves when the commit is durable. Never rejects. */
  synced: () => Promise<void>;
  /** Receives lines for the deploy's log. */
  log: (line: string) => void;
  /** Cancels the change while nothing has changed yet. */
  signal?: AbortSignal;
}

interface AppParts {
  wanted: WantedApp;
  preview: PreviewRow | null;
  fleet: Fleet;
  /** Set for an app in the bucket. */
  cluster: AppCluster | null;
  /** Set for an app in the bucket. */
  code: AppCode | null;
  reports: ReportOptions;
  releaseDirectory: (deployId: string) => string;
}

export class App {
  wanted: WantedApp;
  /** The app and version that a preview shows; null for an app that is not a preview. */
  preview: PreviewRow | null;
  /** Set while two versions share the requests. */
  second: SecondVersion | null = null;
  readonly fleet: Fleet;
  /** Set for an app that keeps its data in the bucket. */
  cluster: AppCluster | null;
  /** Set for an app that keeps its code in the bucket. */
  code: AppCode | null;
  /** Closed while the app moves. Then its code and previews must not change. */
  readonly changes = new ClosableGate('The app is being moved; try again when the move has ended');
  readonly report: StateReport;
  readonly #releaseDirectory: (deployId: string) => string;
  #liveDeployId: string | null = null;
  #deployedAt: string | null = null;
  #sleep: SleepMarker = { asleepSince: null, wokeAt: null };
  /** Set while the app is being put to sleep: settles when its process has ended. */
  #parking: Promise<void> | null = null;
  /** Runs changes of the app one after another. */
  readonly #work = new SerialQueue();

  constructor({ wanted, preview, fleet, cluster, code, reports, releaseDirectory }: AppParts) {
    this.wanted = wanted;
    this.preview = preview;
    this.fleet = fleet;
    this.cluster = cluster;
    this.code = code;
    this.report = new StateReport(reports, this);
    this.#releaseDirectory = releaseDirectory;
  }

  get id(): string {
    return this.wanted.id;
  }

  /** Returns the fleet that serves a request. @param headers alternating names and values */
  fleetFor(headers: readonly string[]): Fleet {
    const { second } = this;
    return second !== null && goesToSecond(headers, second) ? second.app.fleet : this.fleet;
  }

  get liveDeployId(): string | null {
    return this.#liveDeployId;
  }

  get sleepMarker(): Readonly<SleepMarker> {
    return this.#sleep;
  }

  /** Start of the latest minute with a request, in ms since 1970; null when there was no request. */
  get lastRequestAt(): number | null {
    const times = [this.fleet, this.second?.app.fleet].flatMap((fleet) => fleet?.lastRequestAt ?? []);
    return times.length === 0 ? null : Math.max(...times);
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
      asleep_since: this.#sleep.asleepSince,
      woke_at: this.#sleep.wokeAt,
      storage: this.wanted.storage ?? 'local',
    };
  }

  /** Runs `work` after all earlier work, so that wanted states are applied in order. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#work.run(work);
  }

  /** Restores the state from before a restart of the host, or from another host's record. Call it before anything else. */
  restore({ liveDeployId, deployedAt, sleep, rest, heldFor }: AppBefore): void {
    this.#sleep = sleep;
    this.fleet.asleep = sleep.asleepSince !== null;
    this.#deployedAt = deployedAt;
    this.#liveDeployId = liveDeployId;
    const live = this.#live;
    if (live !== undefined) {
      if (this.wanted.desired_state === 'stopped') this.fleet.restore('stopped', live, rest);
      else if (heldFor !== undefined && !this.fleet.asleep) this.fleet.restore('held', live, rest, heldFor);
      else this.fleet.restore('idle', live, rest);
    }
    this.report.assumeReported();
  }

  /**
   * Makes the app use its data and code in their new place. Call it within `Fleet.replaceStorage`, after they have moved.
   * @param place their new place in the bucket; null when they are now on this machine
   */
  moved(place: { cluster: AppCluster; code: AppCode } | null): void {
    this.cluster = place?.cluster ?? null;
    this.code = place?.code ?? null;
    this.fleet.moved({ cluster: place?.cluster, load: this.code?.load });
  }

  /** Starts the app after all earlier work. Never rejects. */
  startInTurn(): Promise<void> {
    return this.inTurn(() => this.#start());
  }

  /** Applies the wanted state: stops the app, or runs its live release unless the app rests. Call it inside `inTurn`. */
  async reachWanted(): Promise<void> {
    if (this.wanted.desired_state === 'stopped') {
      this.fleet.asleep = false;
      this.#sleep = { ...this.#sleep, asleepSince: null };
      return this.fleet.stop(this.#live);
    }
    // The next request starts a sleeping or hibernated app.
    if (this.fleet.asleep) return;
    if (this.fleet.state === 'idle' && this.fleet.liveDeployId === this.#liveDeployId) return;
    await this.#start();
  }

  /** Sets the marker that the app fell asleep, or that it woke or was started. The next report stores the marker. */
  marked(asleep: boolean): void {
    const at = new Date().toISOString();
    this.#sleep = asleep ? { ...this.#sleep, asleepSince: at } : { asleepSince: null, wokeAt: at };
  }

  /**
   * Applies the wanted state as `reachWanted` does, and also wakes a sleeping app, which stays asleep if its process does
   * not start. Resolves when the start has succeeded or failed.
   * @throws {Refusal} 409 while the app is being put to sleep
   */
  async startNow(): Promise<void> {
    if (this.#parking !== null) throw conflict('The app is being put to sleep; try again in a moment');
    await this.inTurn(async () => {
      if (this.fleet.asleep && this.wanted.desired_state === 'running') await this.#start();
      else await this.reachWanted();
    });
  }

  /** Wakes the app before it is deployed to. It is awake even if its live release does not start. Never rejects. */
  async wakeForDeploy(): Promise<void> {
    if (!this.fleet.asleep && this.#parking === null) return;
    await this.inTurn(async () => {
      if (!this.fleet.asleep) return;
      this.fleet.asleep = false;
      this.marked(false);
      this.report.tick();
      await this.#start();
    });
  }

  /**
   * Puts the app to sleep: ends its process. The next request starts a process and wakes the app.
   * @param isDeploying whether a deploy of the app waits or runs
   * @throws {Refusal} 409 for an app that cannot sleep
   */
  async sleep(isDeploying: boolean): Promise<void> {
    if (this.#parking !== null) return this.#parking;
    const refusal = this.#whyNoSleep(isDeploying);
    if (refusal !== null) throw conflict(refusal);
    if (this.fleet.asleep) return;
    this.#parking = this.inTurn(async () => {
      if (this.wanted.desired_state === 'running') await this.fleet.sleep();
    }).finally(() => {
      this.#parking = null;
    });
    return this.#parking;
  }

  #whyNoSleep(isDeploying: boolean): string | null {
    if (this.wanted.desired_state === 'stopped')
      return 'The app is stopped; only a running app can be put to sleep';
    if (this.#liveDeployId === null)
      return 'Nothing has been deployed yet, so there is nothing to put to sleep';
    if (isDeploying) return 'A deploy is under way; put the app to sleep when it has ended';
    return this.fleet.isWaking ? 'The app is being woken' : null;
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
   * Makes a release the live one. If the app is stopped, the release is only tried, and its databases are migrated.
   * @throws {Error} with workerd's reason when the release does not start; the previous release stays live
   */
  makeLive(deployId: string, steps: MakeLiveSteps): Promise<void> {
    return this.inTurn(async () => {
      const commit = async () => {
        const at = new Date().toISOString();
        steps.commit(at, { ...this.observe(), live_deploy_id: deployId, deployed_at: at });
        this.#liveDeployId = deployId;
        this.#deployedAt = at;
        // Waits, because visitors may soon write to storage that only this record names.
        await steps.synced();
      };
      const next = this.#release(deployId);
      const swap = { ...steps, commit };
      if (this.wanted.desired_state === 'running') return this.fleet.swap(next, swap);
      await this.fleet.adopt(next, swap);
      steps.log('the app is stopped: this release starts when the app does');
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

function conflict(why: string): Refusal {
  return new Refusal(409, 'transition_conflict', why);
}
