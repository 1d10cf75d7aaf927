// Previews: releases of other branches, pull requests and uploaded versions, each with its own address and storage, for a week.
import { versionOf } from '../../handlers/contract/apps/versions.ts';
import type { DeployFact, HostPreview } from '../../handlers/contract/host/host-calls.ts';
import type { UploadedVersion } from '../../handlers/contract/host/host-releases.ts';
import { newId } from '../../handlers/contract/id.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import type { Apps } from '../apps/apps.ts';
import { branchName, isPreviewName, isSecondVersion, versionName } from '../apps/preview-app.ts';
import { type Deploy, isInterrupted } from '../builds/deploy/deploy.ts';
import type { DeployQueue } from '../builds/queue/queue.ts';
import type { DeployRequests } from '../builds/queue/requests.ts';
import type { Layout } from '../disk/data-directory.ts';
import { resolveCommit } from '../git/source.ts';
import { log, reason } from '../log.ts';
import { SerialQueues } from '../queues/serial-queue.ts';
import { Refusal } from '../refusal.ts';

/** Limit of an app's previews. Over it, the preview that expires first is removed. */
export const PREVIEWS = 10;
/** A preview is removed this long after its last push or upload, in ms. */
const KEPT_MS = 7 * 24 * 3_600_000;
/** Time between two searches for expired previews, in ms. */
const LOOK_MS = 60_000;
export const BRANCHES = 'refs/heads/';

export interface PreviewsOptions {
  store: HostStore;
  paths: Layout;
  apps: Apps;
  requests: DeployRequests;
  queue: DeployQueue;
}

export class Previews {
  readonly #options: PreviewsOptions;
  /** A queue of operations on each app's previews. */
  readonly #work = new SerialQueues();
  /** Restores that failed, by the preview's id. They are repeated once a minute. */
  readonly #unrestored = new Map<string, () => void>();
  #lookedAt = performance.now();

  constructor(options: PreviewsOptions) {
    this.#options = options;
  }

  /**
   * Resumes what was unfinished at the host's last end. Call it once at the start, when deploys are possible.
   * @param now in ms since 1970
   */
  start(now = Date.now()): void {
    for (const row of this.#options.store.previews.all()) {
      // `Splits` keeps and removes second versions, which get a share of the app's requests. Only interrupted deletions, and
      // those of missing apps, are resumed here.
      if (isSecondVersion(row) && !row.isDeleted && this.#options.apps.get(row.parentId)) continue;
      const isOver = row.isDeleted || row.expiresAt <= now || !this.#options.apps.get(row.parentId);
      this.#restore(row, () => (isOver ? this.#remove(row) : this.#resume(row)));
    }
  }

  /** Resumes what another host left unfinished. Call it when a preview has come from that host. */
  arrived(id: string): void {
    const row = this.#options.apps.get(id)?.preview;
    if (row && !isSecondVersion(row)) this.#restore(row, () => this.#resume(row));
  }

  #restore(row: PreviewRow, work: () => Promise<void>): void {
    this.#work.run(row.parentId, work).catch((error: unknown) => {
      this.#unrestored.set(row.id, () => this.#restore(row, work));
      log('warn', 'a preview could not be restored; Cellar tries again', {
        preview: row.name,
        error: reason(error),
      });
    });
  }

  /** Restores and removes previews, once a minute. Call it about once a second. @param now in ms since 1970 */
  tick(now = Date.now()): void {
    if (performance.now() - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = performance.now();
    const all = new Set(this.#options.store.previews.all().map(({ id }) => id));
    for (const [id, restore] of this.#unrestored) if (all.has(id)) restore();
    this.#unrestored.clear();
    this.expire(now).catch((error: unknown) =>
      log('warn', 'a preview could not be removed; Cellar tries again', { error: reason(error) }),
    );
  }

  /** Removes expired previews. @param now in ms since 1970 */
  async expire(now: number): Promise<void> {
    const over = () => this.#options.store.previews.all().filter(({ expiresAt }) => expiresAt <= now);
    const removeIfOver = async (id: string) => {
      // Checked again when its turn in the queue comes: a push before it may have renewed the preview.
      const row = over().find((each) => each.id === id);
      if (row) await this.#remove(row);
    };
    await Promise.all(over().map(({ id, parentId }) => this.#work.run(parentId, () => removeIfOver(id))));
  }

  /**
   * Deploys a commit of a branch or a pull request to its preview, created if needed. Resolves when the deploy is queued,
   * and the preview is synced to the disk.
   * @throws {Error} while the host stops, and when the preview cannot be written
   */
  push(appId: string, ref: string, sha: string): Promise<{ slug: string; deploy: Deploy }> {
    return this.#work
      .run(appId, async () => {
        const branch = branchIn(ref)!;
        const row = this.#renewed(appId, ref, () =>
          branchName(branch, (name) => this.#find(appId, name) !== undefined),
        );
        // The pusher is shown the preview's address, so the preview must be on disk.
        await this.#options.store.synced();
        const deploy = await this.#options.requests.commit({ appId: row.id, sha, ref, trigger: 'push' });
        return { slug: this.#options.apps.get(row.id)!.wanted.slug, deploy };
      })
      .finally(() => this.#makeRoom(appId));
  }

  /** Removes the preview of a branch or a pull request, if any. */
  async branchDeleted(appId: string, ref: string): Promise<void> {
    await this.#work.run(appId, async () => {
      const row = this.#options.apps.previews(appId).find(({ source }) => source === ref);
      if (row) await this.#remove(row);
    });
  }

  /**
   * Deploys an uploaded version to its preview: that of its alias, or a new one.
   * @param directory the version's directory, which must stay until the deploy has ended
   * @throws {Refusal} for an invalid alias, or another preview's name
   */
  upload(appId: string, version: UploadedVersion, directory: string): Promise<Deploy> {
    const { id, alias, message, tag, created_at, author, notes } = version;
    return this.#work
      .run(appId, async () => {
        if (alias !== '') this.#requireAlias(appId, alias);
        const source = alias === '' ? `version:${versionName(id)}` : `alias:${alias}`;
        const row = this.#renewed(appId, source, () => alias || versionName(id), id);
        const uploaded = { id, tag, message, created_at, directory, notes };
        return this.#options.requests.upload(row.id, uploaded, { message, author });
      })
      .finally(() => this.#makeRoom(appId));
  }

  /**
   * Call it when the deploy of an uploaded version to a preview has ended. Records the version if the deploy is live.
   * Removes a preview that never had a live release.
   */
  async uploaded(appId: string, version: UploadedVersion, deploy: Deploy): Promise<void> {
    await this.#work.run(appId, async () => {
      const row = this.#options.apps.previews(appId).find(({ id }) => id === deploy.fact.app_id);
      if (row === undefined) return;
      if (deploy.fact.status === 'live') this.#options.apps.renewPreview({ ...row, versionId: version.id });
      else if (this.#isEmpty(row)) await this.#remove(row);
    });
  }

  /** Returns the previews of an app, newest first, without second versions of splits. */
  list(appId: string): HostPreview[] {
    const rows = this.#options.apps
      .previews(appId)
      .filter((row) => !isSecondVersion(row))
      .reverse();
    return rows.map((row) => this.#shown(row));
  }

  /** Returns the preview of a ref, with its newest deploy; null when there is none. */
  ofSource(
    appId: string,
    source: string,
  ): { slug: string; serves: boolean; deploy: DeployFact | null } | null {
    const { apps } = this.#options;
    const row = apps.previews(appId).find((each) => each.source === source);
    if (row === undefined) return null;
    const { slug } = apps.get(row.id)!.wanted;
    return { slug, serves: !this.#isEmpty(row), deploy: this.#newest(row) ?? null };
  }

  /** Returns the log of a preview's newest deploy. @throws {Refusal} for an unknown preview, and one without a deploy */
  log(appId: string, name: string): { fact: DeployFact; text: string } {
    const { store } = this.#options;
    const row = this.#require(appId, name);
    const fact = this.#newest(row);
    if (fact === undefined) throw new Refusal(404, 'deploy_not_found', 'the preview was never deployed');
    return { fact, text: store.deploys.log(row.id, fact.id) ?? '' };
  }

  /**
   * Queues a deploy of a preview's release to its app.
   * @throws {Refusal} for an unknown preview, and one without a release
   */
  promote(appId: string, name: string, author: string): Deploy {
    const { apps, requests, store } = this.#options;
    const row = this.#require(appId, name);
    const live = apps.get(row.id)!.liveDeployId;
    const fact = live === null ? undefined : store.deploys.find(row.id, live);
    if (fact === undefined)
      throw new Refusal(409, 'release_unavailable', `the preview ${name} has no live release to promote`);
    const { sha, ref, message } = fact;
    const { versionId } = row;
    return requests.promote(
      appId,
      { name, appId: row.id, deployId: fact.id, versionId },
      { sha, ref, message, author: author || fact.author, version: versionOf(fact) },
    );
  }

  /** Removes a preview with its data. @throws {Refusal} for an unknown one */
  async delete(appId: string, name: string): Promise<void> {
    this.#require(appId, name);
    await this.#work.run(appId, async () => {
      const row = this.#find(appId, name);
      if (row) await this.#remove(row);
    });
  }

  /** Removes the previews of a deleted app. */
  async forget(appId: string): Promise<void> {
    await this.#work.run(appId, async () => {
      const rows = this.#options.store.previews.all().filter(({ parentId }) => parentId === appId);
      for (const row of rows) await this.#remove(row);
    });
  }

  /** Returns the preview of a source, created if needed, and renews it for a week. */
  #renewed(appId: string, source: string, name: () => string, versionId: string | null = null): PreviewRow {
    const { apps } = this.#options;
    if (!apps.get(appId)) throw new Refusal(404, 'app_not_found', 'the app was deleted');
    const expiresAt = Date.now() + KEPT_MS;
    const known = apps.previews(appId).find((row) => row.source === source);
    const made = { id: newId(), parentId: appId, name: name(), source, versionId, createdAt: Date.now() };
    const row = { ...(known ?? made), expiresAt };
    if (known) apps.renewPreview(row);
    else apps.addPreview(row);
    return row;
  }

  #requireAlias(appId: string, alias: string): void {
    const { slug } = this.#options.apps.get(appId)!.wanted;
    if (!isPreviewName(alias, slug)) {
      const rule = `3 to ${61 - slug.length} lower-case letters, digits and single hyphens, beginning and ending with a letter or digit, and not the 8 hexadecimal digits of a version`;
      throw new Refusal(400, 'invalid_input', `the preview alias ${JSON.stringify(alias)} must have ${rule}`);
    }
    const other = this.#find(appId, alias);
    if (other && other.source !== `alias:${alias}`)
      throw new Refusal(
        400,
        'invalid_input',
        `another preview or version has the name ${alias}: choose another alias`,
      );
  }

  /** Repeats an interrupted deploy. Removes an upload that never had a live release: the upload was not acknowledged. */
  async #resume(row: PreviewRow): Promise<void> {
    const { apps, requests } = this.#options;
    const newest = this.#newest(row);
    if (branchIn(row.source) === null) {
      if (this.#isEmpty(row)) await this.#remove(row);
      return;
    }
    if (newest !== undefined && !isInterrupted(newest)) return;
    const sha = await apps.withRepository(apps.originOf(row.id), (repository) =>
      resolveCommit(repository, row.source),
    );
    if (sha === null) await this.#remove(row);
    else await requests.commit({ appId: row.id, sha, ref: row.source, trigger: 'push' });
  }

  /** Removes previews over the limit. Never rejects. */
  #makeRoom(appId: string): void {
    this.#work
      .run(appId, async () => {
        const rows = this.#options.apps
          .previews(appId)
          .filter((row) => !isSecondVersion(row))
          .sort((a, b) => b.expiresAt - a.expiresAt);
        for (const row of rows.slice(PREVIEWS)) await this.#remove(row);
      })
      .catch((error: unknown) =>
        log('warn', 'a preview could not be removed', { app: appId, error: reason(error) }),
      );
  }

  /** Removes a preview with its data. If the host is killed meanwhile, `start` resumes this. */
  async #remove({ id }: PreviewRow): Promise<void> {
    const { apps, queue, store } = this.#options;
    await apps.deletions.delete(id, store.apps.generation(id), { isKept: false });
    await queue.forget(id);
    store.transaction(() => store.previews.remove(id));
  }

  /** Whether the preview never had a live release. */
  #isEmpty({ id }: PreviewRow): boolean {
    return this.#options.apps.get(id)?.liveDeployId == null;
  }

  #newest({ id }: PreviewRow): DeployFact | undefined {
    return this.#options.store.deploys.last(id, 1)[0]?.fact;
  }

  #shown(row: PreviewRow): HostPreview {
    const { name, source, versionId, createdAt, expiresAt } = row;
    return {
      name,
      names: versionId === null ? [name] : [name, versionName(versionId)],
      branch: branchIn(source),
      serves: !this.#isEmpty(row),
      deploy: this.#newest(row) ?? null,
      created_at: new Date(createdAt).toISOString(),
      expires_at: new Date(expiresAt).toISOString(),
    };
  }

  #find(appId: string, name: string): PreviewRow | undefined {
    return this.#options.apps.previews(appId).find((row) => row.name === name);
  }

  #require(appId: string, name: string): PreviewRow {
    const row = this.#find(appId, name);
    if (row === undefined) throw new Refusal(404, 'preview_not_found', `the app has no preview ${name}`);
    return row;
  }
}

/** Returns the name of a branch, or `pull/5` for the pull request 5; null for an upload. */
function branchIn(source: string): string | null {
  if (source.startsWith(BRANCHES)) return source.slice(BRANCHES.length);
  return /^refs\/(pull\/\d+)\/head$/.exec(source)?.[1] ?? null;
}
