// The connections of apps to repositories on Git hosts: when the repositories are fetched, and with which keys.
import { randomBytes } from 'node:crypto';
import {
  ANY_REF,
  type ConnectionSettings,
  type DeliveryOutcome,
  type HookDelivery,
  type HostConnection,
} from '../../handlers/contract/source/connections.ts';
import type { Pull } from '../../handlers/contract/source/pulls.ts';
import { parseRemote } from '../../handlers/contract/source/remote.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { SourceRow, StoredSource } from '../../sqlite/host/source/connections.ts';
import type { Apps } from '../apps/apps.ts';
import type { Secrets } from '../apps/secrets.ts';
import { type ChangeMainOptions, changeMain } from '../builds/source/change-main.ts';
import type { FetchFrom, Imports } from '../builds/source/import.ts';
import type { DiskWatch } from '../disk/disk-watch.ts';
import { DEPLOY_REF } from '../git/repository.ts';
import { resolveCommit } from '../git/source.ts';
import { log, reason } from '../log.ts';
import { noSuchApp, Refusal, requireRoom } from '../refusal.ts';
import { fingerprints, makeDeployKey } from './keys.ts';
import { type OpenConnection, Pulls, type PullsOptions } from './pulls/pulls.ts';
import { isTemporaryRefusal, REFUSAL_RETRY_MS } from './temporary-refusals.ts';

/** The name under which the keys of a connection are encrypted. No secret of an app can have this name. */
const SEALED = ' connection';
/** Maximum fetches that begin in one second, so that thousands of connections do not delay a start of Cellar. */
const DUE_AT_ONCE = 20;
/**
 * Waits before further attempts of a fetch that failed, or that did not find the announced commit, in ms. After the last
 * one, only the next delivery or poll starts a fetch.
 */
const RETRIES_MS = [10_000, 60_000, 600_000];
const SHOWN_DELIVERIES = 20;
const SECRET_BYTES = 32;

export interface SourcesOptions
  extends ChangeMainOptions,
    Pick<PullsOptions, 'previews' | 'reachable' | 'urlOf'> {
  store: HostStore;
  disk: DiskWatch;
  secrets: Secrets;
  imports: Imports;
}

/** What a connection keeps encrypted. */
interface Keys {
  privateKey: string;
  /** Signs the deliveries of the webhook. */
  secret: string;
  token: string | null;
}

/** The connections of all apps. */
export class Sources {
  readonly #options: SourcesOptions;
  readonly #pulls: Pulls;
  /** Fetches under way, by app. */
  readonly #running = new Map<string, Promise<void>>();
  /** The newest commit that a delivery announced and no fetch has found yet, by app. */
  readonly #announced = new Map<string, string>();
  readonly #ending = new AbortController();

  constructor(options: SourcesOptions) {
    this.#options = options;
    this.#pulls = new Pulls({
      ...options,
      connection: (appId) => this.#opened(this.#require(appId)),
    });
  }

  /** Returns a connection, as the API shows it. @throws {Refusal} `source_not_connected` */
  get(appId: string): HostConnection {
    const { source, lastFetch, dueAt } = this.#require(appId);
    const { known_hosts, tip: _, ...shown } = source;
    return {
      ...shown,
      host_keys: fingerprints(known_hosts),
      last_fetch: lastFetch,
      next_fetch_at: dueAt === null ? null : new Date(Math.max(dueAt, 1)).toISOString(),
      deliveries: this.#options.store.sources.deliveries(appId, SHOWN_DELIVERIES),
      pulls: this.#pulls.list(appId),
    };
  }

  /**
   * Connects an app, or changes its connection. The keys and the pull requests of a connection to the same address are kept.
   * @returns the connection, with the key that signs its deliveries
   * @throws {Refusal} `app_not_found`
   */
  async connect(appId: string, settings: ConnectionSettings): Promise<HostConnection & { secret: string }> {
    const { store, secrets, apps } = this.#options;
    const app = apps.get(appId);
    if (app === undefined) throw noSuchApp();
    const { secret: givenSecret, token: givenToken, ...asked } = settings;
    const remote = parseRemote(settings.url)!;
    const before = store.sources.find(appId);
    if (before !== undefined && before.source.url !== remote.url) await this.#pulls.forget(appId);
    const row = store.sources.find(appId);
    const same = row?.source.url === remote.url ? row : undefined;
    const known = same && this.#keys(same);
    const made = known ? null : makeDeployKey(`cellar-${app.wanted.slug}`);
    const keys: Keys = {
      privateKey: known?.privateKey ?? made!.privateKey,
      secret: givenSecret ?? known?.secret ?? randomBytes(SECRET_BYTES).toString('hex'),
      token: givenToken ?? known?.token ?? null,
    };
    const isAlike = same?.source.branch === asked.branch && same.source.deploy_on === asked.deploy_on;
    const source: StoredSource = {
      ...(isAlike && same.source.tip && { tip: same.source.tip }),
      ...asked,
      url: remote.url,
      has_token: keys.token !== null,
      deploy_key: same?.source.deploy_key ?? made!.publicKey,
      known_hosts: same?.source.known_hosts ?? [],
    };
    // A fetch over SSH fails until the new deploy key is added to the repository. Polling repeats the fetch anyway.
    const isReady = remote.kind === 'https' || same !== undefined || source.poll_minutes !== null;
    const dueAt = source.deploy_on === 'manual' || !isReady ? null : Date.now();
    this.#announced.delete(appId);
    store.sources.save(appId, source, secrets.seal(appId, SEALED, JSON.stringify(keys)), dueAt);
    return { ...this.get(appId), secret: keys.secret };
  }

  /** Removes the connection of an app, if any, with the previews of its pull requests. */
  async disconnect(appId: string): Promise<void> {
    await this.#pulls.forget(appId);
    this.#announced.delete(appId);
    this.#options.store.sources.delete(appId);
  }

  /** Returns the key that signs deliveries. @throws {Refusal} `source_not_connected` */
  webhookKey(appId: string): string {
    return this.#keys(this.#require(appId)).secret;
  }

  /**
   * Records deliveries whose signatures the caller has checked. However many pushes come at once, one fetch follows.
   * @returns the outcome of each
   * @throws {Refusal} `source_not_connected`
   */
  delivered(appId: string, deliveries: HookDelivery[]): DeliveryOutcome[] {
    const { store } = this.#options;
    const { source } = this.#require(appId);
    const take = (delivery: HookDelivery): DeliveryOutcome => {
      const isPush = concerns(source, delivery.ref);
      const pull = delivery.pull !== null && this.#pulls.isNews(appId, delivery.pull) ? delivery.pull : null;
      const result = isPush || pull !== null ? 'queued' : 'ignored';
      if (!store.sources.addDelivery(appId, delivery, result)) return 'repeated';
      if (isPush) {
        store.sources.want(appId, Date.now());
        if (delivery.after !== null) this.#announced.set(appId, delivery.after);
      }
      if (pull !== null) this.#pulls.take(appId, pull);
      return result;
    };
    return store.transaction(() => {
      const outcomes = deliveries.map(take);
      // Once for all deliveries: this reads a thousand rows.
      store.sources.trimDeliveries(appId);
      if (deliveries.some(({ pull }) => pull !== null)) this.#pulls.trim(appId);
      return outcomes;
    });
  }

  /**
   * Approves the newest commit of a pull request, which then gets a preview.
   * @param sha the commit that was reviewed
   * @throws {Refusal} `source_not_connected`, `pull_request_not_found`, `commit_conflict`
   */
  approve(appId: string, number: number, sha: string): Pull {
    return this.#pulls.approve(appId, number, sha);
  }

  /**
   * Fetches the repository of an app, and deploys what is new.
   * @param ref a branch, a tag or a commit; null: what the connection deploys
   * @throws {Refusal} `source_not_connected`, `app_not_found`, `insufficient_storage`, `import_failed`, `commit_conflict`,
   *   `rate_limited`
   */
  async sync(
    appId: string,
    ref: string | null,
    signal: AbortSignal,
  ): Promise<{ sha: string; deploy_id: string | null }> {
    const { store, disk } = this.#options;
    const row = this.#require(appId);
    requireRoom(disk);
    try {
      const synced = await this.#fetch(row, { ref, onlyNew: false }, signal);
      this.#record(row, { sha: synced.sha, error: null }, 0);
      return synced;
    } catch (error) {
      if (!signal.aborted)
        this.#record(row, { sha: null, error: reason(error) }, store.sources.find(appId)?.attempts ?? 0);
      throw error;
    }
  }

  /** Starts the fetches that are due. Call it about once a second. @param now in ms since 1970 */
  tick(now = Date.now()): void {
    if (this.#ending.signal.aborted) return;
    this.#pulls.tick(now);
    const due = this.#options.store.sources.due(now, DUE_AT_ONCE + this.#running.size);
    for (const row of due.filter(({ appId }) => !this.#running.has(appId))) {
      const running = this.#run(row)
        .catch((error: unknown) =>
          log('warn', 'a fetch of a repository could not be recorded', {
            app: row.appId,
            error: reason(error),
          }),
        )
        .finally(() => this.#running.delete(row.appId));
      this.#running.set(row.appId, running);
    }
  }

  /** Interrupts all fetches. They stay due for the next start of the host. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    await Promise.all([...this.#running.values(), this.#pulls.stop()]);
  }

  async #run(row: SourceRow): Promise<void> {
    const { appId, dueAt, attempts } = row;
    const { sources } = this.#options.store;
    const poll = row.source.poll_minutes === null ? null : row.source.poll_minutes * 60_000;
    const announced = this.#announced.get(appId);
    let retry: number | null = null;
    try {
      requireRoom(this.#options.disk);
      const { sha } = await this.#fetch(row, { ref: null, onlyNew: true }, this.#ending.signal);
      // A delivery may arrive before each server of the Git host has the push.
      const isBehind = announced !== undefined && announced !== sha;
      if (isBehind) retry = RETRIES_MS[attempts] ?? null;
      // After the last retry, the commit was probably replaced by another push.
      if (retry === null && this.#announced.get(appId) === announced) this.#announced.delete(appId);
      this.#record(row, { sha, error: null }, retry === null ? 0 : attempts + 1);
    } catch (error) {
      if (this.#ending.signal.aborted) return;
      const isRefused = isTemporaryRefusal(error);
      this.#record(row, { sha: null, error: reason(error) }, attempts + (isRefused ? 0 : 1));
      retry = isRefused ? REFUSAL_RETRY_MS : (RETRIES_MS[attempts] ?? null);
    }
    const wait = retry === null || poll === null ? (retry ?? poll) : Math.min(retry, poll);
    sources.postpone(appId, dueAt, wait === null ? null : Date.now() + wait);
  }

  #record(row: SourceRow, result: { sha: string | null; error: string | null }, attempts: number): void {
    this.#options.store.sources.fetched(row, { at: new Date().toISOString(), ...result }, attempts);
  }

  /**
   * Fetches a commit, and moves main to it.
   * @param ref a branch, a tag or a commit; null: what the connection deploys
   * @param onlyNew true: main stays if the commit is still the connection's `tip`
   */
  async #fetch(
    row: SourceRow,
    { ref, onlyNew }: { ref: string | null; onlyNew: boolean },
    signal: AbortSignal,
  ): Promise<{ sha: string; deploy_id: string | null }> {
    const { appId, source } = row;
    const { store, imports, apps } = this.#options;
    requireApp(apps, appId);
    const { remote, credentials } = this.#opened(row);
    const from: Omit<FetchFrom, 'have'> = {
      ...{ remote, credentials },
      refs: ref === null ? wantedRefs(source) : namedRefs(ref),
    };
    let sha = '';
    const deploy = await imports.inTurn(apps.ownerOf(appId), signal, (turn) => {
      requireApp(apps, appId);
      return changeMain(this.#options, appId, 'push', async (repository) => {
        const before = await resolveCommit(repository, DEPLOY_REF);
        const tip = store.sources.find(appId)?.source.tip;
        // After a sync of another commit, main is not at the tip, but the repository may still have the tip's commit.
        const have = tip && onlyNew ? await resolveCommit(repository, tip) : null;
        const fetched = await turn.fetch(repository, { ...from, have: have ?? before });
        if (store.sources.find(appId)?.source.url !== source.url)
          throw new Refusal(
            409,
            'commit_conflict',
            'the connection to the repository was removed or changed meanwhile; sync again',
          );
        sha = fetched.sha;
        this.#pin(row, fetched.knownHosts);
        return sha === before || (onlyNew && sha === tip) ? null : { sha, before };
      });
    });
    if (ref === null) store.sources.setTip(row, sha);
    return { sha, deploy_id: deploy?.fact.id ?? null };
  }

  /** Returns how to reach a connected repository. */
  #opened(row: SourceRow): OpenConnection {
    const { privateKey, token } = this.#keys(row);
    const { url, known_hosts } = row.source;
    return {
      remote: parseRemote(url)!,
      credentials: { privateKey, token, knownHosts: known_hosts },
      pin: (found) => this.#pin(row, found),
    };
  }

  /** Stores the keys of the repository's SSH server, if none are stored yet. */
  #pin(row: SourceRow, knownHosts: string[]): void {
    const { sources } = this.#options.store;
    const known = sources.find(row.appId)?.source.known_hosts.length;
    if (known === 0 && knownHosts.length > 0) sources.pin(row, knownHosts);
  }

  #keys({ appId, sealed }: SourceRow): Keys {
    return JSON.parse(this.#options.secrets.open(appId, SEALED, sealed)) as Keys;
  }

  #require(appId: string): SourceRow {
    const row = this.#options.store.sources.find(appId);
    if (row === undefined)
      throw new Refusal(404, 'source_not_connected', 'the app is not connected to a repository elsewhere');
    return row;
  }
}

function requireApp(apps: Apps, appId: string): void {
  if (!apps.get(appId)) throw noSuchApp();
}

/** Whether a push to a ref may change what is deployed. */
function concerns({ deploy_on, branch }: StoredSource, ref: string | null): boolean {
  if (deploy_on === 'manual' || ref === null) return false;
  if (ref === ANY_REF) return true;
  return deploy_on === 'tags' ? ref.startsWith('refs/tags/') : ref === `refs/heads/${branch}`;
}

function wantedRefs({ deploy_on, branch }: StoredSource): string[] {
  return deploy_on === 'tags' ? ['tags'] : [`refs/heads/${branch}`];
}

/** Returns the refs that a name may stand for: a tag, then a branch. A full hash stands for itself. */
function namedRefs(name: string): string[] {
  return /^[0-9a-f]{40}$/.test(name) ? [name] : [`refs/tags/${name}`, `refs/heads/${name}`];
}
