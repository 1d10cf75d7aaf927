// The handlers' calls about uploads (by Wrangler, or of folders), uploaded versions, and the live release and its triggers.
import { isDeepStrictEqual } from 'node:util';
import type {
  ClassContainer,
  DispatchBinding,
  MtlsBinding,
  ObjectsElsewhere,
  Outward,
  RateLimit,
  Release,
  ServiceBinding,
  StoreSecretBinding,
  Workflow,
} from '../../../bundler/release.ts';
import { SITE_NAMESPACE } from '../../../bundler/workers-site/manifest.ts';
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import type { DescribedRelease, KeptPlaces } from '../../../handlers/contract/host/host-releases.ts';
import type { HostCall, HostCalls } from '../../../handlers/contract/host/host-routes.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';
import type { Deploy } from '../../builds/deploy/deploy.ts';
import type { DeployRequests } from '../../builds/queue/requests.ts';
import { readRelease } from '../../builds/release/release.ts';
import type { Layout } from '../../disk/data-directory.ts';
import type { DiskWatch } from '../../disk/disk-watch.ts';
import { SerialQueues } from '../../queues/serial-queue.ts';
import { noSuchApp, Refusal, requireRoom } from '../../refusal.ts';
import { clientLeft } from '../../sockets/client-left.ts';
import { emptyNames, type StorageNames } from '../../storage/names.ts';
import type { Stored } from '../../storage/places.ts';
import type { StorageQueries } from '../../storage/storage-queries.ts';
import type { Uploader, Uploads } from '../../uploads/uploads.ts';
import { type Call, type HostRoutes, readJson } from '../host-call.ts';
import type { Outbox } from '../outbox.ts';

/** Longest wait for the end of a deploy, in ms. It may be queued behind others. */
const DEPLOY_MS = 10 * 60_000;
const FLUSH_MS = 1_000;
const ID = /^[0-9a-z]{16}$/;

export type UploadCall = Extract<
  HostCall,
  | `${string}/uploads/${string}`
  | 'POST /apps/:id/uploads'
  | `${string}/versions`
  | `${string}/versions/:deploy`
  | `${string}/triggers`
  | `${string}/release`
  | 'POST /places'
>;

export interface UploadOptions {
  store: HostStore;
  paths: Layout;
  disk: DiskWatch;
  apps: Apps;
  requests: DeployRequests;
  outbox: Outbox;
  uploads: Uploads;
  storageQueries: StorageQueries;
}

export function uploadRoutes(options: UploadOptions): Pick<HostRoutes, UploadCall> {
  const { disk, uploads } = options;
  const triggerChanges = new SerialQueues();
  return {
    'POST /uploads/assets': (call) => {
      requireRoom(disk);
      return uploads.startAssets(call, uploader(options, call));
    },
    'POST /uploads/assets/:session': async (call) => {
      requireRoom(disk);
      const complete = await uploads.keepAssets(call, call.words[0]!);
      return { complete };
    },
    'POST /uploads/sites': async (call) => {
      requireRoom(disk);
      return { files: await uploads.keepSite(call, uploader(options, call)) };
    },
    'POST /uploads/versions': (call) => {
      requireRoom(disk);
      return uploads.take(call, uploader(options, call), call.query.get('author') ?? '');
    },
    'POST /apps/:id/uploads': (call) => {
      requireRoom(disk);
      return uploads.startAssets(call, folderOf(options, call), 'sha256');
    },
    'POST /apps/:id/uploads/:session': async (call) => {
      requireRoom(disk);
      folderOf(options, call);
      return { complete: await uploads.keepAssets(call, call.words[1]!) };
    },
    'POST /apps/:id/uploads/:session/deploy': async (call) => {
      requireRoom(disk);
      const by = await readJson<'POST /apps/:id/uploads/:session/deploy'>(call.request);
      return deployFolder(options, call, by);
    },
    'GET /apps/:id/versions': ({ words }) => uploads.list(words[0]!),
    'POST /apps/:id/versions/:deploy': async ({ request, words }) => {
      requireRoom(disk);
      const [appId, id] = words as [string, string];
      const { owner, ...by } = await readJson<'POST /apps/:id/versions/:deploy'>(request);
      requireApp(options, appId);
      const { deploy, removed } = await queueVersion(options, { appId, id, owner }, by);
      const fact = await untilEnded(options, deploy);
      if (deploy.fact.status === 'live') await removed;
      return fact;
    },
    'PUT /apps/:id/triggers': async ({ request, words }) => {
      const [appId] = words as [string];
      const asked = await readJson<'PUT /apps/:id/triggers'>(request);
      // Changes run one after another, because each is based on the release before.
      return triggerChanges.run(appId, () => retrigger(options, appId, asked));
    },
    'POST /places': async ({ request }) => {
      const ids = (await readJson<'POST /places'>(request)).filter((id) => options.apps.get(id));
      return Promise.all(ids.map((id) => places(options, id)));
    },
    'GET /apps/:id/release': async ({ words, query }) => {
      const [appId] = words as [string];
      requireApp(options, appId);
      const { store } = options;
      const names = { ...emptyNames(), ...store.apps.storageNames(appId) };
      const asked = query.get('deploy');
      if (asked !== null && !ID.test(asked)) return null;
      const bundle = asked === null ? null : await uploads.bundle(appId, asked);
      if (bundle !== null) return describedBundle(asked!, bundle, names);
      const release =
        asked === null
          ? await liveRelease(options, appId)
          : await readRelease(await options.apps.release(appId, asked));
      return release && described(release, names);
    },
  };
}

function uploader({ apps }: UploadOptions, { query }: Call): Uploader {
  const appId = query.get('app');
  if (appId !== null && !apps.get(appId)) throw noSuchApp();
  return { owner: query.get('owner') ?? '', appId };
}

/** Returns who uploads a folder. Wrangler's uploads have no such owner, so a session cannot be used for the other kind. */
function folderOf(options: UploadOptions, { words }: Call): Uploader {
  const appId = words[0]!;
  requireApp(options, appId);
  return { owner: `${options.apps.ownerOf(appId)}/folder of ${appId}`, appId };
}

/** Queues the deploy of an uploaded folder. @returns the deploy, before it has ended */
async function deployFolder(
  options: UploadOptions,
  call: Call,
  by: { message: string; author: string },
): Promise<DeployFact> {
  const { uploads, outbox } = options;
  const [appId, session] = call.words as [string, string];
  const { owner } = folderOf(options, call);
  const { id } = await uploads.takeFolder(session, { owner, appId }, by, clientLeft(call.response));
  const { deploy } = await queueVersion(options, { appId, id, owner }, by);
  const { fact } = deploy;
  await outbox.flushed(FLUSH_MS);
  return fact;
}

/**
 * Queues the deploy of an uploaded version. The version stays until the deploy has ended, however long the queue is.
 * @returns the deploy, and when its version was removed, or not because it is not live. `removed` never rejects
 * @throws {Refusal} for an unknown version
 */
async function queueVersion(
  { uploads, requests }: UploadOptions,
  { appId, id, owner }: { appId: string; id: string; owner: string },
  by: { message: string; author: string },
): Promise<{ deploy: Deploy; removed: Promise<void> }> {
  const queued = Promise.withResolvers<Deploy>();
  const removed = uploads
    .deploying(appId, id, owner, async ({ tag, message, created_at, notes }, directory) => {
      const deploy = requests.upload(appId, { id, tag, message, created_at, directory, notes }, by);
      queued.resolve(deploy);
      await deploy.untilEnded();
      if (deploy.fact.status === 'live') await uploads.drop(id);
    })
    .catch(queued.reject);
  return { deploy: await queued.promise, removed };
}

function requireApp({ apps }: UploadOptions, id: string): void {
  if (!apps.get(id)) throw noSuchApp();
}

async function retrigger(
  options: UploadOptions,
  appId: string,
  { author, crons, consumer, without, workflow }: HostCalls['PUT /apps/:id/triggers']['body'],
): Promise<DeployFact | null> {
  const live = await liveRelease(options, appId);
  if (live === null) throw new Refusal(404, 'release_unavailable', 'nothing is deployed yet');
  const { crons: before = [], consumers = [] } = live.triggers ?? {};
  const kept = consumers.filter(({ queue }) => queue !== consumer?.queue && queue !== without);
  const triggers = { crons: crons ?? before, consumers: consumer ? [...kept, consumer] : kept };
  const workflows = live.workflows?.map((each) => {
    if (each.name !== workflow?.name) return each;
    const { binding, className } = each;
    return { binding, className, ...workflow };
  });
  const isSame =
    isDeepStrictEqual(triggers, { crons: before, consumers }) && isDeepStrictEqual(workflows, live.workflows);
  if (isSame) return null;
  requireRoom(options.disk);
  const message = workflow
    ? `Settings of the Workflow ${workflow.name}`
    : crons
      ? 'Cron triggers'
      : `Consumer of the queue ${consumer?.queue ?? without}`;
  const deploy = options.requests.retrigger(
    appId,
    { ...triggers, ...(workflow && { workflows }) },
    { author, message },
  );
  return untilEnded(options, deploy);
}

async function places({ storageQueries }: UploadOptions, appId: string): Promise<KeptPlaces> {
  const { databases, namespaces, buckets, vectorIndexes, producers, consumers, workflows } =
    await storageQueries.places(appId);
  const named = (kept: Stored[]) => kept.map(({ id, binding }) => ({ id, binding }));
  return {
    app_id: appId,
    databases: named(databases),
    namespaces: named(namespaces),
    buckets: named(buckets),
    vector_indexes: named(vectorIndexes),
    producers,
    consumers,
    workflows: workflows.map(({ name, className, binding }) => ({
      id: name,
      class_name: className,
      binding,
    })),
  };
}

async function untilEnded({ outbox }: UploadOptions, deploy: Deploy): Promise<DeployFact> {
  await deploy.untilEnded(AbortSignal.timeout(DEPLOY_MS));
  // So that the next list of deploys contains this one.
  await outbox.flushed(FLUSH_MS);
  return deploy.fact;
}

async function liveRelease(options: UploadOptions, appId: string): Promise<Release | null> {
  requireApp(options, appId);
  const live = options.apps.get(appId)?.liveDeployId ?? null;
  return live === null ? null : readRelease(await options.apps.release(appId, live));
}

/** Describes a release with the storage names of the project. */
function described(release: Release, names: StorageNames): DescribedRelease {
  const keyed = (bound: { binding: string; storageId: string }[] = [], ids: Record<string, string> = {}) =>
    bound.map(({ binding, storageId }) => ({
      binding,
      key: Object.keys(ids).find((id) => ids[id] === storageId) ?? binding,
    }));
  return describedBundle(
    release.deployId,
    {
      ...release,
      databases: keyed(release.databases, names.databases),
      namespaces: keyed(release.namespaces, names.namespaces),
      buckets: keyed(release.buckets, names.buckets),
      vectorIndexes: keyed(release.vectorIndexes, names.vectorIndexes),
    },
    names,
  );
}

/** The namespace of Workers Sites, which is part of the release. */
const SITE = { binding: SITE_NAMESPACE, id: SITE_NAMESPACE };

type Keyed = { binding: string; key: string }[];

function describedBundle(
  deployId: string,
  bundle: Pick<Release, 'worker' | 'vars' | 'assets' | 'durableObjects' | 'triggers'> & {
    workflows?: Workflow[];
    rateLimits?: RateLimit[];
    services?: ServiceBinding[];
    dispatchNamespaces?: DispatchBinding[];
    storeSecrets?: StoreSecretBinding[];
    mtlsCertificates?: MtlsBinding[];
    objectsElsewhere?: ObjectsElsewhere[];
    containers?: ClassContainer[];
    outward?: Outward[];
    versionMetadata?: { binding: string };
    workerLoaders?: { binding: string }[];
    tailConsumers?: string[];
    databases: Keyed;
    namespaces: Keyed;
    buckets?: Keyed;
    vectorIndexes?: Keyed;
  },
  { appliedTags }: StorageNames,
): DescribedRelease {
  const {
    worker,
    vars,
    assets,
    triggers,
    durableObjects,
    objectsElsewhere = [],
    databases,
    namespaces,
    buckets = [],
    vectorIndexes = [],
    workflows = [],
    rateLimits = [],
    services = [],
    dispatchNamespaces = [],
    storeSecrets = [],
    mtlsCertificates = [],
    containers = [],
    outward = [],
    versionMetadata,
    workerLoaders = [],
    tailConsumers = [],
  } = bundle;
  const named = (keyed: Keyed) => keyed.map(({ binding, key }) => ({ binding, id: key }));
  return {
    deploy_id: deployId,
    compatibility_date: worker?.compatibilityDate ?? null,
    compatibility_flags: worker?.compatibilityFlags ?? [],
    // The tag of an upload is stored with `…` before it, because it includes all earlier migrations.
    migration_tag: appliedTags.at(-1)?.replace(/^…/, '') ?? null,
    vars,
    assets: assets?.binding ?? null,
    durable_objects: [
      ...durableObjects.map(({ binding, className }) => ({ binding, class_name: className })),
      ...objectsElsewhere.map(({ binding, script, className }) => ({
        ...{ binding, class_name: className, script_name: script },
      })),
    ],
    containers: containers.map(({ className, image }) => ({ class_name: className, image })),
    databases: named(databases),
    namespaces: [...named(namespaces), ...(assets?.siteManifest === undefined ? [] : [SITE])],
    buckets: named(buckets),
    vector_indexes: named(vectorIndexes),
    workflows: workflows.map(({ name, className, binding }) => ({ name, class_name: className, binding })),
    rate_limits: rateLimits,
    services,
    dispatch_namespaces: dispatchNamespaces,
    store_secrets: storeSecrets,
    mtls_certificates: mtlsCertificates.map(({ binding, certificate }) => ({ binding, certificate })),
    outward,
    version_metadata: versionMetadata?.binding ?? null,
    worker_loaders: workerLoaders.map(({ binding }) => binding),
    tail_consumers: tailConsumers,
    crons: triggers?.crons ?? [],
    producers: triggers?.producers ?? [],
    consumers: triggers?.consumers ?? [],
  };
}
