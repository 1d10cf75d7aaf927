import { type AppRow, findApp, findAppBySlug, listApps } from '../../../sqlite/control/apps/apps.ts';
import type { Change } from '../../../sqlite/control/apps/changes.ts';
import { lastDeploys } from '../../../sqlite/control/apps/deploys.ts';
import { observeApp } from '../../../sqlite/control/apps/transitions.ts';
import { accountOf, onlyAppOf, requireOwnAccount, seesAppsOf } from '../../access.ts';
import type { Changed } from '../../app/app-object.ts';
import { unwrap } from '../../app/outcome.ts';
import type { Context, RequestContext } from '../../context.ts';
import { type App, OVERVIEW_APPS } from '../../contract/apps/apps.ts';
import { templates as projects } from '../../contract/apps/templates.ts';
import { newId } from '../../contract/id.ts';
import type { Env } from '../../env.ts';
import { placeApp } from '../../hosts/every-host.ts';
import { overviewOf } from '../../hosts/merged.ts';
import { Problem } from '../../problem.ts';
import { decodeNumbers } from '../cursor.ts';
import { requireHost } from '../hosts.ts';
import { listAnswer } from '../paging.ts';
import type { Service } from '../types.ts';

const list: Service<'apps.list'> = async (
  { reads, env, actor },
  { owner, host, dispatch_namespace, limit, cursor },
) => {
  const before = decodeNumbers('apps.list', cursor, 1)?.[0] ?? null;
  const filter = {
    owner: owner ?? null,
    home: host ?? null,
    seenBy: seesAppsOf(actor),
    only: onlyAppOf(actor),
    namespace: dispatch_namespace ?? null,
    before,
    limit,
  };
  const page = await listApps(reads, filter);
  return listAnswer('apps.list', page, (row) => toApp(row, env));
};

const overview: Service<'apps.overview'> = async ({ reads, db, env, actor, host }) => {
  const filter = {
    owner: null,
    home: null,
    seenBy: seesAppsOf(actor),
    only: onlyAppOf(actor),
    namespace: null,
    before: null,
    limit: OVERVIEW_APPS,
  };
  const { rows, next } = await listApps(reads, filter);
  const ids = rows.map(({ id }) => id);
  const [deploys, figures] = await Promise.all([
    lastDeploys(reads, ids),
    overviewOf({ db, env, host }, rows).catch(() => null),
  ]);
  const items = rows.map((row) => ({
    ...toApp(row, env),
    figures: figures?.apps[row.id] ?? null,
    last_deploy: deploys.get(row.id) ?? null,
  }));
  return { items, more: next !== null, memory: figures?.memory ?? null };
};

const create: Service<'apps.create'> = async (context, { slug, owner, storage }) => {
  if (owner !== undefined) requireOwnAccount(context.actor, owner);
  if (storage === 'bucket' && context.env.HAS_BUCKET !== 'true') {
    const message = 'needs a bucket; ask the operator of Cellar to set RUNNER_BUCKET';
    throw new Problem('invalid_input', `storage ${message}`, [{ path: 'storage', message }]);
  }
  const wanted = { slug, owner: owner ?? accountOf(context.actor), storage, dispatch: null };
  return toApp(await createAppFor(context, wanted), context.env);
};

/**
 * Creates an app, or a script of a dispatch namespace. The caller must have checked the owner.
 * @throws {Problem} on failure
 */
export async function createAppFor(
  context: RequestContext,
  wanted: {
    slug: string;
    owner: string | null;
    storage?: AppRow['storage'] | undefined;
    dispatch: { namespace: string; script: string } | null;
  },
): Promise<AppRow> {
  const { env, at } = context;
  const { slug, owner, storage = env.RUNNER_STORAGE, dispatch } = wanted;
  const quota = Number(dispatch === null ? env.RUNNER_MAX_APPS_PER_USER : env.RUNNER_MAX_SCRIPTS_PER_USER);
  const id = newId();
  const home = await placeApp(context);
  return unwrap(await context.app(id).create({ id, slug, owner, quota, storage, home, dispatch, at }));
}

const get: Service<'apps.get'> = async (context, { id }) => toApp(await requireApp(context, id), context.env);

const getBySlug: Service<'apps.get_by_slug'> = async ({ reads, env }, { slug }) => {
  const row = await findAppBySlug(reads, slug);
  if (row === null) throw new Problem('app_not_found', `There is no app ${slug}.`);
  return toApp(row, env);
};

const figures: Service<'apps.figures'> = async (context, { id }) => {
  const app = await requireApp(context, id);
  const { apps } = await context.host.call(
    'POST /overview',
    {},
    { query: { home: app.home ?? undefined }, body: { app_ids: [app.id] } },
  );
  return apps[app.id]!;
};

const templates: Service<'apps.templates'> = async () => ({ items: [...projects] });

const update: Service<'apps.update'> = async (context, { id, desired_state, replicas }) => {
  const app = context.app(id);
  if (desired_state === undefined && replicas === undefined)
    throw new Problem('invalid_input', 'There is nothing to change: give desired_state or replicas.');
  const scaled = replicas === undefined ? null : await scale(context, id, replicas);
  if (desired_state === undefined) return toApp(scaled!, context.env);
  return toApp(unwrap(await (desired_state === 'running' ? app.start(id) : app.stop(id))), context.env);
};

async function scale(context: RequestContext, id: string, replicas: number): Promise<AppRow> {
  const { row, changed } = await changeApp(context, id, { kind: 'scale', replicas });
  if (changed !== null) return row;
  const message =
    'must be 1, because the app keeps its data on the machine; move it into the bucket first (apps.move)';
  throw new Problem('invalid_input', `replicas ${message}`, [{ path: 'replicas', message }]);
}

const sleep: Service<'apps.sleep'> = async (context, { id }) =>
  toApp(unwrap(await context.app(id).sleep(id)), context.env);

const move: Service<'apps.move'> = async (context, { id, to, host, dry_run = false }) => {
  const app = await requireApp(context, id);
  if (to === undefined) return moveToHost(context, app, host!, dry_run);
  if (to === 'local' && app.replicas > 1)
    throw new Problem(
      'app_immovable',
      'The app runs several processes, which need the bucket; set replicas to 1 first.',
    );
  const { plan, applied } = await context.host.call(
    'POST /apps/:id/move',
    { id: app.id },
    { body: { to, dry_run } },
  );
  if (applied !== null) await observeApp(context.db, applied.app, applied.as_of);
  return { ...plan, moved: applied !== null };
};

/** Makes another host the home of an app. Moves no data, because the data is in the bucket. */
async function moveToHost(context: Context, app: AppRow, host: string, dryRun: boolean) {
  const { row, state } = await requireHost(context.env, host);
  if (app.storage === 'local')
    throw new Problem(
      'app_immovable',
      'The data of the app is on its machine; move the data into the bucket first, with `to`.',
    );
  if (state === 'silent')
    throw new Problem(
      'host_unavailable',
      `The host ${row.name} does not report; start that host, or name another one.`,
    );
  if (state === 'draining' && app.home !== row.id)
    throw new Problem(
      'host_unavailable',
      `The host ${row.name} is being drained or is stopping; name another one.`,
    );
  if (!dryRun)
    unwrap(await context.app(app.id).rehome(app.id, { from: app.home, to: row.id, isLost: false }));
  const moved = { previews: 0, databases: 0, namespaces: 0, objects: 0, r2_objects: 0, bytes: 0 };
  return { from: app.storage, to: app.storage, ...moved, moved: !dryRun && app.home !== row.id };
}

const rename: Service<'apps.rename'> = async (context, { id, slug }) => {
  const { dispatch_script: script } = await requireApp(context, id);
  if (script !== null)
    throw new Problem('invalid_input', `The script ${script} of a dispatch namespace cannot be renamed.`);
  const { row } = await changeApp(context, id, { kind: 'rename', slug });
  return toApp(row, context.env);
};

const remove: Service<'apps.delete'> = async (context, { id }) =>
  unwrap(await context.app(id).delete(id, context.at));

export const appServices = {
  'apps.list': list,
  'apps.overview': overview,
  'apps.create': create,
  'apps.get': get,
  'apps.get_by_slug': getBySlug,
  'apps.figures': figures,
  'apps.templates': templates,
  'apps.update': update,
  'apps.move': move,
  'apps.rename': rename,
  'apps.sleep': sleep,
  'apps.delete': remove,
};

/** Returns an app by its id. @throws {Problem} `app_not_found` */
export async function requireApp({ reads }: Context, id: string): Promise<AppRow> {
  const row = await findApp(reads, id);
  if (row === null) throw new Problem('app_not_found');
  return row;
}

/** Writes a transition of an app, and has the host apply it. @throws {Problem} `app_not_found`, or why it was refused */
export async function changeApp(context: RequestContext, id: string, change: Change): Promise<Changed> {
  return unwrap(await context.app(id).change(id, change, context.at));
}

/** Converts a stored app to the API's format. */
export function toApp(row: AppRow, env: Env): App {
  return {
    id: row.id,
    slug: row.slug,
    owner: row.owner_id,
    desired_state: row.desired_state,
    status: row.status,
    asleep_since: row.asleep_since,
    woke_at: row.woke_at,
    url: env.PUBLIC_APP_URL.replace('{slug}', row.slug),
    git_url: gitUrl(row, env),
    live_deploy_id: row.live_deploy_id,
    deployed_at: row.deployed_at,
    last_error: row.last_error,
    warnings: JSON.parse(row.warnings),
    storage: row.storage,
    home: row.home === null ? null : { id: row.home, name: row.home_name ?? row.home },
    replicas: row.replicas,
    dispatch:
      row.dispatch_namespace === null
        ? null
        : { namespace: row.dispatch_namespace, script: row.dispatch_script! },
    maintenance: row.maintenance === 1,
    created_at: row.created_at,
  };
}

/** Returns the URL of an app's repository, without credentials. */
export function gitUrl({ slug }: AppRow, env: Env): string {
  return `${env.PUBLIC_GIT_URL}/${slug}`;
}
