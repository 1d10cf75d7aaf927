// Pull requests of connected repositories: makes their previews, and reports these to the Git host.
import { type Pull, type PullEvent, SHOWN_PULLS } from '../../../handlers/contract/source/pulls.ts';
import type { Remote } from '../../../handlers/contract/source/remote.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { PullRow, StoredPull } from '../../../sqlite/host/source/pulls.ts';
import { isInterrupted } from '../../builds/deploy/deploy.ts';
import type { FetchFrom } from '../../builds/source/import.ts';
import type { PublicAddresses } from '../../isolation/private-networks.ts';
import { log, reason } from '../../log.ts';
import type { Previews } from '../../previews/previews.ts';
import { Refusal } from '../../refusal.ts';
import { isTemporaryRefusal, REFUSAL_RETRY_MS } from '../temporary-refusals.ts';
import { type BringOptions, bringPull, forgetPull, pullRef } from './bring-pull.ts';
import { type GitHostApi, gitHostApi, repositoryName } from './git-host-api.ts';
import { isUnreported, report } from './pull-report.ts';

/** Maximum pull requests on which work starts in one second. */
const DUE_AT_ONCE = 20;
/** Maximum pull requests that are kept for an app. */
const MOST_PULLS = 500;
/** Interval of checks of a preview's deploy, in ms. */
const BUILDING_MS = 1_000;
/** Waits before further attempts, in ms. When all have failed, only another delivery or an approval starts a new attempt. */
const RETRIES_MS = [10_000, 60_000, 600_000];
/** Time since a pull request's last change after which refusals by this machine count as failed attempts, in ms. */
const REFUSED_MS = 24 * 3_600_000;

/** How to reach the connected repository of an app. */
export interface OpenConnection {
  remote: Remote;
  credentials: FetchFrom['credentials'];
  /** Stores the keys of the repository's SSH server, if none are stored yet. */
  pin: (knownHosts: string[]) => void;
}

export interface PullsOptions extends BringOptions {
  store: HostStore;
  previews: Previews;
  reachable: PublicAddresses;
  /** Returns the address of an app, by its slug; null before the addresses are known. */
  urlOf: (slug: string) => string | null;
  /** @throws {Refusal} `source_not_connected` */
  connection: (appId: string) => OpenConnection;
}

/** The pull requests of all apps. */
export class Pulls {
  readonly #options: PullsOptions;
  /** Work under way, by app: one pull request of an app at a time. */
  readonly #running = new Map<string, { done: Promise<void>; ending: AbortController }>();
  readonly #ending = new AbortController();

  constructor(options: PullsOptions) {
    this.#options = options;
  }

  /** Returns the pull requests of an app, as the API shows them. */
  list(appId: string): Pull[] {
    return this.#options.store.pulls.list(appId, SHOWN_PULLS).map((row) => this.#shown(row));
  }

  /** Whether a delivery concerns the connected repository, and is not older than the stored pull request. */
  isNews(appId: string, { repository, number, changed_at, is_open }: PullEvent): boolean {
    const { store, connection } = this.#options;
    if (repositoryName(connection(appId).remote).toLowerCase() !== repository.toLowerCase()) return false;
    const known = store.pulls.find(appId, number)?.pull;
    // An app that moves to another host takes along only some of its pull requests. So the preview is looked for, too.
    if (known === undefined)
      return is_open || this.#options.previews.ofSource(appId, pullRef(number)) !== null;
    return known.state === 'closed' ? known.changed_at < changed_at : known.changed_at <= changed_at;
  }

  /** Stores what a delivery says, in the caller's transaction. Call it only if `isNews` returns true. */
  take(appId: string, { repository: _, is_open, ...event }: PullEvent): void {
    const { store } = this.#options;
    const row = store.pulls.find(appId, event.number);
    const known = row?.pull;
    const isSame = is_open && known?.sha === event.sha && known.state !== 'closed';
    const pull: StoredPull = {
      approved_sha: known?.approved_sha ?? null,
      reported: known?.reported ?? null,
      comment: known?.comment ?? null,
      ...event,
      state: is_open ? 'queued' : 'closed',
      attempts: 0,
      error: null,
      updated_at: new Date().toISOString(),
      // A new title or label changes nothing of the preview.
      ...(isSame && { state: known.state, error: known.error, updated_at: known.updated_at }),
    };
    store.pulls.save(appId, pull, isSame && row?.dueAt === null ? null : Date.now());
  }

  /** Forgets the oldest pull requests above `MOST_PULLS`. Call it after deliveries. */
  trim(appId: string): void {
    this.#options.store.pulls.trim(appId, MOST_PULLS);
  }

  /**
   * Approves the newest commit of a pull request, which then gets a preview.
   * @param sha the commit that was reviewed
   * @throws {Refusal} `pull_request_not_found`; `commit_conflict` when there is a newer commit
   */
  approve(appId: string, number: number, sha: string): Pull {
    const { store, connection } = this.#options;
    connection(appId);
    const row = store.pulls.find(appId, number);
    if (row === undefined || row.pull.state === 'closed')
      throw new Refusal(404, 'pull_request_not_found', `there is no open pull request ${number}`);
    const { pull } = row;
    if (sha !== pull.sha)
      throw new Refusal(
        409,
        'commit_conflict',
        `pull request ${number} is at another commit now: ${pull.sha}`,
      );
    const updated_at = new Date().toISOString();
    const approved: StoredPull = { ...pull, approved_sha: pull.sha, attempts: 0, updated_at };
    if (pull.state === 'waiting' || pull.state === 'failed')
      Object.assign(approved, { state: 'queued', error: null });
    store.pulls.save(appId, approved, Date.now());
    return this.#shown({ ...row, pull: approved });
  }

  /** Removes the pull requests of an app with their previews. Call it before the connection is removed. */
  async forget(appId: string): Promise<void> {
    const { store, previews } = this.#options;
    const rows = store.pulls.list(appId, MOST_PULLS);
    store.pulls.delete(appId);
    const running = this.#running.get(appId);
    // Interrupted, because a fetch may take minutes.
    running?.ending.abort(new Error('the app was disconnected'));
    await running?.done;
    for (const { pull } of rows.filter((row) => row.pull.state !== 'closed')) {
      await previews.branchDeleted(appId, pullRef(pull.number));
      await forgetPull(this.#options, appId, pull.number);
    }
  }

  /** Starts the work that is due. Call it about once a second. @param now in ms since 1970 */
  tick(now = Date.now()): void {
    if (this.#ending.signal.aborted) return;
    for (const row of this.#options.store.pulls.due(now, [...this.#running.keys()], DUE_AT_ONCE)) {
      const ending = new AbortController();
      const done = this.#step(row, AbortSignal.any([this.#ending.signal, ending.signal]))
        .catch((error: unknown) => this.#failed(row, error))
        .finally(() => this.#running.delete(row.appId));
      this.#running.set(row.appId, { done, ending });
    }
  }

  /** Interrupts all work. It continues at the next start of the host. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  /** Does the next piece of work on a pull request, and reports its state to the Git host. */
  async #step(row: PullRow, signal: AbortSignal): Promise<void> {
    const { appId } = row;
    if (!this.#options.apps.get(appId)) return this.#save(row, row.pull, null);
    let pull = row.pull;
    if (pull.state === 'closed') await this.#remove(appId, pull.number);
    if (pull.state === 'queued' && !(await this.#isTrusted(appId, pull, signal)))
      pull = { ...pull, state: 'waiting', attempts: 0 };
    if (pull.state === 'queued') {
      // Reports before the fetch, which may take minutes. If this report fails, the next one comes after the fetch.
      const told = await this.#report(appId, pull, signal).catch(() => pull);
      await this.#deploy(appId, told, signal);
      return this.#save(row, { ...told, state: 'building', attempts: 0 }, Date.now() + BUILDING_MS);
    }
    if (pull.state === 'building') pull = this.#built(appId, pull);
    if (pull.state === 'building') return this.#save(row, pull, Date.now() + BUILDING_MS);
    // Saves the progress first: the report to the Git host may fail.
    this.#save(row, pull, row.dueAt);
    const reached = { ...row, pull };
    try {
      const told = await this.#report(appId, pull, signal);
      this.#save(reached, { ...told, attempts: 0, error: pull.state === 'failed' ? pull.error : null }, null);
    } catch (error) {
      this.#failed(reached, error);
    }
  }

  async #remove(appId: string, number: number): Promise<void> {
    await this.#options.previews.branchDeleted(appId, pullRef(number));
    await forgetPull(this.#options, appId, number);
  }

  /** Whether a commit may be built without asking a person. After several failed attempts to find out, the answer is no. */
  async #isTrusted(appId: string, pull: StoredPull, signal: AbortSignal): Promise<boolean> {
    if (pull.approved_sha === pull.sha) return true;
    if (!pull.is_inside) return false;
    if (pull.is_member !== null) return pull.is_member;
    const api = this.#apiOf(appId, pull);
    if (api === null) return false;
    return api.isMember(pull.author, signal).catch((error: unknown) => {
      if (pull.attempts < RETRIES_MS.length) throw error;
      return false;
    });
  }

  async #deploy(appId: string, pull: StoredPull, signal: AbortSignal): Promise<void> {
    const { connection, previews } = this.#options;
    const opened = connection(appId);
    opened.pin(await bringPull(this.#options, appId, pull, opened, signal));
    // The pull request may have been closed, or have a newer commit: then the next step handles that.
    const now = this.#options.store.pulls.find(appId, pull.number)?.pull;
    if (now?.sha === pull.sha && now.state === 'queued')
      await previews.push(appId, pullRef(pull.number), pull.sha);
  }

  /** Returns a pull request with the state that its preview's deploy has now. */
  #built(appId: string, pull: StoredPull): StoredPull {
    const deploy = this.#options.previews.ofSource(appId, pullRef(pull.number))?.deploy;
    if (deploy === undefined) return { ...pull, state: 'failed', error: 'the preview was removed' };
    // Without a deploy, the preview was interrupted before the deploy was recorded. `Previews` deploys it, and repeats an
    // interrupted deploy.
    if (
      deploy === null ||
      isInterrupted(deploy) ||
      deploy.status === 'queued' ||
      deploy.status === 'building'
    )
      return pull;
    if (deploy.status === 'live') return { ...pull, state: 'live', error: null };
    return { ...pull, state: 'failed', error: deploy.error ?? `the deploy was ${deploy.status}` };
  }

  async #report(appId: string, pull: StoredPull, signal: AbortSignal): Promise<StoredPull> {
    const api = this.#apiOf(appId, pull);
    const app = this.#options.apps.get(appId)?.wanted;
    if (api === null || app === undefined || !isUnreported(pull)) return pull;
    return report(api, app, pull, this.#urlOf(appId, pull), signal);
  }

  /** Returns the API of the Git host; null without a token. */
  #apiOf(appId: string, { host }: StoredPull): GitHostApi | null {
    const { connection, reachable } = this.#options;
    const { remote, credentials } = connection(appId);
    const { token } = credentials;
    return token === null ? null : gitHostApi({ host, remote, token, reachable });
  }

  /**
   * Records a failed step, and retries it a few times. Retries a step that this machine refused each minute for a day. After the
   * last attempt, a preview that was not made counts as failed.
   */
  #failed(row: PullRow, failure: unknown): void {
    if (this.#ending.signal.aborted) return;
    const { pull, appId } = row;
    const words = reason(failure);
    log('info', 'a pull request could not be handled', { app: appId, number: pull.number, error: words });
    const isRefused = isTemporaryRefusal(failure) && Date.now() - Date.parse(pull.updated_at) < REFUSED_MS;
    const wait = isRefused ? REFUSAL_RETRY_MS : RETRIES_MS[pull.attempts];
    const attempts = pull.attempts + (isRefused ? 0 : 1);
    // Keeps the preview's error: it matters more than the failure to report it.
    if (pull.state === 'failed') this.#save(row, { ...pull, attempts }, nextAt(wait));
    // The next step reports the failure to the Git host.
    else if (wait === undefined && pull.state === 'queued')
      this.#save(row, { ...pull, state: 'failed', error: words, attempts: 0 }, Date.now());
    else this.#save(row, { ...pull, error: words, attempts }, nextAt(wait));
  }

  /** Saves a pull request, unless a delivery or a person has changed it meanwhile: then that change is handled first. */
  #save({ appId, pull: before }: PullRow, pull: StoredPull, dueAt: number | null): void {
    const { store } = this.#options;
    const now = store.pulls.find(appId, before.number);
    if (now === undefined) return;
    if (JSON.stringify(now.pull) === JSON.stringify(before)) store.pulls.save(appId, pull, dueAt);
    // The stored pull request is newer, except for what was reported.
    else
      store.pulls.save(
        appId,
        { ...now.pull, reported: pull.reported, comment: pull.comment },
        now.dueAt ?? Date.now(),
      );
  }

  #shown({ appId, pull }: PullRow): Pull {
    const { number, title, author, sha, state, error, updated_at } = pull;
    return { number, title, author, sha, state, url: this.#urlOf(appId, pull), error, updated_at };
  }

  /** Returns the address of a preview that serves; null when there is none. */
  #urlOf(appId: string, { number }: StoredPull): string | null {
    const { previews, urlOf } = this.#options;
    const preview = previews.ofSource(appId, pullRef(number));
    return preview?.serves ? urlOf(preview.slug) : null;
  }
}

function nextAt(wait: number | undefined): number | null {
  return wait === undefined ? null : Date.now() + wait;
}
