// Limits the size of this disk's copies of repositories and releases that are in the bucket. Removes the least recently used
// copies first. Their next use loads them again.
import { existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';
import { deployOn } from '../../builds/queue/deploy-on.ts';
import { isMissed } from '../../builds/queue/missed-pushes.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { directorySizes } from '../../disk/sizes.ts';
import { highestTag, type NamedCommit, TAGS } from '../../git/named-commit.ts';
import { DEPLOY_REF } from '../../git/repository.ts';
import { logRarely, reason } from '../../log.ts';
import { Refusal } from '../../refusal.ts';
import type { Bucket } from '../bucket.ts';
import type { AppCode } from './app-code.ts';
import type { Refs } from './refs-content.ts';

/** A release that was used within this time, in ms, may be in use: being copied, or about to start. */
const IN_USE_MS = 10 * 60_000;
/** Copies measured by one child process. */
const AT_ONCE = 500;
const BYTES_IN_MB = 2 ** 20;

export interface CodeCacheOptions {
  store: Pick<HostStore, 'deploys' | 'sources'>;
  paths: Pick<Layout, 'repositories' | 'repository' | 'allReleases' | 'releases' | 'release' | 'trash'>;
  apps: Pick<Apps, 'memories' | 'get' | 'originOf'>;
  bucket: Pick<Bucket, 'code'>;
  /** Size of all copies above which some are removed, in MiB. */
  maxMb: number;
}

/** A repository or a release on the disk. */
interface Copy {
  appId: string;
  code: AppCode;
  /** Whether the app has left for another host. */
  hasLeft: boolean;
  /** The deploy of a release. Null for the repository. */
  deployId: string | null;
  path: string;
  /** When the copy was last used or came to the disk, in ms since 1970. */
  usedAt: number;
}

export class CodeCache {
  readonly #options: CodeCacheOptions;
  readonly #stopping = new AbortController();
  /** MiB of each copy by its path, as last measured. */
  #sizes = new Map<string, number>();
  #megabytes: number | null = null;
  #round: Promise<void> | null = null;

  constructor(options: CodeCacheOptions) {
    this.#options = options;
  }

  /** Bytes of all copies, as last measured; null before that. */
  get bytes(): number | null {
    return this.#megabytes === null ? null : Math.round(this.#megabytes * BYTES_IN_MB);
  }

  /** Removes unused copies until the rest is within the limit. Concurrent calls share one run. Never rejects. */
  trim(): Promise<void> {
    this.#round ??= this.#trim().finally(() => {
      this.#round = null;
    });
    return this.#round;
  }

  /** Removes unused copies until `enough` resolves with true, or none is left. Never rejects. */
  async makeRoom(enough: () => Promise<boolean>): Promise<void> {
    await this.#evictUntil(enough, await this.#copies());
  }

  /** Starts no more removals. Resolves when a running `trim` has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#round;
  }

  async #trim(): Promise<void> {
    const { maxMb } = this.#options;
    const { signal } = this.#stopping;
    const copies = await this.#copies();
    const sizes = new Map<string, number>();
    for (let from = 0; from < copies.length && !signal.aborted; from += AT_ONCE) {
      const paths = copies.slice(from, from + AT_ONCE).map(({ path }) => path);
      for (const [path, megabytes] of await directorySizes(paths, signal)) sizes.set(path, megabytes);
    }
    this.#sizes = sizes;
    this.#megabytes = [...sizes.values()].reduce((sum, megabytes) => sum + megabytes, 0);
    await this.#evictUntil(async () => this.#megabytes! <= maxMb, copies);
  }

  async #copies(): Promise<Copy[]> {
    const { store, paths, apps, bucket } = this.#options;
    const copies: Copy[] = [];
    const add = async (copy: Omit<Copy, 'usedAt' | 'path'>, requestAt = 0) => {
      const { appId, deployId, code } = copy;
      const path = deployId === null ? paths.repository(appId) : paths.release(appId, deployId);
      const askedAt = deployId === null ? code.repository.usedAt : code.releases.usedAt(deployId);
      const found = await stat(path).catch(() => null);
      // The directory's ctime changes when the copy comes to the disk, so a new copy counts as used.
      if (found !== null) copies.push({ ...copy, path, usedAt: Math.max(found.ctimeMs, askedAt, requestAt) });
    };
    for (const { id: appId } of apps.memories()) {
      const app = apps.get(appId);
      if (app?.code == null) continue;
      const { code, liveDeployId, fleet } = app;
      const copy = { appId, code, hasLeft: false };
      await add({ ...copy, deployId: null });
      const kept = store.deploys.released(appId).map(({ id }) => id);
      for (const deployId of new Set([liveDeployId ?? [], kept].flat()))
        await add({ ...copy, deployId }, (deployId === liveDeployId && fleet.lastRequestAt) || 0);
    }
    for (const appId of await this.#left()) {
      const code = bucket.code(appId, { owner: () => appId, isDeleted: () => false });
      for (const deployId of [null, ...(await namesIn(paths.releases(appId)))])
        await add({ appId, code, hasLeft: true, deployId });
    }
    return copies;
  }

  /** Returns the apps that have code on this disk but are not this host's. */
  async #left(): Promise<string[]> {
    const { paths, apps } = this.#options;
    const repositories = (await namesIn(paths.repositories)).map((name) => basename(name, '.git'));
    const found = new Set([...repositories, ...(await namesIn(paths.allReleases))]);
    return [...found].filter((id) => apps.get(id) === undefined);
  }

  async #evictUntil(enough: () => Promise<boolean>, copies: Copy[]): Promise<void> {
    try {
      for (const copy of copies.sort((one, other) => one.usedAt - other.usedAt)) {
        if (this.#stopping.signal.aborted || (await enough())) return;
        if (!(await this.#evict(copy))) continue;
        this.#megabytes = this.#megabytes && this.#megabytes - (this.#sizes.get(copy.path) ?? 0);
        this.#sizes.delete(copy.path);
      }
    } catch (error) {
      logRarely('warn', 'old local copies of code could not be removed from the disk; Cellar tries again', {
        error: reason(error),
      });
    }
  }

  /** @returns whether the copy was removed @throws {Error} when the bucket does not answer */
  async #evict(copy: Copy): Promise<boolean> {
    const { apps, paths } = this.#options;
    const { appId, deployId, code, hasLeft } = copy;
    // Checked here too, because `evict` costs requests to the bucket.
    if (!this.#mayGo(copy)) return false;
    const evict = async () => {
      if (deployId !== null) return code.releases.evict(deployId, paths.trash, () => this.#mayGo(copy));
      // Another run may have removed it already.
      const on = deployOn(this.#options, appId);
      const tag = on === 'tags' && existsSync(copy.path) ? await highestTag(copy.path) : null;
      return code.repository.evict(
        paths.trash,
        (refs) => this.#mayGo(copy) && this.#isDeployed(copy, refs, on, tag),
      );
    };
    if (hasLeft) return evict();
    try {
      // A move of the app to this disk takes over these files. Moves wait for changes, so the removal runs as a change.
      return (await apps.get(apps.originOf(appId))?.changes.during(evict)) ?? false;
    } catch (error) {
      if (error instanceof Refusal) return false;
      throw error;
    }
  }

  #mayGo({ appId, deployId, code, hasLeft }: Copy): boolean {
    const { apps, store } = this.#options;
    const app = apps.get(appId);
    if (app === undefined) return hasLeft;
    if (app.code !== code || store.deploys.lastAsked(appId)?.isUnderWay) return false;
    if (deployId === null) return true;
    const { fleet, liveDeployId } = app;
    const isLive = deployId === liveDeployId || deployId === fleet.liveDeployId;
    if (isLive && !fleet.isAtRest) return false;
    return Date.now() - code.releases.usedAt(deployId) >= IN_USE_MS;
  }

  /**
   * False when a push was missed: `MissedDeploys` needs the repository on the disk, so the repository stays.
   * @param on which pushes deploy the app
   * @param tag the highest tag; null without one, and when the app does not deploy tags
   */
  #isDeployed(
    { appId, hasLeft }: Copy,
    refs: Refs,
    on: ReturnType<typeof deployOn>,
    tag: NamedCommit | null,
  ): boolean {
    const { store, apps } = this.#options;
    const [newest] = store.deploys.newest(appId, 1);
    // As in `MissedDeploys`: otherwise the highest tag may be older than the live release.
    const followsTags =
      newest === undefined
        ? apps.get(appId)?.liveDeployId === null
        : newest.ref.startsWith(TAGS) && Object.hasOwn(refs, newest.ref);
    if (hasLeft || on === 'manual' || (on === 'tags' && !followsTags)) return true;
    const tip = on === 'tags' ? tag?.sha : refs[DEPLOY_REF];
    return tip === undefined || !isMissed(store, appId, tip);
  }
}

function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch(() => []);
}
