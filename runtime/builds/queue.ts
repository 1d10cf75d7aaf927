// Deploys: one at a time for each app, the newest push next, and one row for each, whatever happens to it.
import { newId } from '../../handlers/contract/id.ts';
import type { DeployFact, DeployTrigger } from '../../handlers/host-types.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { Apps } from '../apps.ts';
import type { Layout } from '../data-directory.ts';
import { describeCommit } from '../git/repository.ts';
import { log, reason } from '../log.ts';
import type { BuildInput } from './build.ts';
import { Deploy } from './deploy.ts';
import type { BuildUser } from './sandbox.ts';

/** Builds that run side by side. Each may keep a core busy. */
const CONCURRENCY = 2;

/** What the queue needs of the rest of the host. */
export interface DeployQueueOptions {
  store: HostStore;
  paths: Layout;
  apps: Apps;
  limits: BuildInput['limits'];
  /** The user that runs the builds of an app; `null`: the host's own. */
  buildUser: (appId: string) => BuildUser | null;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
}

/** What is to be deployed. */
export interface DeployRequest {
  appId: string;
  sha: string;
  /** The full name of the ref, such as `refs/heads/main`. */
  ref: string;
  trigger: DeployTrigger;
}

/** The queue of all apps. */
export class DeployQueue {
  readonly #options: DeployQueueOptions;
  readonly #running = new Map<string, Deploy>();
  /** The one deploy of each app that waits; a newer one takes its place. Oldest first. */
  readonly #waiting = new Map<string, Deploy>();
  readonly #ends = new Set<Promise<void>>();
  #closed = false;

  constructor(options: DeployQueueOptions) {
    this.#options = options;
  }

  /** Marks what a host that ended left unfinished as failed. Call it once, before the first request. */
  interruptUnfinished(): void {
    const { store, onFacts } = this.#options;
    const at = new Date().toISOString();
    for (const fact of store.deploys.unfinished()) {
      store.transaction(() => {
        const deploy: DeployFact = {
          ...fact,
          status: 'failed',
          steps: fact.steps.map((step) => (step.status === 'running' ? { ...step, status: 'failed' } : step)),
          error: 'interrupted: the host was restarted; push again or roll back',
          finished_at: at,
        };
        store.deploys.save(deploy);
        store.outbox.add({ type: 'deploy', deploy });
      });
    }
    onFacts();
  }

  /**
   * Records a deploy and runs it when its turn comes. Resolves once it is recorded.
   * @throws {Error} while the host is stopping
   */
  async request({ appId, sha, ref, trigger }: DeployRequest): Promise<Deploy> {
    const { message, author } = await describeCommit(this.#options.paths.repository(appId), sha);
    if (this.#closed) throw new Error('Cellar is stopping; push again in a moment');
    const deploy = new Deploy(this.#options, {
      id: newId(),
      app_id: appId,
      sha,
      ref,
      message,
      author,
      trigger,
      status: 'queued',
      steps: [],
      error: null,
      created_at: new Date().toISOString(),
      started_at: null,
      finished_at: null,
    });
    this.#waiting.get(appId)?.supersede(deploy.fact.id);
    this.#waiting.delete(appId);
    this.#waiting.set(appId, deploy);
    this.#advance();
    return deploy;
  }

  /** Cuts what builds, and ends what waits: both are recorded as interrupted. Resolves when nothing runs. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const deploy of this.#waiting.values()) deploy.interrupt();
    this.#waiting.clear();
    for (const deploy of this.#running.values()) deploy.interrupt();
    await Promise.all(this.#ends);
  }

  #advance(): void {
    for (const [appId, deploy] of this.#waiting) {
      if (this.#running.size >= CONCURRENCY) return;
      if (this.#running.has(appId)) continue;
      this.#waiting.delete(appId);
      this.#running.set(appId, deploy);
      const end = deploy
        .run()
        .catch((error: unknown) =>
          log('error', 'a deploy broke', { deploy: deploy.fact.id, error: reason(error) }),
        )
        .finally(() => {
          this.#running.delete(appId);
          this.#ends.delete(end);
          this.#advance();
        });
      this.#ends.add(end);
    }
  }
}
