// Deploys pushes that have no deploy, and repeats deploys that failed because the host ended or the disk was full.
import { existsSync } from 'node:fs';
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';
import type { Layout } from '../../disk/data-directory.ts';
import type { BranchChanges } from '../../git/branch-changes.ts';
import { highestTag, type NamedCommit, TAGS } from '../../git/named-commit.ts';
import { DEPLOY_REF, removeCutPushes, removeLocks } from '../../git/repository.ts';
import { deployTip, resolveCommit } from '../../git/source.ts';
import { log, reason } from '../../log.ts';
import { isInterrupted } from '../deploy/deploy.ts';
import { isOutOfDisk } from '../usage/size.ts';
import { deployOn } from './deploy-on.ts';
import type { DeployRequests } from './requests.ts';

export interface MissedDeploysOptions {
  store: HostStore;
  paths: Layout;
  apps: Pick<Apps, 'withRepository' | 'get'>;
  requests: DeployRequests;
  changes: BranchChanges;
  /** Whether deploys are stopped for lack of disk space. */
  paused: () => boolean;
  /** Whether the disk has space for a build. */
  hasRoom: () => boolean;
  /** Time between two checks, in ms. */
  everyMs: number;
}

/**
 * Repeats an interrupted rollback once. Deploys main or the highest tag if the newest deploy of a push was of another
 * commit, or failed for a reason that may be unrelated to its commit.
 */
export class MissedDeploys {
  readonly #options: MissedDeploysOptions;
  #timer: NodeJS.Timeout | null = null;
  #checking: Promise<void> = Promise.resolve();
  /** Apps from other hosts that were not checked yet. Their repository may be in the bucket only. */
  readonly #arrived = new Set<string>();
  #stopped = false;

  constructor(options: MissedDeploysOptions) {
    this.#options = options;
  }

  /** Checks now, then periodically. Before the first check, removes files of interrupted pushes. */
  start(): void {
    this.#checking = this.#tidy();
    this.#look();
    this.#timer = setInterval(() => this.#look(), this.#options.everyMs);
  }

  /**
   * Checks an app that has come from another host, after the checks under way. A failed check is repeated at the next
   * interval.
   */
  arrived(appId: string): void {
    this.#arrived.add(appId);
    this.#checking = this.#checking.then(() => this.#lookAtArrived(appId));
  }

  /** Ends the checks. Resolves when none runs. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearInterval(this.#timer);
    await this.#checking;
  }

  async #tidy(): Promise<void> {
    const { store, paths, changes, apps } = this.#options;
    for (const id of store.apps.ids()) {
      if (this.#stopped) return;
      await removeCutPushes(paths.repository(id), () => changes.has(id));
      // Repositories in the bucket remove the locks at their first use.
      await removeLocks(paths.repository(id), () => changes.has(id) || apps.get(id)?.code != null);
    }
  }

  /** Queues a check of all apps. A failed check is repeated at the next interval. */
  #look(): void {
    this.#checking = this.#checking
      .then(() => this.#lookAtAll())
      .catch((error: unknown) => log('warn', 'could not look for missed deploys', { error: reason(error) }));
  }

  async #lookAtArrived(appId: string): Promise<void> {
    if (this.#stopped || this.#options.paused()) return;
    await this.#lookAt(appId).catch((error: unknown) =>
      log('warn', 'could not look for a missed deploy', { app: appId, error: reason(error) }),
    );
  }

  async #lookAtAll(): Promise<void> {
    for (const id of this.#options.store.apps.ids()) {
      if (this.#stopped || this.#options.paused()) return;
      await this.#lookAt(id).catch((error: unknown) => {
        log('warn', 'could not look for a missed deploy', { app: id, error: reason(error) });
      });
    }
  }

  async #lookAt(appId: string): Promise<void> {
    const { store, paths, apps, requests, changes, hasRoom } = this.#options;
    const app = apps.get(appId);
    // The app may have left for another host, or be leaving now.
    if (app?.changes.isOpen !== true) return;
    const rollback = cutRollback(store.deploys.last(appId, 2));
    if (rollback !== null && store.deploys.find(appId, rollback)?.can_roll_back) {
      log('info', 'an interrupted rollback is repeated', { app: appId, deploy: rollback });
      requests.rollback(appId, rollback);
      this.#arrived.delete(appId);
      return;
    }
    // A repository that is only in the bucket is checked once a use has loaded it. The code cache keeps repositories with a
    // missed push on the disk.
    const isOnDisk = existsSync(paths.repository(appId));
    if (!isOnDisk && !this.#arrived.has(appId)) return;
    const tip = await this.#pushed(appId, isOnDisk);
    this.#arrived.delete(appId);
    // Checked after the ref was read: a push that ended in between has its deploy in the database by now.
    if (tip === null || changes.has(appId)) return;
    const { sha, ref } = tip;
    if (!isMissed(store, appId, sha)) return;
    const [newest] = store.deploys.newest(appId, 1);
    if (newest?.sha === sha && !isInterrupted(newest) && !hasRoom()) return;
    log('info', 'a push was missed and is deployed now', { app: appId, sha });
    await requests.commit({ appId, sha, ref, trigger: 'push' });
  }

  /**
   * Whether the newest deploy of a push was of a tag that still exists; without one, whether nothing is live. In other cases
   * the highest tag may be older than the live release: the setting was changed, a commit was made in the browser, or a tag
   * was deleted.
   */
  async #followsTags(appId: string): Promise<boolean> {
    const { store, apps } = this.#options;
    const [newest] = store.deploys.newest(appId, 1);
    if (newest === undefined) return apps.get(appId)?.liveDeployId === null;
    if (!newest.ref.startsWith(TAGS)) return false;
    return (await apps.withRepository(appId, (path) => resolveCommit(path, newest.ref))) !== null;
  }

  /** Returns the commit that pushes to an app should have deployed. Null without one, and when pushes are not deployed. */
  async #pushed(appId: string, isOnDisk: boolean): Promise<NamedCommit | null> {
    const { apps } = this.#options;
    const on = deployOn(this.#options, appId);
    if (on === 'manual') return null;
    if (on === 'tags')
      return (await this.#followsTags(appId)) ? apps.withRepository(appId, highestTag) : null;
    const sha = isOnDisk
      ? await apps.withRepository(appId, deployTip)
      : ((await apps.get(appId)?.code?.repository.find(DEPLOY_REF)) ?? null);
    return sha === null ? null : { sha, ref: DEPLOY_REF };
  }
}

/**
 * Whether `tip`, the pushed commit, must still be deployed. Rollbacks, redeploys, uploads and promotions do not count: they
 * move no branch.
 */
export function isMissed({ deploys }: Pick<HostStore, 'deploys'>, appId: string, tip: string): boolean {
  const [newest, before] = deploys.newest(appId, 2);
  if (newest?.sha !== tip) return true;
  // Retried only once: the build itself may be the cause.
  return isBlameless(newest) && !(before?.sha === tip && isBlameless(before));
}

/**
 * Returns the deploy whose release an interrupted rollback was to start. Null without one, and after a second interruption.
 */
function cutRollback([newest, before]: ReturnType<HostStore['deploys']['last']>): string | null {
  if (newest === undefined || !isInterrupted(newest.fact)) return null;
  const isSecond = before?.releaseOf === newest.releaseOf && isInterrupted(before.fact);
  return isSecond ? null : newest.releaseOf;
}

/** Whether a deploy failed for a reason that may be unrelated to its commit. */
function isBlameless(deploy: DeployFact): boolean {
  return isInterrupted(deploy) || (deploy.status === 'failed' && isOutOfDisk(deploy.error ?? ''));
}
