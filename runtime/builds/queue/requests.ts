// Creates deploys from commits, earlier releases, uploads and previews.
import { existsSync } from 'node:fs';
import { versionOf } from '../../../handlers/contract/apps/versions.ts';
import type { DeployFact, DeployTrigger, DeployVersion } from '../../../handlers/contract/host/host-calls.ts';
import { newId } from '../../../handlers/contract/id.ts';
import { cutText } from '../../../handlers/contract/text.ts';
import { namedCommit } from '../../git/named-commit.ts';
import { DEPLOY_REF, SHOWN_LENGTH } from '../../git/repository.ts';
import { resolveCommit } from '../../git/source.ts';
import { Refusal } from '../../refusal.ts';
import type { Deploy, DeployOptions } from '../deploy/deploy.ts';
import type { DeploySource } from '../deploy/make-release.ts';
import type { Retriggered } from '../release/releases.ts';
import type { DeployQueue } from './queue.ts';

/** Fields of a deploy that has no commit in the repository. */
const UPLOAD = { sha: '', ref: '', trigger: 'upload' } as const;

export interface CommitRequest {
  appId: string;
  sha: string;
  /** The full name of the ref, such as `refs/heads/main`. */
  ref: string;
  trigger: DeployTrigger;
  /** The name of the person who requests a redeploy; omitted for other triggers. */
  by?: string | undefined;
}

export type RequestOptions = Pick<DeployOptions, 'store' | 'paths' | 'apps'>;

/** Records deploys of all apps, and adds them to the queue. */
export class DeployRequests {
  readonly #queue: DeployQueue;
  readonly #options: RequestOptions;

  constructor(queue: DeployQueue, options: RequestOptions) {
    this.#queue = queue;
    this.#options = options;
  }

  /**
   * Records a deploy and runs it when its turn comes. Resolves once it is recorded with its commit's description.
   * @throws {Error} while the host is stopping
   */
  async commit({ appId, sha, ref, trigger, by }: CommitRequest): Promise<Deploy> {
    // Before the first `await`: deploys keep the order of requests.
    const deploy = this.#queue.add(
      { app_id: appId, sha, ref, message: '', author: '', ...(by && { requested_by: by }), trigger },
      { kind: 'commit' },
    );
    await this.#queue.waitFor(deploy.describe());
    return deploy;
  }

  /**
   * Records a deploy that starts the release of an earlier one again, and runs it when its turn comes.
   * @param by the name of the person who requests it
   * @throws {Refusal} for an unknown deploy, for one that never went live, and for one whose release is not kept
   * @throws {Error} while the host is stopping
   */
  rollback(appId: string, deployId: string, by?: string): Deploy {
    const { store, paths, apps } = this.#options;
    const earlier = store.deploys.find(appId, deployId);
    if (earlier === undefined) throw new Refusal(404, 'deploy_not_found', 'no such deploy');
    if (earlier.status !== 'live' && earlier.status !== 'replaced') {
      throw new Refusal(409, 'release_unavailable', `deploy ${deployId} never went live (${earlier.status})`);
    }
    // Checks the row as well as the disk: a release that is being removed may still exist in part.
    const isInBucket = apps.get(appId)?.code != null;
    if (!earlier.can_roll_back || !(isInBucket || existsSync(paths.release(appId, deployId)))) {
      throw new Refusal(409, 'release_unavailable', `the release of deploy ${deployId} is no longer kept`);
    }
    const { sha, ref, message, author } = earlier;
    const asked = { ...(by && { requested_by: by }), trigger: 'rollback' as const };
    return this.#queue.add(
      { app_id: appId, sha, ref, message, author, ...asked, version: versionOf(earlier) },
      { kind: 'release', of: deployId },
    );
  }

  /**
   * Records a deploy of the tip of main, or of an earlier deploy's commit, and runs it when its turn comes.
   * @param deployId the earlier deploy; null: the tip
   * @param by the name of the person who requests it
   * @throws {Refusal} for an unknown deploy, and for a missing commit
   * @throws {Error} while the host is stopping
   */
  async again(appId: string, deployId: string | null, by?: string): Promise<Deploy> {
    const { store, apps } = this.#options;
    const earlier = deployId === null ? null : store.deploys.find(appId, deployId);
    if (earlier === undefined) throw new Refusal(404, 'deploy_not_found', 'no such deploy');
    if (earlier?.sha === '')
      throw new Refusal(
        404,
        'ref_not_found',
        `deploy ${deployId} was uploaded, so there is no commit to build; roll back to it`,
      );
    const sha = await apps.withRepository(appId, (repository) =>
      resolveCommit(repository, earlier?.sha ?? DEPLOY_REF),
    );
    if (sha === null) {
      const missing = earlier
        ? `the repository no longer has commit ${earlier.sha}`
        : 'main has no commit yet';
      throw new Refusal(404, 'ref_not_found', missing);
    }
    return this.commit({ appId, sha, ref: earlier?.ref || DEPLOY_REF, trigger: 'redeploy', by });
  }

  /**
   * Records a deploy of the commit that a tag, a branch or a hash names in the app's own repository. The deploy moves no
   * branch.
   * @param by the name of the person who requests it
   * @throws {Refusal} `ref_not_found`, and `invalid_input` for an ambiguous hash
   * @throws {Error} while the host is stopping
   */
  async named(appId: string, name: string, by?: string): Promise<Deploy> {
    const found = await this.#options.apps.withRepository(appId, (repository) =>
      namedCommit(repository, name),
    );
    return this.commit({ appId, ...found, trigger: 'redeploy', by });
  }

  /**
   * Records a deploy of an uploaded version, and runs it when its turn comes. The first deploy of a version in an app has the
   * version's id; deploys of previews never do.
   * @throws {Error} while the host is stopping
   */
  upload(
    appId: string,
    uploaded: DeployVersion & { directory: string; notes: string[] },
    by: { message: string; author: string },
  ): Deploy {
    const { directory, notes, ...version } = uploaded;
    const source: DeploySource = { kind: 'upload', directory, notes };
    const message = cutText(by.message, SHOWN_LENGTH);
    return this.#queue.add(
      { ...UPLOAD, app_id: appId, ...by, message, version },
      source,
      this.#idOf(appId, version.id),
    );
  }

  /**
   * Records a deploy of the release of a preview, and runs it when its turn comes.
   * @param preview.appId the preview's own id
   * @param preview.deployId the preview's deploy that made the release
   * @param preview.versionId id of the uploaded version; null for a branch or a pull request
   * @param by the commit, author and version that the deploy shows
   * @throws {Error} while the host is stopping
   */
  promote(
    appId: string,
    preview: { name: string; appId: string; deployId: string; versionId: string | null },
    by: Pick<DeployFact, 'sha' | 'ref' | 'message' | 'author' | 'version'>,
  ): Deploy {
    const { versionId, ...source } = preview;
    const id = versionId === null ? newId() : this.#idOf(appId, versionId);
    return this.#queue.add({ app_id: appId, ...by, trigger: 'promote' }, { kind: 'preview', ...source }, id);
  }

  /**
   * Records a deploy of another app's earlier release, and runs it when its turn comes.
   * @param by the commit, author and version that the deploy shows
   * @throws {Error} while the host is stopping
   */
  copy(
    appId: string,
    of: { appId: string; deployId: string },
    by: Pick<DeployFact, 'sha' | 'ref' | 'message' | 'author' | 'version'>,
  ): Deploy {
    return this.#queue.add({ app_id: appId, ...by, trigger: 'promote' }, { kind: 'copy', ...of });
  }

  /**
   * Records a deploy of the live release with other triggers, and runs it when its turn comes.
   * @throws {Error} while the host is stopping
   */
  retrigger(appId: string, triggers: Retriggered, by: { message: string; author: string }): Deploy {
    const { apps, store } = this.#options;
    const live = apps.get(appId)?.liveDeployId ?? null;
    const fact = live === null ? undefined : store.deploys.find(appId, live);
    const version = fact && versionOf(fact);
    return this.#queue.add(
      { ...UPLOAD, app_id: appId, ...by, ...(version && { version }) },
      { kind: 'triggers', triggers },
    );
  }

  /** Returns the id for a version's deploy: the version's id, or a new one for a preview or if a deploy has it already. */
  #idOf(appId: string, versionId: string): string {
    const { apps, store } = this.#options;
    const isPreview = apps.originOf(appId) !== appId;
    return isPreview || store.deploys.find(appId, versionId) ? newId() : versionId;
  }
}
