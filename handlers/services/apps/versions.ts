// Deploys a version, or lets two versions share the requests of an app.
import { listDeploys } from '../../../sqlite/control/apps/deploys.ts';
import { homeOf } from '../../../sqlite/control/hosts.ts';
import type { Context } from '../../context.ts';
import type { Deploy } from '../../contract/apps/deploys.ts';
import type { Split } from '../../contract/apps/versions.ts';
import type { DeployFact } from '../../contract/host/host-calls.ts';
import type { DescribedRelease, UploadedVersion } from '../../contract/host/host-releases.ts';
import { idOfUuid, uuidOf } from '../../contract/id.ts';
import { Problem } from '../../problem.ts';
import type { Service } from '../types.ts';
import { requireApp } from './apps.ts';
import { nameOf, toDeploy } from './deploys.ts';

/** Maximum wait for the end of a rollback, in ms. */
const ROLLBACK_TIMEOUT_MS = 5 * 60_000;
/** Interval at which the state of a rollback is read, in ms. */
const POLL_MS = 100;
/** Number of newest deploys in which live and earlier live deploys are searched. */
const DEPLOYS_SEARCHED = 200;

/** A deploy that went live. */
export interface Deployed {
  id: string;
  /** Duration of the deploy's step `start` in ms; 0 without this step. */
  startMs: number;
}

/** A version that can be deployed: an upload, or the release of an earlier deploy. */
type Version = { upload: UploadedVersion } | { deploy: Deploy };

interface Weighted {
  id: string;
  percentage: number;
}

const get: Service<'split.get'> = async (context, { id }) => {
  await requireApp(context, id);
  return shownSplit(context, id);
};

const set: Service<'split.set'> = async (context, { id, versions, message = '' }) => {
  await requireApp(context, id);
  const deploys = await servedDeploys(context, id);
  const weighted = versions.map(({ version, percentage }) => {
    const named = idOfUuid(version) ?? version;
    // A caller may also give the id of a deploy of the version, such as a rollback to the version.
    const deploy = deploys.find((each) => each.id === named);
    return { id: deploy?.version.id ?? named, percentage };
  });
  requireWhole(weighted);
  const by = { author: await nameOf(context), message };
  const [one, other] = weighted as [Weighted, Weighted?];
  if (other === undefined) await serveAlone(context, id, deploys, one.id, by);
  else await share(context, id, deploys, [one, other], by);
  return shownSplit(context, id);
};

export const versionServices = { 'split.get': get, 'split.set': set };

/**
 * Returns the deploys that are or were live, newest first, among the newest `DEPLOYS_SEARCHED`.
 * @throws {Problem} `app_not_found`
 */
export async function servedDeploys({ reads }: Context, appId: string): Promise<Deploy[]> {
  const page = await listDeploys(reads, appId, { status: null, before: null, limit: DEPLOYS_SEARCHED });
  if (page === null) throw new Problem('app_not_found');
  return page.rows.map(toDeploy).filter(({ status }) => status === 'live' || status === 'replaced');
}

/** Returns the newest deploy of each version whose release is still stored. @param deploys newest first */
export function kept(deploys: Deploy[]): Deploy[] {
  const newest = new Map<string, Deploy>();
  for (const deploy of deploys)
    if (deploy.can_roll_back && !newest.has(deploy.version.id)) newest.set(deploy.version.id, deploy);
  return [...newest.values()];
}

/** Returns the newest deploy of a version, preferably with a stored release; undefined when `deploys` has none. */
export function serving(deploys: Deploy[], version: string): Deploy | undefined {
  const of = deploys.filter((deploy) => deploy.version.id === version);
  return kept(of)[0] ?? of[0];
}

/**
 * Gives one version all requests of an app, and waits until it serves.
 * @param deploys the live deploy, and the deploys that were live before
 * @returns the id of the live deploy
 * @throws {Problem} with the reason why the version does not serve
 */
export async function serveAlone(
  context: Context,
  appId: string,
  deploys: Deploy[],
  version: string,
  by: { author: string; message: string },
): Promise<string> {
  const live = liveOf(deploys);
  if (
    live?.version.id !== version ||
    (await context.host.call('GET /apps/:id/split', { id: appId })) === null
  )
    return deploy(context, appId, deploys, version, by);
  await context.host.call('DELETE /apps/:id/split', { id: appId });
  return live.id;
}

/**
 * Makes a version live, from its upload or a stored release.
 * @throws {Problem} with the reason why the version does not serve
 */
async function deploy(
  context: Context,
  appId: string,
  deploys: Deploy[],
  version: string,
  by: { author: string; message: string },
): Promise<string> {
  const found = await find(context, appId, deploys, version);
  if ('deploy' in found) return (await rollBack(context, appId, found.deploy.id)).id;
  const { id, owner, message } = found.upload;
  const body = { owner, author: by.author, message: by.message || message };
  return ended(
    await context.host.call('POST /apps/:id/versions/:deploy', { id: appId, deploy: id }, { body }),
  ).id;
}

async function share(
  context: Context,
  appId: string,
  deploys: Deploy[],
  versions: [Weighted, Weighted],
  by: { author: string; message: string },
): Promise<void> {
  for (const { id } of versions) await requireNoData(context, appId, deploys, id);
  const live = liveOf(deploys)?.version.id;
  const [first, second] = inOrder(versions, live);
  if (first.id !== live) await deploy(context, appId, deploys, first.id, by);
  const found = await find(context, appId, deploys, second.id);
  const release =
    'deploy' in found ? { deploy: found.deploy.id } : { version: second.id, owner: found.upload.owner };
  const body = { release, beside: first.id, percentage: second.percentage, ...by };
  const deployed = await context.host.call('PUT /apps/:id/split', { id: appId }, { body });
  if (deployed !== null) ended(deployed);
}

/**
 * Orders two versions: first the one that becomes the live release, then the one that runs beside it. If the
 * live version keeps some requests, it stays first, because it is deployed already.
 */
function inOrder([one, other]: [Weighted, Weighted], live: string | undefined): [Weighted, Weighted] {
  const isFirst = one.percentage === 100 || (one.id === live && one.percentage > 0);
  const isSecond = other.percentage === 100 || (other.id === live && other.percentage > 0);
  if (isFirst || isSecond) return isFirst ? [one, other] : [other, one];
  return one.percentage >= other.percentage ? [one, other] : [other, one];
}

function liveOf(deploys: Deploy[]): Deploy | undefined {
  return deploys.find(({ status }) => status === 'live');
}

/** Finds a version by its id, first among uploads. @throws {Problem} `deploy_not_found` */
async function find(context: Context, appId: string, deploys: Deploy[], version: string): Promise<Version> {
  const uploads = await context.host.call('GET /apps/:id/versions', { id: appId });
  const upload = uploads.find(({ id }) => id === version);
  if (upload !== undefined) return { upload };
  const deploy = serving(deploys, version);
  if (deploy === undefined) throw unknown(version);
  return { deploy };
}

/**
 * Checks that a version uses no data that only one process may own.
 * @throws {Problem} `split_impossible`, `release_unavailable`
 */
async function requireNoData(
  context: Context,
  appId: string,
  deploys: Deploy[],
  version: string,
): Promise<void> {
  const found = await find(context, appId, deploys, version);
  const query = { deploy: 'deploy' in found ? found.deploy.id : version };
  const release = await context.host.call('GET /apps/:id/release', { id: appId }, { query });
  if (release === null) throw new Problem('release_unavailable');
  const uses = owned(release);
  if (uses.length > 0)
    throw new Problem(
      'split_impossible',
      `Version ${uuidOf(version)} uses ${uses.join(', ')}: only one version at a time can use these. Deploy one version with 100 %.`,
    );
}

/** Returns the resources of a release that two versions cannot use at the same time: only one process may own each. */
function owned(release: DescribedRelease): string[] {
  const { databases, namespaces, buckets, vector_indexes, durable_objects, workflows, consumers, crons } =
    release;
  return [
    ...databases.map(({ binding }) => `the D1 database ${binding}`),
    ...namespaces.map(({ binding }) => `the KV namespace ${binding}`),
    ...buckets.map(({ binding }) => `the R2 bucket ${binding}`),
    ...vector_indexes.map(({ binding }) => `the vector index ${binding}`),
    ...durable_objects.map(({ class_name }) => `the Durable Object class ${class_name}`),
    ...workflows.map(({ name }) => `the Workflow ${name}`),
    ...consumers.map(({ queue }) => `the consumer of the queue ${queue}`),
    ...crons.map((cron) => `the cron "${cron}"`),
  ];
}

/** Checks that the versions differ, and that their percentages make 100. @throws {Problem} `invalid_input` */
function requireWhole(versions: Weighted[]): void {
  const sum = versions.reduce((total, { percentage }) => total + percentage, 0);
  const [one, other] = versions;
  const message =
    one!.id === other?.id
      ? 'must name two different versions'
      : sum.toFixed(3) !== '100.000'
        ? `must have percentages that add up to 100, not ${Number(sum.toFixed(3))}`
        : null;
  if (message !== null)
    throw new Problem('invalid_input', `versions ${message}`, [{ path: 'versions', message }]);
}

async function shownSplit(context: Context, appId: string): Promise<Split> {
  const split = await context.host.call('GET /apps/:id/split', { id: appId });
  if (split !== null) return { versions: split.versions };
  const live = liveOf(await servedDeploys(context, appId));
  return { versions: live === undefined ? [] : [{ ...live.version, percentage: 100 }] };
}

/** Makes an earlier release live again, and waits until it serves. @throws {Problem} when it does not go live */
export async function rollBack(context: Context, appId: string, deployId: string): Promise<Deployed> {
  const asking = { deploy_id: deployId, by: await nameOf(context) };
  const { id } = await context.host.call('POST /apps/:id/rollback', { id: appId }, { body: asking });
  const end = Date.now() + ROLLBACK_TIMEOUT_MS;
  const home = (await homeOf(context.db, appId)) ?? undefined;
  for (;;) {
    const asked = { query: { home }, body: [{ app_id: appId, id }] };
    const { items } = await context.host.call('POST /deploys', {}, asked);
    const fact = items[0];
    if (fact !== undefined && (fact.finished_at !== null || Date.now() > end)) return ended(fact);
    await scheduler.wait(POLL_MS);
  }
}

/** Returns a deploy that went live. @throws {Problem} for a deploy that did not go live, or still runs */
export function ended({ id, status, error, steps }: DeployFact): Deployed {
  if (status === 'live' || status === 'replaced')
    return { id, startMs: steps.find(({ name }) => name === 'start')?.duration_ms ?? 0 };
  if (status === 'queued' || status === 'building')
    throw new Problem('transition_conflict', `Deploy ${id} is still running; see its log.`);
  const why = `${status === 'failed' ? 'failed' : `was ${status}`}: ${error ?? 'a newer deploy replaced it'}`;
  throw new Problem('deploy_failed', `Deploy ${id} ${why}`);
}

function unknown(version: string): Problem {
  return new Problem('deploy_not_found', `The app has no version ${version}.`);
}
