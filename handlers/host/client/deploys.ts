// Calls the host about deploys and releases.
import { SOURCE_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type { DeployFact, DeployFacts } from '../../contract/host/host-calls.ts';
import type { DescribedRelease } from '../../contract/host/host-releases.ts';
import type { HostCalls } from '../../contract/host/host-routes.ts';
import { cutText } from '../../contract/text.ts';
import { type HostConnection, maybeDone } from './connection.ts';

/** Longest log taken from the host, in characters. */
const LOG_LIMIT = 8 * 1024 * 1024;

export class Deploys {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** Returns the deploys that the host knows, in its format. */
  async facts(asked: { app_id: string; id: string }[]): Promise<DeployFacts> {
    return this.#host.json('POST /deploys', [], { body: asked });
  }

  /** Returns the current log of a deploy; null when the host has none. */
  async log(appId: string, deployId: string): Promise<string | null> {
    const response = await this.#host.call('GET /apps/:id/deploys/:deploy/log', [appId, deployId], {
      missing: true,
    });
    return response.status === 404 ? null : cutText(await response.text(), LOG_LIMIT);
  }

  /**
   * Deploys the release of an earlier deploy again, as a new deploy.
   * @throws {Problem} `deploy_not_found`, `release_unavailable`
   */
  async rollback(appId: string, deployId: string, by: string): Promise<DeployFact> {
    const refusals = ['deploy_not_found', 'release_unavailable'] as const;
    const body = { deploy_id: deployId, by };
    const options = { body, refusals };
    return this.#host.json('POST /apps/:id/rollback', [appId], options).catch(maybeDone);
  }

  /**
   * Builds and deploys the tip of main again, or the commit of an earlier deploy.
   * @throws {Problem} `deploy_not_found`, `ref_not_found`
   */
  async again(appId: string, deployId: string | null, by: string): Promise<DeployFact> {
    const refusals = ['deploy_not_found', 'ref_not_found'] as const;
    const options = { body: { deploy_id: deployId, by }, refusals, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#host.json('POST /apps/:id/deploys', [appId], options).catch(maybeDone);
  }

  /**
   * Cancels a queued or building deploy.
   * @param by the canceller's name, for people
   * @throws {Problem} `deploy_not_found`, `transition_conflict` when it has ended or is live
   */
  async cancel(appId: string, deployId: string, by: string): Promise<DeployFact> {
    const refusals = ['deploy_not_found', 'transition_conflict'] as const;
    const words = [appId, deployId];
    return this.#host
      .json('POST /apps/:id/deploys/:deploy/cancel', words, { body: { by }, refusals })
      .catch(maybeDone);
  }

  /**
   * Changes the triggers of the live release.
   * @returns the deploy when it has ended; null when nothing had to change
   * @throws {Problem} `release_unavailable` when nothing is deployed
   */
  async setTriggers(
    appId: string,
    body: HostCalls['PUT /apps/:id/triggers']['body'],
  ): Promise<DeployFact | null> {
    const options = { body, refusals: ['release_unavailable'], deadlineMs: SOURCE_DEADLINE_MS } as const;
    return (await this.#host.json('PUT /apps/:id/triggers', [appId], options).catch(maybeDone)).deploy;
  }

  /** Returns the live release, or that of a deploy or version; null when there is none. */
  async release(appId: string, deploy?: string): Promise<DescribedRelease | null> {
    return (await this.#host.json('GET /apps/:id/release', [appId], { query: { deploy } })).release;
  }
}
