// The HOST capability as a typed client: apps and the host itself here, each other subject in a class of its own.

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

/** Time for reaching a wanted state beyond that of a wake, in ms: it may need a drain, or a wait for a turn to start. */
const APPLY_SLACK_MS = 30_000;
/** The mail server itself has less. */
const MAIL_DEADLINE_MS = 15_000;
/** A whole push or clone. What stalls is ended much earlier by the host. */
const GIT_DEADLINE_MS = 3_600_000;

const CRON_REFUSALS = ['cron_not_found', 'transition_conflict', 'app_unavailable'] as const;

/** Talks to the host. Methods throw a `Problem` `host_unavailable` when it cannot be reached in time. */
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

  /** The same host. `onChange` is called before each call that may change something. */
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

  /**
   * Sends the whole wanted state of an app; answers when it is reached or has failed.
   * @throws {StaleGeneration}
   */
  async apply(wanted: WantedApp): Promise<Applied> {
    const options = { body: wanted, deadlineMs: this.#applyDeadlineMs };
    return this.#host.json('PUT /apps/:id', [wanted.id], options);
  }

  /** One app as it is now; null when the host does not know it. */
  async app(id: string): Promise<ListedApp | null> {
    const response = await this.#host.call('GET /apps/:id', [id], { missing: true });
    return response.status === 404 ? null : response.json();
  }

  /**
   * Ends an app and moves its data to the trash.
   * @throws {StaleGeneration}
   */
  async delete(id: string, generation: number): Promise<void> {
    await this.#host.call('DELETE /apps/:id', [id], {
      query: { generation },
      deadlineMs: this.#applyDeadlineMs,
    });
  }

  async inventory(): Promise<HostInventory> {
    return this.#host.json('GET /apps', []);
  }

  /** The crons of an app's live release. */
  async crons(appId: string): Promise<Result<'crons.list'>['items']> {
    return this.#host.json('GET /apps/:id/crons', [appId]);
  }

  /** Has a process of the app run a cron. @throws {Problem} when there is no such cron or process, or it runs already */
  async runCron(appId: string, cron: string): Promise<Result<'crons.run'>> {
    const options = { body: { cron }, refusals: CRON_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    return this.#host.json('POST /apps/:id/crons/run', [appId], options).catch(maybeDone);
  }

  /** An app's secrets, without their values. */
  async secrets(appId: string): Promise<HostCalls['GET /apps/:id/secrets']['answer']> {
    return this.#host.json('GET /apps/:id/secrets', [appId]);
  }

  /**
   * Sets and deletes secrets, and has the app start again with them where it runs.
   * @throws {Problem} `quota_exceeded`
   */
  async changeSecrets(
    appId: string,
    changes: SecretChanges,
  ): Promise<HostCalls['PATCH /apps/:id/secrets']['answer']> {
    const refusals = ['quota_exceeded', 'invalid_input'] as const;
    const options = { body: changes, refusals, deadlineMs: this.#applyDeadlineMs };
    return this.#host.json('PATCH /apps/:id/secrets', [appId], options).catch(maybeDone);
  }

  /** Why the host could not write something just now: its disk is full; null when it is not. */
  async diskFull(): Promise<string | null> {
    const { full } = await this.#host.json('GET /disk', []);
    return full && sentence(full);
  }

  /** What each of these apps keeps. */
  async places(appIds: string[]): Promise<KeptPlaces[]> {
    return this.#host.json('POST /places', [], { body: appIds });
  }

  /** A file of the viewer of the API's reference, compressed with gzip. */
  async viewerFile(file: string): Promise<Response> {
    return this.#host.call('GET /viewer', [], { query: { file } });
  }

  /** The host's own figures. */
  async stats(): Promise<HostStats> {
    return this.#host.json('GET /stats', []);
  }

  /** The settings that the host was started with. */
  async settings(): Promise<Result<'admin.settings'>> {
    return this.#host.json('GET /settings', []);
  }

  /** Looks up where a hostname leads that an app has or wants. @throws {Problem} `app_not_found`, `rate_limited` */
  async lookUpDomain(appId: string, hostname: string): Promise<DomainLookup> {
    const refusals = ['app_not_found', 'rate_limited'] as const;
    const options = { query: { hostname }, refusals, deadlineMs: 3 * DOMAIN_LOOKUP_MS };
    return this.#host.json('GET /apps/:id/domain', [appId], options);
  }

  /**
   * Sends an e-mail.
   * @param owner the account that has it sent, which takes turns with others
   * @returns why it was not sent; null when it was
   */
  async mail(mail: Mail, owner: string): Promise<string | null> {
    const body = { mail, owner };
    return (await this.#host.json('POST /mail', [], { body, deadlineMs: MAIL_DEADLINE_MS })).problem;
  }

  /** Asks the outside control UI, through the host, what a key may do: its status and body as they came. */
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
   * Passes a git request on, with `body`; neither that nor the answer's is read here. A push keeps its content coding, and
   * the body of a fetch has none any more.
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
