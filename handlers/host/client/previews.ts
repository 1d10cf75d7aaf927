// Calls the host about an app's previews.
import { READ_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type { DeployFact, HostPreview } from '../../contract/host/host-calls.ts';
import type { HostCalls } from '../../contract/host/host-routes.ts';
import { type HostConnection, maybeDone } from './connection.ts';

export class Previews {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** Returns the previews of an app, newest first. */
  async list(appId: string): Promise<HostPreview[]> {
    return this.#host.json('GET /apps/:id/previews', [appId]);
  }

  /** Returns the log of a preview's newest deploy. @throws {Problem} `preview_not_found`, `deploy_not_found` */
  async log(
    appId: string,
    name: string,
  ): Promise<HostCalls['GET /apps/:id/previews/:preview/log']['answer']> {
    const refusals = ['preview_not_found', 'deploy_not_found'] as const;
    return this.#host.json('GET /apps/:id/previews/:preview/log', [appId, name], { refusals });
  }

  /** Deploys a preview's release to its app. @throws {Problem} `preview_not_found`, `release_unavailable` */
  async promote(appId: string, name: string, author: string): Promise<DeployFact> {
    const refusals = ['preview_not_found', 'release_unavailable'] as const;
    const options = { body: { author }, refusals };
    return this.#host
      .json('POST /apps/:id/previews/:preview/promote', [appId, name], options)
      .catch(maybeDone);
  }

  /** Removes a preview. @throws {Problem} `preview_not_found` */
  async delete(appId: string, name: string): Promise<void> {
    const options = { refusals: ['preview_not_found'], deadlineMs: READ_DEADLINE_MS } as const;
    await this.#host.call('DELETE /apps/:id/previews/:preview', [appId, name], options);
  }
}
