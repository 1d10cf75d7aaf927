// Makes the release of a deploy: builds a commit or takes an existing release.
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { NamedOutside } from '../../../bundler/configuration/preflight.ts';
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { removeTree } from '../../disk/remove.ts';
import type { Isolation } from '../../isolation/isolation.ts';
import type { AppUsers } from '../../isolation/users.ts';
import { log, reason } from '../../log.ts';
import { removeOrphanedFiles } from '../../processes/orphaned-processes.ts';
import { emptyNames } from '../../storage/names.ts';
import { type AfterBuild, build } from '../release/build.ts';
import { type BuildInput, NO_SETTINGS } from '../release/build-input.ts';
import { requireServices } from '../release/check-services.ts';
import { keyOf } from '../release/object-classes.ts';
import type { CertificateOf } from '../release/release.ts';
import { COPIED, placeUpload, type Retriggered, reuseRelease } from '../release/releases.ts';
import { requireDisk } from '../usage/size.ts';
import type { DeployLog } from './deploy-log.ts';

export type DeploySource =
  | { kind: 'commit' }
  /** The release of an earlier deploy. */
  | { kind: 'release'; of: string }
  /** An uploaded version. `notes` are lines for the log. */
  | { kind: 'upload'; directory: string; notes: string[] }
  /** The release of a preview. */
  | { kind: 'preview'; appId: string; deployId: string; name: string }
  /** The release of another app's deploy, without its crons. */
  | { kind: 'copy'; appId: string; deployId: string }
  /** The live release, with other triggers. */
  | { kind: 'triggers'; triggers: Retriggered };

type Placed = Extract<DeploySource, { kind: 'upload' | 'preview' }>;

export interface ReleaseOptions {
  store: HostStore;
  paths: Layout;
  apps: Apps;
  limits: BuildInput['limits'];
  /** The users that run an app's builds and its process. */
  users: (appId: string) => AppUsers;
  isolation: Isolation;
  /** Returns an app's address by its slug; `null` until the ports are known. */
  urlOf: (slug: string) => string | null;
  /** Returns a function that finds an app's client certificates. */
  certificateOf: (appId: string) => CertificateOf;
}

/** The deploy that a release is made for. */
interface Deployed {
  deploy: Pick<DeployFact, 'id' | 'app_id' | 'sha' | 'ref' | 'version'>;
  source: DeploySource;
  log: DeployLog;
  signal: AbortSignal;
}

interface Made extends AfterBuild {
  /** The storage names to keep once the release is live. */
  storage: object;
}

const NOTHING_TO_DO: AfterBuild = { beforeLive: null, tidy: () => Promise.resolve() };

/** Writes the release of a deploy to its directory. @throws {Error} the reason, worded for the deploy's log */
export async function makeRelease(options: ReleaseOptions, made: Deployed): Promise<Made> {
  const { source, deploy } = made;
  if (source.kind === 'commit') return buildCommit(options, made);
  if (source.kind === 'release') return reuse(options, made, source.of);
  if (source.kind === 'copy') return copy(options, made, source);
  const live = options.apps.get(deploy.app_id)?.liveDeployId ?? null;
  if (source.kind === 'triggers') {
    if (live === null) throw new Error('nothing is deployed yet');
    return reuse(options, made, live, source.triggers);
  }
  return place(options, made, source, live);
}

/** Removes a deploy's files. Never rejects: the deploy's row must get its result. */
export async function removeLeft(path: string): Promise<void> {
  await removeTree(path).catch((error: unknown) =>
    log('warn', 'files of a deploy could not be removed', { path, error: reason(error) }),
  );
}

async function buildCommit(options: ReleaseOptions, { deploy, log, signal }: Deployed): Promise<Made> {
  const { store, paths, apps, limits, users, isolation, urlOf } = options;
  const { id, app_id, sha, ref } = deploy;
  const app = apps.get(app_id);
  if (!app) throw new Error('the app was deleted');
  // Every build of an app uses the same path, because cached files may contain paths. An app has one build at a time.
  const scratch = paths.build(app_id);
  await removeLeft(scratch);
  mkdirSync(scratch, { recursive: true, mode: 0o700 });
  requireDisk(scratch, limits.worktreeMb, limits.floorMb);
  mkdirSync(dirname(paths.release(app_id, id)), { recursive: true, mode: 0o700 });
  const user = users(app_id).build;
  const origin = apps.originOf(app_id);
  const input = {
    deployId: id,
    appId: app_id,
    sha,
    ref,
    url: urlOf(app.wanted.slug),
    isPreview: origin !== app_id,
    scratch,
    releaseDirectory: paths.release(app_id, id),
    cacheDirectory: paths.cache(app_id),
    env: app.wanted.env,
    settings: app.wanted.builds ?? NO_SETTINGS,
    user,
    storage: { ...emptyNames(), ...store.apps.storageNames(app_id) },
    requireOutside: (named: NamedOutside) => requireServices(named, { appId: app_id, apps, isPushed: true }),
    keyOf: keyOf(apps, app_id),
    certificateOf: options.certificateOf(app_id),
    liveReleaseDirectory: app.liveDeployId === null ? null : await apps.release(app_id, app.liveDeployId),
    isolation,
    limits,
    log,
    signal,
  };
  const removeOrphans = () => user && removeOrphanedFiles(user);
  const made = await apps
    .withRepository(origin, (repository) => build({ ...input, repository }))
    .finally(removeOrphans);
  const { beforeLive } = made;
  return { ...made, beforeLive: beforeLive && (() => beforeLive().finally(removeOrphans)) };
}

/** Takes the release of an earlier deploy of the app. The app's storage names do not change. */
async function reuse(
  { store, paths, apps }: ReleaseOptions,
  { deploy: { id, app_id }, log }: Deployed,
  earlier: string,
  triggers?: Retriggered,
): Promise<Made> {
  await log.step('release', `the one of deploy ${earlier}, without a build`, async () =>
    reuseRelease(await apps.release(app_id, earlier), paths.release(app_id, id), id, triggers),
  );
  return { storage: store.apps.storageNames(app_id), ...NOTHING_TO_DO };
}

/** Copies the release of another app's earlier deploy, to run as that app's second version in a split (`splits.ts`). */
async function copy(
  { store, paths, apps }: ReleaseOptions,
  { deploy: { id, app_id }, log }: Deployed,
  earlier: { appId: string; deployId: string },
): Promise<Made> {
  const directory = paths.release(app_id, id);
  mkdirSync(dirname(directory), { recursive: true, mode: 0o700 });
  await log.step('release', `the one of deploy ${earlier.deployId}, without a build`, async () =>
    reuseRelease(await apps.release(earlier.appId, earlier.deployId), directory, id, { crons: [] }, COPIED),
  );
  return { storage: store.apps.storageNames(app_id), ...NOTHING_TO_DO };
}

/** Takes an uploaded version, or the release of a preview. */
async function place(
  { store, paths, apps, certificateOf }: ReleaseOptions,
  { deploy: { id, app_id, sha, version }, log }: Deployed,
  source: Placed,
  live: string | null,
): Promise<Made> {
  const directory = paths.release(app_id, id);
  mkdirSync(dirname(directory), { recursive: true, mode: 0o700 });
  const isPreview = apps.originOf(app_id) !== app_id;
  const isPromoted = source.kind === 'preview';
  if (!isPromoted) for (const note of source.notes) log.line(note);
  const what = isPromoted ? `that of the preview ${source.name}` : 'the uploaded version';
  const storage = await log.step('release', `${what}; nothing is built`, async () =>
    placeUpload(await directoryOf(apps, source), directory, {
      deployId: id,
      sha,
      version,
      storage: { ...emptyNames(), ...store.apps.storageNames(app_id) },
      live: live && (await apps.release(app_id, live)),
      isCopied: isPromoted || isPreview,
      isPreview,
      keyOf: keyOf(apps, app_id),
      certificateOf: certificateOf(app_id),
    }),
  );
  return { storage, ...NOTHING_TO_DO };
}

async function directoryOf(apps: Apps, source: Placed): Promise<string> {
  return source.kind === 'upload' ? source.directory : apps.release(source.appId, source.deployId);
}
