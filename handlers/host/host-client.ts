// A typed client of the HOST binding. Apps and the host itself are here; every other subject has its own class.

import type { Access, Role } from '../../sqlite/control/people/access.ts';
import type { Bindings } from '../bindings.ts';
import type { HostStats } from '../contract/admin.ts';
import { DOMAIN_LOOKUP_MS, type DomainLookup } from '../contract/apps/domains.ts';
import { errorCodes } from '../contract/errors.ts';
import { CALL_DEADLINE_MS, READ_DEADLINE_MS } from '../contract/host/deadlines.ts';
import type { ListedApp, Mail, SecretChanges, WantedApp } from '../contract/host/host-calls.ts';
import type { KeptPlaces } from '../contract/host/host-releases.ts';
import type { Applied, HostCalls, HostInventory } from '../contract/host/host-routes.ts';
import type { Result } from '../contract/index.ts';
import { Problem } from '../problem.ts';
import { Alerts } from './client/alerts.ts';
import { Buckets } from './client/buckets.ts';
import { detailOf, HostConnection, maybeDone, NO_ROOM, sentence } from './client/connection.ts';
import { Deploys } from './client/deploys.ts';
import { Previews } from './client/previews.ts';
import { Snapshots } from './client/snapshots.ts';
import { Source } from './client/source.ts';
import { Storage } from './client/storage.ts';
import { Telemetry } from './client/telemetry.ts';
import { Uploads } from './client/uploads.ts';
import { Workflows } from './client/workflows.ts';

/** Added to the wake timeout for reaching a wanted state, in ms: a drain, or the wait in the start queue. */
const APPLY_SLACK_MS = 30_000;
/** Longer than the timeout for the mail server. */
const MAIL_DEADLINE_MS = 15_000;
/** For a whole push or clone. The host ends stalled transfers much earlier. */
const GIT_DEADLINE_MS = 3_600_000;

const CRON_REFUSALS = ['cron_not_found', 'transition_conflict', 'app_unavailable'] as const;

/** Calls the host. Methods throw a `Problem` `host_unavailable` when it does not answer in time. */
export class HostClient {
  readonly deploys: Deploys;
  readonly source: Source;
  readonly storage: Storage;
  readonly buckets: Buckets;
  readonly workflows: Workflows;
  readonly alerts: Alerts;
  readonly telemetry: Telemetry;
  readonly uploads: Uploads;
  readonly previews: Previews;
  readonly snapshots: Snapshots;
  readonly #env: Bindings;
  readonly #host: HostConnection;

  constructor(env: Bindings) {
    this.#env = env;
    this.#host = new HostConnection(env);
    this.deploys = new Deploys(this.#host);
    this.source = new Source(this.#host);
    this.storage = new Storage(this.#host);
    this.buckets = new Buckets(this.#host);
    this.workflows = new Workflows(this.#host);
    this.alerts = new Alerts(this.#host);
    this.telemetry = new Telemetry(this.#host);
    this.uploads = new Uploads(this.#host);
    this.previews = new Previews(this.#host);
    this.snapshots = new Snapshots(this.#host);
  }

  /** Returns a client of the same host that calls `onChange` before each call that may change something. */
  watched(onChange: () => void): HostClient {
    const { HOST } = this.#env;
    const fetch: Fetcher['fetch'] = (input, init) => {
      if (init?.method !== 'GET') onChange();
      return HOST.fetch(input, init);
    };
    return new HostClient({ ...this.#env, HOST: { fetch } as Fetcher });
  }

  get #applyDeadlineMs(): number {
    return Number(this.#env.RUNNER_WAKE_TIMEOUT_S) * 1000 + APPLY_SLACK_MS;
  }

  /** Sends an app's whole wanted state; answers when it is reached or has failed. @throws {StaleGeneration} */
  async apply(wanted: WantedApp): Promise<Applied> {
    const options = { body: wanted, deadlineMs: this.#applyDeadlineMs };
    return this.#host.json('PUT /apps/:id', [wanted.id], options);
  }

  /** Returns the current state of an app; null when the host does not know it. */
  async app(id: string): Promise<ListedApp | null> {
    const response = await this.#host.call('GET /apps/:id', [id], { missing: true });
    return response.status === 404 ? null : response.json();
  }

  /** Stops an app and moves its data to the trash. @throws {StaleGeneration} */
  async delete(id: string, generation: number): Promise<void> {
    await this.#host.call('DELETE /apps/:id', [id], {
      query: { generation },
      deadlineMs: this.#applyDeadlineMs,
    });
  }

  async inventory(): Promise<HostInventory> {
    return this.#host.json('GET /apps', []);
  }

  /** Returns the crons of an app's live release. */
  async crons(appId: string): Promise<Result<'crons.list'>['items']> {
    return this.#host.json('GET /apps/:id/crons', [appId]);
  }

  /**
   * Runs a cron through a process of the app.
   * @throws {Problem} when there is no such cron or no process, or it is running already
   */
  async runCron(appId: string, cron: string): Promise<Result<'crons.run'>> {
    const options = { body: { cron }, refusals: CRON_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    return this.#host.json('POST /apps/:id/crons/run', [appId], options).catch(maybeDone);
  }

  /** Returns an app's secrets without their values. */
  async secrets(appId: string): Promise<HostCalls['GET /apps/:id/secrets']['answer']> {
    return this.#host.json('GET /apps/:id/secrets', [appId]);
  }

  /** Sets and deletes secrets, and restarts the app with them if it runs. @throws {Problem} `quota_exceeded` */
  async changeSecrets(
    appId: string,
    changes: SecretChanges,
  ): Promise<HostCalls['PATCH /apps/:id/secrets']['answer']> {
    const refusals = ['quota_exceeded', 'invalid_input'] as const;
    const options = { body: changes, refusals, deadlineMs: this.#applyDeadlineMs };
    return this.#host.json('PATCH /apps/:id/secrets', [appId], options).catch(maybeDone);
  }

  /** Returns why the host cannot write: its disk is full; null when it is not. */
  async diskFull(): Promise<string | null> {
    const { full } = await this.#host.json('GET /disk', []);
    return full && sentence(full);
  }

  /** Returns the storage resources of these apps. */
  async places(appIds: string[]): Promise<KeptPlaces[]> {
    return this.#host.json('POST /places', [], { body: appIds });
  }

  /** Returns a file of the API reference viewer, compressed with gzip. */
  async viewerFile(file: string): Promise<Response> {
    return this.#host.call('GET /viewer', [], { query: { file } });
  }

  /** Returns the host's metrics. */
  async stats(): Promise<HostStats> {
    return this.#host.json('GET /stats', []);
  }

  /** Returns the settings that the host was started with. */
  async settings(): Promise<Result<'admin.settings'>> {
    return this.#host.json('GET /settings', []);
  }

  /** Looks up the DNS of a hostname that an app has or requests. @throws {Problem} `app_not_found`, `rate_limited` */
  async lookUpDomain(appId: string, hostname: string): Promise<DomainLookup> {
    const refusals = ['app_not_found', 'rate_limited'] as const;
    const options = { query: { hostname }, refusals, deadlineMs: 3 * DOMAIN_LOOKUP_MS };
    return this.#host.json('GET /apps/:id/domain', [appId], options);
  }

  /**
   * Sends an e-mail.
   * @param owner the sending account; accounts take turns in the queue
   * @returns why it was not sent; null when it was
   */
  async mail(mail: Mail, owner: string): Promise<string | null> {
    const body = { mail, owner };
    return (await this.#host.json('POST /mail', [], { body, deadlineMs: MAIL_DEADLINE_MS })).problem;
  }

  /** Asks the external control UI through the host for a key's rights. Returns its response unchanged. */
  async askControlUi(question: { slug: string; key: string; need: Role }): Promise<Response> {
    return this.#host.send(
      'POST /ui/git-auth',
      [],
      '',
      JSON.stringify(question),
      AbortSignal.timeout(CALL_DEADLINE_MS),
      {
        'content-type': 'application/json',
      },
    );
  }

  /**
   * Forwards a git request with `body`. Reads neither body nor response. A push keeps its content encoding; a fetch is already
   * decompressed.
   */
  async git(
    request: Request,
    to: {
      appId: string;
      service: string;
      search: string;
      slug: string;
      role: NonNullable<Access['role']>;
      body: ReadableStream<Uint8Array> | null;
    },
  ): Promise<Response> {
    const headers: Record<string, string> = { 'x-cellar-role': to.role, 'x-cellar-slug': to.slug };
    const coded = to.service === 'git-receive-pack' ? ['content-encoding'] : [];
    for (const name of ['content-type', 'git-protocol', 'accept', ...coded]) {
      const value = request.headers.get(name);
      if (value !== null) headers[name] = value;
    }
    const name = request.method === 'GET' ? 'GET /git/:id/:refs' : 'POST /git/:id/:service';
    const words = [to.appId, to.service];
    const response = await this.#host.send(
      name,
      words,
      to.search,
      to.body,
      AbortSignal.timeout(GIT_DEADLINE_MS),
      headers,
    );
    if (response.status === errorCodes[NO_ROOM].status)
      throw new Problem(NO_ROOM, detailOf(await response.text()));
    return response;
  }
}
