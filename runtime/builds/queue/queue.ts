// The deploy queue. At most one deploy of an app runs and one waits: a newer deploy replaces the waiting one. Each deploy
// has a row in the host's database.
import { setTimeout as sleep } from 'node:timers/promises';
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import { newId } from '../../../handlers/contract/id.ts';
import { removeTree } from '../../disk/remove.ts';
import { log, logRarely, reason } from '../../log.ts';
import { Refusal } from '../../refusal.ts';
import { Deploy, type DeployOptions, INTERRUPTED } from '../deploy/deploy.ts';
import type { DeploySource } from '../deploy/make-release.ts';
import { warmBundler } from '../release/build.ts';
import { removeOldReleases } from '../release/old-releases.ts';
import { nextDeploy } from './turns.ts';

/**
 * Delay in ms before a deploy's files are removed, so that the pusher gets the answer first. It is skipped if the app's next
 * deploy waits.
 */
const TIDY_AFTER_MS = 50;

/** How long `cancel` waits for the end of the deploy, in ms. */
const CANCEL_MS = 5_000;

/** Delay before a failed write is retried, in ms. */
const RETRY_MS = 1_000;

const DELETED = 'the app was deleted';

export class DeployQueue {
  readonly #options: DeployOptions;
  readonly #running = new Map<string, { deploy: Deploy; end: Promise<void> }>();
  /** The waiting deploy of each app, which a newer one replaces. Oldest first. */
  readonly #waiting = new Map<string, Deploy>();
  /** Work that may still write to the database. */
  readonly #work = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  constructor(options: DeployOptions) {
    this.#options = options;
  }

  /** Marks as failed the deploys that the host's last end interrupted. Call it once, before the first request. */
  interruptUnfinished(): void {
    this.#interrupt(this.#options.store.deploys.unfinished());
  }

  /** As `interruptUnfinished`, for an app that has come from another host. Call it before any deploy of the app. */
  interruptUnfinishedOf(appId: string): void {
    this.#interrupt(this.#options.store.deploys.unfinished().filter(({ app_id }) => app_id === appId));
  }

  /**
   * Interrupts the deploys of an app that moves to another host, where `MissedDeploys` repeats rollbacks and deploys of
   * pushes. Resolves when none runs.
   */
  async interrupt(appId: string): Promise<void> {
    this.#waiting.get(appId)?.cancel(INTERRUPTED);
    this.#waiting.delete(appId);
    const running = this.#running.get(appId);
    running?.deploy.cancel(INTERRUPTED);
    await running?.end;
  }

  /**
   * Records a deploy and runs it when its turn comes.
   * @param what fields of the deploy's row
   * @throws {Error} while the host is stopping
   */
  add(
    what: Pick<
      DeployFact,
      'app_id' | 'sha' | 'ref' | 'message' | 'author' | 'trigger' | 'requested_by' | 'version'
    >,
    source: DeploySource,
    id = newId(),
  ): Deploy {
    if (this.#closing.signal.aborted) throw new Error('Cellar is stopping; try again in a moment');
    const fact: DeployFact = {
      id,
      ...what,
      status: 'queued',
      can_roll_back: false,
      steps: [],
      error: null,
      created_at: new Date().toISOString(),
      started_at: null,
      finished_at: null,
    };
    const deploy = new Deploy(this.#options, fact, source);
    void this.#options.apps.wakeForDeploy(fact.app_id);
    this.#waiting.get(fact.app_id)?.supersede(fact.id);
    this.#waiting.delete(fact.app_id);
    this.#waiting.set(fact.app_id, deploy);
    this.#running.get(fact.app_id)?.deploy.makeWay();
    this.#advance();
    if (this.#waiting.has(fact.app_id)) deploy.waits(this.#whyWaits(fact.app_id));
    return deploy;
  }

  /** Makes `close` wait for work that writes to a deploy's row. Resolves when the work has ended. */
  async waitFor(work: Promise<void>): Promise<void> {
    this.#work.add(work);
    await work;
    this.#work.delete(work);
  }

  /**
   * Cancels a deploy that waits or runs. Resolves with its row once it has ended, or after `CANCEL_MS`.
   * @param by the name of the person who cancels it
   * @throws {Refusal} for an unknown deploy, and for one that has ended or is already live
   */
  async cancel(appId: string, deployId: string, by: string): Promise<DeployFact> {
    const waiting = this.#waiting.get(appId);
    const running = this.#running.get(appId)?.deploy;
    const deploy = [waiting, running].find((found) => found?.fact.id === deployId);
    if (deploy === undefined || !deploy.mayBeCancelled) {
      const status = deploy?.fact.status ?? this.#options.store.deploys.find(appId, deployId)?.status;
      if (status === undefined) throw new Refusal(404, 'deploy_not_found', 'no such deploy');
      const isEnding = status === 'queued' || status === 'building';
      const state = isEnding ? 'is already being cancelled' : `has ended (${status})`;
      throw new Refusal(409, 'transition_conflict', `deploy ${deployId} ${state}`);
    }
    if (deploy === waiting) this.#waiting.delete(appId);
    deploy.cancel(`cancelled by ${by}`, 'cancelled');
    await deploy.untilEnded(AbortSignal.timeout(CANCEL_MS));
    if (deploy.fact.status === 'live')
      throw new Refusal(
        409,
        'transition_conflict',
        `deploy ${deployId} went live before it could be cancelled`,
      );
    return deploy.fact;
  }

  /** Returns how many deploys run and wait. */
  get counts(): { running: number; waiting: number } {
    return { running: this.#running.size, waiting: this.#waiting.size };
  }

  /** Starts the bundler's process for a build that will follow. Call it when a push has begun. */
  expect(): void {
    if (!this.#closing.signal.aborted) warmBundler();
  }

  /** Whether a deploy of an app runs, or its files are being removed. */
  isRunning(appId: string): boolean {
    return this.#running.has(appId);
  }

  /** Cancels the deploys of a deleted app, and removes its cache and releases. */
  async forget(appId: string): Promise<void> {
    this.#waiting.get(appId)?.cancel(DELETED);
    this.#waiting.delete(appId);
    const running = this.#running.get(appId);
    running?.deploy.cancel(DELETED);
    await running?.end;
    const { store, paths } = this.#options;
    const { cache, releases } = paths;
    // Its releases are already in the trash; a build may have created their directory again.
    await Promise.all([removeTree(cache(appId)), removeTree(releases(appId))]);
    store.deploys.deleteOfDeletedApps();
  }

  /** Aborts running and waiting deploys, and records both as interrupted. Resolves when nothing runs. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const deploy of this.#waiting.values()) deploy.cancel(INTERRUPTED);
    this.#waiting.clear();
    for (const { deploy } of this.#running.values()) deploy.cancel(INTERRUPTED);
    await Promise.all(this.#work);
  }

  #interrupt(deploys: DeployFact[]): void {
    const at = new Date().toISOString();
    this.#record(
      deploys.map((fact) => ({
        ...fact,
        status: 'failed',
        steps: fact.steps.map((step) => (step.status === 'running' ? { ...step, status: 'failed' } : step)),
        error: INTERRUPTED,
        finished_at: at,
      })),
    );
  }

  /** Records interrupted deploys. A full disk does not keep the host from starting: the write is retried. */
  #record(deploys: DeployFact[]): void {
    const { store, onFacts } = this.#options;
    try {
      store.transaction(() => {
        store.deploys.deleteOfDeletedApps();
        for (const deploy of deploys) {
          store.deploys.save(deploy);
          store.outbox.add({ type: 'deploy', deploy });
        }
      });
      onFacts();
    } catch (error) {
      logRarely('error', 'interrupted deploys could not be recorded; Cellar tries again', {
        error: reason(error),
      });
      setTimeout(() => this.#record(deploys), RETRY_MS).unref();
    }
  }

  /** Returns why an app's waiting deploy does not begin yet, for its log. */
  #whyWaits(appId: string): string {
    const before = this.#running.get(appId)?.deploy.fact;
    if (before === undefined) return 'behind the deploys of other apps';
    return before.status === 'building'
      ? `behind deploy ${before.id}`
      : `until the files of deploy ${before.id} are removed`;
  }

  /**
   * Removes the deploy's files, the app's old releases, and the data of deleted classes. The app's next deploy waits for
   * this; the deploys of other apps do not.
   */
  async #tidyAfter(deploy: Deploy): Promise<void> {
    this.#advance();
    const appId = deploy.fact.app_id;
    const sooner = AbortSignal.any([this.#closing.signal, deploy.madeWay]);
    await sleep(TIDY_AFTER_MS, undefined, { signal: sooner }).catch(() => {});
    const next = this.#waiting.get(appId)?.releaseOf ?? null;
    await Promise.all([
      deploy.tidy(),
      removeOldReleases(this.#options, appId, next),
      deploy.throwClassesAway(),
    ]);
  }

  /** Returns the deploy whose turn it is; `null` while none may begin. */
  #next(): Deploy | null {
    const running = [...this.#running.values()]
      .map(({ deploy }) => deploy)
      .filter(({ fact }) => fact.finished_at === null);
    const waiting = [...this.#waiting.values()].filter(({ fact }) => !this.#running.has(fact.app_id));
    return nextDeploy(running, waiting, ({ fact }) => this.#options.apps.ownerOf(fact.app_id));
  }

  #advance(): void {
    for (let deploy = this.#next(); deploy !== null; deploy = this.#next()) {
      const appId = deploy.fact.app_id;
      this.#waiting.delete(appId);
      const end = deploy
        .run()
        .then(() => this.#tidyAfter(deploy))
        .catch((error: unknown) =>
          log('error', 'a deploy ended with an unexpected error', { app: appId, error: reason(error) }),
        )
        .finally(() => {
          this.#running.delete(appId);
          this.#advance();
        });
      this.#running.set(appId, { deploy, end });
      void this.waitFor(end);
    }
  }
}
