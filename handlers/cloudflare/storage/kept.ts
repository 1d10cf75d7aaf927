// An account's storage in Cloudflare's format. On Cloudflare, storage belongs to the account. In Cellar it belongs to an
// app, and two apps may use the same names.
import * as z from 'zod';
import { authorize } from '../../access.ts';
import type { KeptPlaces } from '../../contract/host/host-releases.ts';
import { placesOf as placesOfHosts } from '../../hosts/merged.ts';
import { Problem } from '../../problem.ts';
import { type CallContext, Page } from '../call.ts';
import { CloudflareError, CODES, type Code } from '../codes.ts';
import { allApps } from '../workers/scripts.ts';

type Kind = 'databases' | 'namespaces' | 'buckets' | 'vector_indexes' | 'workflows';

/** A storage resource of an app. */
export interface Kept {
  /** The resource's unique name in the account: `id`, or `<slug>--<id>` when several apps use `id`. */
  name: string;
  /** The resource's name in the project. */
  id: string;
  binding: string | null;
  app: { id: string; slug: string; created_at: string };
}

interface PlacesOfApp {
  app: Kept['app'];
  places: KeptPlaces;
}

const WORDS: Record<Kind, string> = {
  databases: 'database',
  namespaces: 'namespace',
  buckets: 'bucket',
  vector_indexes: 'vector index',
  workflows: 'Workflow',
};
const NOT_FOUND: Record<Kind, Code> = {
  databases: CODES.DATABASE_NOT_FOUND,
  namespaces: CODES.NAMESPACE_NOT_FOUND,
  buckets: CODES.BUCKET_NOT_FOUND,
  vector_indexes: CODES.VECTOR_INDEX_NOT_FOUND,
  workflows: CODES.WORKFLOW_NOT_FOUND,
};

/** Returns the apps of `allApps` on which the caller has the needed role, each with its storage. */
export async function keptPlaces(context: CallContext): Promise<PlacesOfApp[]> {
  const apps = await allApps(context);
  const may = await Promise.all(apps.map(({ id }) => hasRole(context, id)));
  return placesOf(
    context,
    apps.filter((_, at) => may[at]),
  );
}

async function placesOf(context: CallContext, apps: Kept['app'][]): Promise<PlacesOfApp[]> {
  if (apps.length === 0) return [];
  const places = await placesOfHosts(
    context,
    apps.map(({ id }) => id),
  );
  return apps.flatMap((app) => {
    const own = places.find(({ app_id }) => app_id === app.id);
    return own === undefined ? [] : [{ app, places: own }];
  });
}

async function hasRole(context: CallContext, id: string): Promise<boolean> {
  try {
    await authorize(context, context.as!, { id });
    return true;
  } catch (error) {
    if (error instanceof Problem && error.status < 500) return false;
    throw error;
  }
}

/** Returns all resources of a kind, sorted by name, of the apps on which the caller has the needed role. */
export async function keptOf(context: CallContext, kind: Kind): Promise<Kept[]> {
  return named(await keptPlaces(context), kind);
}

function named(kept: PlacesOfApp[], kind: Kind): Kept[] {
  const all = kept.flatMap(({ app, places }) =>
    places[kind].map(({ id, binding }) => ({ id, binding, app })),
  );
  return all
    .map((each) => {
      const isShared = all.some(({ id, app }) => id === each.id && app.id !== each.app.id);
      return { ...each, name: isShared ? `${each.app.slug}--${each.id}` : each.id };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Finds a resource by its `name`, else its `id`, else its binding. Sets its app in the audit entry.
 * @throws {CloudflareError} when nothing or several match; {Problem} `forbidden` when the caller's role on its app is too
 * low
 */
export async function findKept(context: CallContext, kind: Kind, name: string): Promise<Kept> {
  const kept = await find(context, kind, name);
  context.setApp(kept.app);
  return kept;
}

/**
 * Finds a resource like `findKept`, for Wrangler's check before a deploy. If several apps have the resource, or the caller
 * may not use its app, the answer is 404, as for a new name. The deploy then creates a resource of the app's own.
 */
export async function findKeptBeforeDeploy(context: CallContext, kind: Kind, name: string): Promise<Kept> {
  try {
    return await findKept(context, kind, name);
  } catch (error) {
    const isForbidden = error instanceof Problem && error.code === 'forbidden';
    if (!isForbidden && !(error instanceof CloudflareError)) throw error;
    throw new CloudflareError(404, NOT_FOUND[kind], error.message);
  }
}

async function find(context: CallContext, kind: Kind, name: string): Promise<Kept> {
  const all = await keptOf(context, kind);
  const exact = all.find((each) => each.name === name);
  if (exact) return exact;
  const same = all.filter(({ id }) => id === name);
  const found = same.length > 0 ? same : all.filter(({ binding }) => binding === name);
  if (found.length === 1) return found[0]!;
  const word = WORDS[kind];
  if (found.length > 1) {
    const names = found.map(({ app, id }) => `${app.slug}--${id}`).join(', ');
    throw new CloudflareError(
      400,
      CODES.BAD_REQUEST,
      `Several apps have a ${word} ${name}: use one of these names instead: ${names}.`,
    );
  }
  await refuseHidden(context, kind, name);
  const known =
    all.length === 0
      ? 'The account has none yet'
      : `The account has ${all.map((each) => each.name).join(', ')}`;
  throw new CloudflareError(
    404,
    NOT_FOUND[kind],
    `No app of the account has a ${word} ${name}: the first deploy that binds it makes it. ${known}.`.slice(
      0,
      1_000,
    ),
  );
}

/**
 * Searches the apps on which the caller's role is too low.
 * @throws {Problem} `forbidden` when one of them has the resource
 */
async function refuseHidden(context: CallContext, kind: Kind, name: string): Promise<void> {
  const others = named(await placesOf(context, await allApps(context)), kind);
  const found = others.find((each) => [each.name, each.id, each.binding].includes(name));
  if (found === undefined) return;
  context.setApp(found.app);
  await authorize(context, context.as!, { id: found.app.id });
}

/** The name of storage to create. A call only validates the name: the first deploy that binds the storage creates it. */
export const nameOfNew = z.string().min(1).max(200);

/**
 * Refuses a jurisdiction of new storage. Cellar's lists show no jurisdictions, so Wrangler would refuse the next deploy of a
 * project that names one.
 */
export const noJurisdiction = z
  .undefined('must be left out: Cellar has no locations, so remove it from the configuration')
  .optional();

/** Returns the page whose number the request asks for. */
export function numberedPage<T>({ url }: CallContext, items: T[]): Page {
  const page = Math.max(1, Math.floor(Number(url.searchParams.get('page') ?? 1)) || 1);
  const perPage = Math.min(
    1_000,
    Math.max(1, Math.floor(Number(url.searchParams.get('per_page') ?? 100)) || 100),
  );
  const shown = items.slice((page - 1) * perPage, page * perPage);
  return new Page(shown, {
    page,
    per_page: perPage,
    count: shown.length,
    total_count: items.length,
    total_pages: Math.max(1, Math.ceil(items.length / perPage)),
  });
}
