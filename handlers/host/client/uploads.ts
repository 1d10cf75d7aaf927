// Calls the host about uploaded versions and assets.
import { SOURCE_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type { DeployFact } from '../../contract/host/host-calls.ts';
import type { UploadedVersion } from '../../contract/host/host-releases.ts';
import type { HostCalls } from '../../contract/host/host-routes.ts';
import { type HostConnection, maybeDone } from './connection.ts';

/** Options of all uploads. */
const UPLOAD = {
  refusals: ['invalid_input', 'bad_request', 'body_too_large', 'rate_limited', 'app_not_found'],
  deadlineMs: SOURCE_DEADLINE_MS,
} as const;

/** The uploader: `owner` is the account's id and the script's name; `app` is the app, if it exists. */
interface Uploader {
  owner: string;
  app: string | undefined;
}

export class Uploads {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** Starts an asset session. @param body the manifest from Wrangler @throws {Problem} `invalid_input` */
  async startAssets(
    from: Uploader,
    body: ReadableStream<Uint8Array>,
  ): Promise<HostCalls['POST /uploads/assets']['answer']> {
    return this.#host.json('POST /uploads/assets', [], { ...UPLOAD, query: { ...from }, bytes: body });
  }

  /** Forwards assets. @returns whether the session is complete @throws {Problem} `invalid_input` */
  async keepAssets(
    session: string,
    body: ReadableStream<Uint8Array>,
    contentType: string,
  ): Promise<{ complete: boolean }> {
    return this.#host.json('POST /uploads/assets/:session', [session], {
      ...UPLOAD,
      bytes: body,
      contentType,
    });
  }

  /** Forwards a version. @throws {Problem} `invalid_input` with the fault */
  async uploadVersion(
    from: Uploader & { author: string },
    body: ReadableStream<Uint8Array>,
    contentType: string,
  ): Promise<HostCalls['POST /uploads/versions']['answer']> {
    return this.#host.json('POST /uploads/versions', [], {
      ...UPLOAD,
      query: { ...from },
      bytes: body,
      contentType,
    });
  }

  /** Returns an app's versions that are not deployed yet, newest first. */
  async versions(appId: string): Promise<UploadedVersion[]> {
    return this.#host.json('GET /apps/:id/versions', [appId]);
  }

  /** Deploys a version, and answers when the deploy has ended. @throws {Problem} `deploy_not_found` */
  async deployVersion(
    appId: string,
    id: string,
    body: HostCalls['POST /apps/:id/versions/:deploy']['body'],
  ): Promise<DeployFact> {
    const options = { body, refusals: ['deploy_not_found'], deadlineMs: SOURCE_DEADLINE_MS } as const;
    return this.#host.json('POST /apps/:id/versions/:deploy', [appId, id], options).catch(maybeDone);
  }

  /**
   * Deploys a version to its preview, and answers when the deploy has ended.
   * @throws {Problem} `invalid_input` for its alias
   */
  async previewVersion(appId: string, id: string, owner: string): Promise<DeployFact> {
    const refusals = ['deploy_not_found', 'invalid_input'] as const;
    const options = { body: { owner }, refusals, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#host.json('POST /apps/:id/versions/:deploy/preview', [appId, id], options).catch(maybeDone);
  }
}
