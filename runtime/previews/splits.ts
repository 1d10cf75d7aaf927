// Splits: a second version of an app takes a percentage of its requests. It runs as a preview of the app, so it has its own
// process. It has the app's variables, and no stored data.
import { versionOf } from '../../handlers/contract/apps/versions.ts';
import type { DeployFact, HostSplit } from '../../handlers/contract/host/host-calls.ts';
import type { UploadedVersion } from '../../handlers/contract/host/host-releases.ts';
import { newId } from '../../handlers/contract/id.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import type { Apps } from '../apps/apps.ts';
import { secondVersionNames } from '../apps/preview-app.ts';
import type { Deploy } from '../builds/deploy/deploy.ts';
import type { DeployRequests } from '../builds/queue/requests.ts';
import { logRarely, reason } from '../log.ts';
import { SerialQueues } from '../queues/serial-queue.ts';
import { Refusal } from '../refusal.ts';
import type { Previews } from './previews.ts';

/** Maximum wait for the deploy of a second version, in ms. The deploy may be queued behind others. */
const DEPLOY_MS = 10 * 60_000;
/** The expiry of a row that does not expire, in ms since 1970. */
const NEVER = 8_640_000_000_000_000;

export interface SplitsOptions {
  store: HostStore;
  apps: Apps;
  requests: DeployRequests;
  previews: Previews;
}

/** The release of a second version: an uploaded version in its directory, or that of an earlier deploy of the app. */
export type SecondRelease = { upload: UploadedVersion; directory: string } | { deployId: string };

export class Splits {
  readonly #options: SplitsOptions;
  readonly #work = new SerialQueues();
  /** Ids of second versions that are being deployed or removed. */
  readonly #busy = new Set<string>();

  constructor(options: SplitsOptions) {
    this.#options = options;
  }

  /** Returns the split of an app; null when its live release gets all requests. */
  get(appId: string): HostSplit | null {
    const { apps, store } = this.#options;
    const row = apps.previews(appId).find(({ share }) => share != null);
    const live = apps.get(appId)?.liveDeployId ?? null;
    const fact = live === null ? undefined : store.deploys.find(appId, live);
    const second = row && this.#deployed(row);
    if (row === undefined || fact === undefined || second === undefined) return null;
    const share = row.share!;
    return {
      id: row.id,
      author: second.author,
      message: second.message,
      created_at: new Date(row.createdAt).toISOString(),
      versions: [
        { ...versionOf(fact), percentage: rest(share) },
        { ...versionOf(second), percentage: share },
      ],
    };
  }

  /**
   * Gives a second version a percentage of an app's requests, beside the live release. Deploys it first, unless it is the
   * second version already. The previous second version is removed.
   * @param beside id of the version that the caller has checked as the live one
   * @param share percentage of the requests, from 0 to less than 100
   * @returns its deploy, which may have failed; null when nothing was deployed
   * @throws {Refusal} when nothing is live, when another version is live or goes live meanwhile, when the release is missing, and
   *   while the app moves
   */
  set(
    appId: string,
    release: SecondRelease,
    { beside, share, ...by }: { beside: string; share: number; author: string; message: string },
  ): Promise<DeployFact | null> {
    const { apps, store } = this.#options;
    return this.#work.run(appId, async () => {
      const live = apps.get(appId)?.liveDeployId ?? null;
      if (live === null) throw new Refusal(409, 'release_unavailable', 'nothing is deployed yet');
      const fact = store.deploys.find(appId, live);
      if (fact === undefined || versionOf(fact).id !== beside) throw replaced();
      const version = this.#versionOf(appId, release);
      const current = apps.previews(appId).find((row) => row.share != null);
      if (current?.versionId === version.id) {
        apps.share(current.id, share);
        return null;
      }
      const id = newId();
      const row = { id, parentId: appId, ...secondVersionNames(id), versionId: version.id };
      this.#busy.add(id);
      try {
        apps.addPreview({ ...row, createdAt: Date.now(), expiresAt: NEVER, share: null });
        const deploy = this.#deploy(id, appId, release, by);
        await deploy.untilEnded(AbortSignal.timeout(DEPLOY_MS));
        if (deploy.fact.status !== 'live') return deploy.fact;
        if (apps.get(appId)?.liveDeployId !== live) throw replaced();
        apps.share(id, share);
        return deploy.fact;
      } finally {
        this.#busy.delete(id);
      }
    });
  }

  /** Lets the live release of an app have all requests. Does nothing without a split. */
  end(appId: string): Promise<void> {
    return this.#work.run(appId, async () => this.#options.apps.endSplit(appId));
  }

  /** Removes second versions that get no requests any more. Call it about once a second. */
  tick(): void {
    for (const row of this.#options.apps.seconds())
      if (row.share == null && !this.#busy.has(row.id)) void this.#remove(row);
  }

  async #remove({ id, parentId, name }: PreviewRow): Promise<void> {
    this.#busy.add(id);
    await this.#options.previews.delete(parentId, name).catch((error: unknown) =>
      logRarely('warn', 'a second version could not be removed; Cellar tries again', {
        preview: name,
        error: reason(error),
      }),
    );
    this.#busy.delete(id);
  }

  #deploy(
    id: string,
    appId: string,
    release: SecondRelease,
    by: { author: string; message: string },
  ): Deploy {
    const { requests } = this.#options;
    if ('directory' in release) {
      const { upload, directory } = release;
      const { tag, message, created_at, notes } = upload;
      const uploaded = { id: upload.id, tag, message, created_at, directory, notes };
      return requests.upload(id, uploaded, { author: by.author, message: by.message || message });
    }
    const { deployId } = release;
    const fact = this.#fact(appId, deployId);
    const { sha, ref } = fact;
    const shown = { author: by.author, message: by.message || fact.message };
    return requests.copy(id, { appId, deployId }, { sha, ref, ...shown, version: versionOf(fact) });
  }

  #versionOf(appId: string, release: SecondRelease): { id: string } {
    return 'directory' in release ? release.upload : versionOf(this.#fact(appId, release.deployId));
  }

  /** Returns a deploy whose release is kept. @throws {Refusal} for an unknown deploy, or one whose release is not kept */
  #fact(appId: string, deployId: string): DeployFact {
    const fact = this.#options.store.deploys.find(appId, deployId);
    if (fact === undefined) throw new Refusal(404, 'deploy_not_found', 'no such deploy');
    if (!fact.can_roll_back)
      throw new Refusal(409, 'release_unavailable', `the release of deploy ${deployId} is no longer kept`);
    return fact;
  }

  #deployed({ id }: PreviewRow): DeployFact | undefined {
    const live = this.#options.apps.get(id)?.liveDeployId ?? null;
    return live === null ? undefined : this.#options.store.deploys.find(id, live);
  }
}

function replaced(): Refusal {
  return new Refusal(409, 'transition_conflict', 'another release went live meanwhile; try again');
}

/** Returns the other percentage, without the digits that a subtraction of floats adds. */
function rest(share: number): number {
  return Number((100 - share).toFixed(3));
}
