// Wrangler's uploads: assets in sessions, and versions, which are releases that are not deployed yet.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BuildFailure } from '../../bundler/failure.ts';
import type { Bundle } from '../../bundler/release.ts';
import { NO_SESSION } from '../../bundler/upload/assets.ts';
import type * as folder from '../../bundler/upload/folder.ts';
import type * as unpack from '../../bundler/upload/unpack.ts';
import type { UploadedVersion } from '../../handlers/contract/host/host-releases.ts';
import { newId } from '../../handlers/contract/id.ts';
import { cutText } from '../../handlers/contract/text.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { KnownApps } from '../apps/known/known-apps.ts';
import type { Secrets } from '../apps/secrets.ts';
import type { Layout } from '../disk/data-directory.ts';
import { publish } from '../disk/publish.ts';
import { SHOWN_LENGTH } from '../git/repository.ts';
import { log, reason } from '../log.ts';
import { FairQueue, QueueFull } from '../queues/fair-queue.ts';
import { Refusal } from '../refusal.ts';
import type { StorageNames } from '../storage/names.ts';
import { threads } from '../threads/worker.ts';
import type * as assetFiles from './asset-files.ts';
import { Incoming, type Upload } from './receive.ts';
import { removeUpload, tidyUploads } from './tidy.ts';
import {
  accountOf,
  accountOfSession,
  BUNDLE_FILE,
  isVersionId,
  readBundle,
  readVersion,
  VERSION_FILE,
  versionsIn,
} from './version-files.ts';

/** Limit of an uploaded version: Cloudflare accepts 64 MiB of modules, and source maps are added. */
const VERSION_BYTES = 128 * 2 ** 20;
/** Limit of a body with assets: one asset in base64, or several small ones. */
const ASSETS_BYTES = 40 * 2 ** 20;
/** Limit of a batch of files of Workers Sites: Wrangler sends up to 98 MB of base64, with keys of up to 512 bytes. */
const SITE_BYTES = 100 * 2 ** 20;
/** Limit of a manifest of assets. */
const MANIFEST_BYTES = 16 * 2 ** 20;
/**
 * Limits of unpacking, which needs several times the upload's size in memory. `Incoming` admits fewer uploads than may wait.
 */
const UNPACKING = { name: 'uploads', running: 2, runningPerOwner: 1, waitingPerOwner: 16 };
const UNPACK_MS = 60_000;
const ASSET_FILES = new URL('./asset-files.ts', import.meta.url);
const FOLDER = new URL('../../bundler/upload/folder.ts', import.meta.url);
const UNPACK = new URL('../../bundler/upload/unpack.ts', import.meta.url);

/** Who uploads, and for which app. */
export interface Uploader {
  /** The account's id and the script's name, with a slash between. */
  owner: string;
  /** The app; `null` if there is none of that name. */
  appId: string | null;
}

export interface UploadsOptions {
  paths: Layout;
  store: HostStore;
  apps: KnownApps;
  secrets: Secrets;
  /** Limit of a release's assets, in MiB. */
  assetsMb: number;
}

/** An unpacked upload, and its author. */
interface Made extends Pick<unpack.Unpacked, 'bundle' | 'message' | 'tag' | 'alias' | 'notes'> {
  author: string;
}

/** All uploads. Old sessions and versions are removed: see `tidyUploads`. */
export class Uploads {
  readonly #options: UploadsOptions;
  readonly #incoming: Incoming;
  readonly #sessions: string;
  readonly #versions: string;
  readonly #unpacking = new FairQueue(UNPACKING);
  /** Versions being deployed, which must stay: the number of their deploys, by version id. */
  readonly #deploying = new Map<string, number>();

  constructor(options: UploadsOptions) {
    this.#options = options;
    const { uploads } = options.paths;
    this.#incoming = new Incoming(join(uploads, 'incoming'));
    this.#sessions = join(uploads, 'assets');
    this.#versions = versionsIn(uploads);
    // Removes bodies that a killed host has left.
    rmSync(join(uploads, 'incoming'), { recursive: true, force: true });
    for (const path of [this.#sessions, this.#versions]) mkdirSync(path, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(this.#versions))
      if (!isVersionId(name)) rmSync(join(this.#versions, name), { recursive: true, force: true });
  }

  /** Starts a session of assets. @throws {Refusal} for an invalid manifest */
  async startAssets(upload: Upload, from: Uploader, hashing?: 'sha256'): Promise<assetFiles.Started> {
    this.#tidySoon();
    const { owner } = from;
    const account = accountOf(owner);
    return this.#incoming.during(upload, { limitBytes: MANIFEST_BYTES, account }, (body, signal) =>
      inThread<typeof assetFiles.startSession>(ASSET_FILES, 'startSession', { key: account, signal }, [
        this.#sessions,
        body,
        {
          owner,
          account,
          releases: this.#releases(from),
          assetsMb: this.#options.assetsMb,
          ...(hashing && { hashing }),
        },
      ]),
    );
  }

  /**
   * Stores assets of a session.
   * @returns whether the session now has all assets
   * @throws {Refusal} for an unknown session, and for an invalid asset
   */
  async keepAssets(upload: Upload, session: string): Promise<boolean> {
    // Before reading the body: the session id is the sender's only credential.
    const account = await accountOfSession(this.#sessions, session);
    if (account === null) throw new Refusal(400, 'invalid_input', NO_SESSION);
    const contentType = upload.request.headers['content-type'] ?? '';
    return this.#incoming.during(upload, { limitBytes: ASSETS_BYTES, account }, (body, signal) =>
      inThread<typeof assetFiles.keepAssets>(ASSET_FILES, 'keepAssets', { key: account, signal }, [
        this.#sessions,
        session,
        { body, contentType },
      ]),
    );
  }

  /** Stores a batch of files of Workers Sites. @returns the number of files. @throws {Refusal} for an invalid batch */
  async keepSite(upload: Upload, { owner }: Uploader): Promise<number> {
    this.#tidySoon();
    const account = accountOf(owner);
    const { assetsMb } = this.#options;
    return this.#incoming.during(upload, { limitBytes: SITE_BYTES, account }, (body, signal) =>
      inThread<typeof assetFiles.keepSite>(ASSET_FILES, 'keepSite', { key: account, signal }, [
        this.#sessions,
        body,
        { owner, account, assetsMb },
      ]),
    );
  }

  /**
   * Stores a version on disk, atomically.
   * @returns the version, and the values of the secrets in the upload, which are not stored
   * @throws {Refusal} for an invalid version
   */
  async take(
    upload: Upload,
    from: Uploader,
    author: string,
  ): Promise<{ version: UploadedVersion; secrets: Record<string, string> }> {
    this.#tidySoon();
    const contentType = upload.request.headers['content-type'] ?? '';
    const account = accountOf(from.owner);
    return this.#incoming.during(upload, { limitBytes: VERSION_BYTES, account }, (body, signal) =>
      this.#unpacking.run({ owner: account, signal }, () =>
        this.#unpack({ body, contentType, from, author, signal }),
      ),
    );
  }

  /**
   * Stores the files of a session as a version: a static site.
   * @throws {Refusal} for an unknown session, and for files that were not sent
   */
  async takeFolder(
    session: string,
    from: Uploader,
    by: { message: string; author: string },
    signal: AbortSignal,
  ): Promise<UploadedVersion> {
    this.#tidySoon();
    const { owner } = from;
    const turn = { key: accountOf(owner), signal };
    return this.#keep(from, async (out) => {
      const place = { out, sessions: this.#sessions, owner, releases: this.#releases(from) };
      const { bundle, notes } = await inThread<typeof folder.unpackFolder>(FOLDER, 'unpackFolder', turn, [
        session,
        place,
      ]);
      return { ...by, bundle, notes, tag: '', alias: '' };
    });
  }

  /** Returns the undeployed versions of an app, newest first. */
  async list(appId: string): Promise<UploadedVersion[]> {
    const versions = await Promise.all(
      (await readdir(this.#versions)).map((id) => readVersion(this.#versions, id)),
    );
    return versions.filter((version) => version?.app_id === appId).sort(newestFirst) as UploadedVersion[];
  }

  /**
   * Runs a deploy of a version. Until `deploy` settles, the version is not removed in favour of newer ones.
   * @param owner the owner that the version must have. A version that was uploaded before its app has no app id, so `appId`
   * cannot identify it
   * @throws {Refusal} for an unknown version
   */
  async deploying<T>(
    appId: string,
    id: string,
    owner: string,
    deploy: (version: UploadedVersion, directory: string) => Promise<T>,
  ): Promise<T> {
    this.#deploying.set(id, (this.#deploying.get(id) ?? 0) + 1);
    try {
      const version = await readVersion(this.#versions, id);
      if (version === null || (version.app_id ?? appId) !== appId || version.owner !== owner)
        throw new Refusal(404, 'deploy_not_found', 'the app has no such version');
      return await deploy(version, join(this.#versions, id));
    } finally {
      const left = this.#deploying.get(id)! - 1;
      if (left > 0) this.#deploying.set(id, left);
      else this.#deploying.delete(id);
    }
  }

  /** Returns the bundle of an undeployed version of an app; `null` for none. */
  async bundle(appId: string, id: string): Promise<Bundle | null> {
    const version = await readVersion(this.#versions, id);
    return version?.app_id === appId ? readBundle(join(this.#versions, id)) : null;
  }

  /** Removes a version from the uploads. Never rejects. */
  async drop(id: string): Promise<void> {
    await removeUpload(join(this.#versions, id));
  }

  /** Removes the versions of a deleted app. */
  async forget(appId: string): Promise<void> {
    await Promise.all((await this.list(appId)).map(({ id }) => this.drop(id)));
  }

  async #unpack({
    body,
    contentType,
    from,
    author,
    signal,
  }: {
    body: string;
    contentType: string;
    from: Uploader;
    author: string;
    signal: AbortSignal;
  }): Promise<{ version: UploadedVersion; secrets: Record<string, string> }> {
    const { apps, secrets, store } = this.#options;
    const { owner, appId } = from;
    const live = appId === null ? null : (apps.get(appId)?.liveDeployId ?? null);
    const names = appId === null ? {} : (store.apps.storageNames(appId) as Partial<StorageNames>);
    const turn = { key: accountOf(owner), signal };
    let values: Record<string, string> = {};
    const version = await this.#keep(from, async (out) => {
      const unpacked = await inThread<typeof unpack.unpackUpload>(UNPACK, 'unpackUpload', turn, [
        {
          body,
          contentType,
          out,
          sessions: this.#sessions,
          owner,
          releases: this.#releases(from),
          assetsMb: this.#options.assetsMb,
          live: live && (await apps.release(appId!, live)),
          secrets: appId === null ? [] : secrets.list(appId).map(({ name }) => name),
          keys: keysOf(names),
        },
      ]);
      values = unpacked.secrets;
      return { ...unpacked, author };
    });
    return { version, secrets: values };
  }

  /** Stores a version on disk, atomically. @param make writes the version's files to the directory `out` */
  async #keep({ owner, appId }: Uploader, make: (out: string) => Promise<Made>): Promise<UploadedVersion> {
    const id = newId();
    const out = join(this.#versions, `${id}.new`);
    try {
      const { bundle, notes, author, ...made } = await make(out);
      const message = cutText(made.message, SHOWN_LENGTH);
      const tag = cutText(made.tag, SHOWN_LENGTH);
      const at = new Date().toISOString();
      const alias = cutText(made.alias, SHOWN_LENGTH);
      const version = { id, app_id: appId, owner, author, message, tag, alias, created_at: at, notes };
      await writeFile(join(out, BUNDLE_FILE), JSON.stringify(bundle));
      await writeFile(join(out, VERSION_FILE), JSON.stringify(version));
      await publish(out, join(this.#versions, id));
      return version;
    } catch (error) {
      await removeUpload(out);
      throw error;
    }
  }

  #releases({ appId }: Uploader): string | null {
    if (appId === null) return null;
    // Assets that these releases have are not sent again, so the code cache must not evict the releases now.
    this.#options.apps.get(appId)?.code?.releases.useAll();
    return this.#options.paths.releases(appId);
  }

  /** Removes unneeded uploads. Logs failed removals. */
  #tidySoon(): void {
    const isUsed = (id: string) =>
      this.#deploying.has(id) || this.#options.apps.seconds().some(({ versionId }) => versionId === id);
    tidyUploads({ sessions: this.#sessions, versions: this.#versions }, isUsed).catch((error: unknown) =>
      log('warn', 'old uploads could not be searched', { error: reason(error) }),
    );
  }
}

/** Returns the name that the project gives each database, namespace, bucket and vector index, by storage id. */
function keysOf({
  databases = {},
  namespaces = {},
  buckets = {},
  vectorIndexes = {},
}: Partial<StorageNames>): Record<string, string> {
  const all = [databases, namespaces, buckets, vectorIndexes].flatMap((names) => Object.entries(names));
  return Object.fromEntries(all.map(([key, storageId]) => [storageId, key]));
}

function newestFirst(a: UploadedVersion | null, b: UploadedVersion | null): number {
  return (a?.id ?? '') < (b?.id ?? '') ? 1 : -1;
}

/**
 * Runs a job in a thread: a tenant decides its size.
 * @param turn jobs with the same key run one after another; the signal aborts them
 * @throws {Refusal} with the upload's error
 */
// biome-ignore lint/suspicious/noExplicitAny: any function can be a job
async function inThread<F extends (...values: any[]) => unknown>(
  module: URL,
  name: string,
  turn: { key: string; signal: AbortSignal },
  values: Parameters<F>,
): Promise<Awaited<ReturnType<F>>> {
  try {
    return await threads.run<F>(module, name, values, {
      ...turn,
      deadlineMs: UNPACK_MS,
      errors: [BuildFailure],
    });
  } catch (error) {
    if (error instanceof BuildFailure) throw new Refusal(400, 'invalid_input', error.message);
    if (error instanceof QueueFull) throw new Refusal(503, 'host_unavailable', error.message);
    throw error;
  }
}
