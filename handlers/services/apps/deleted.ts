// Deleted apps. They can be undeleted for `UNDELETABLE_MS`.
import { type DeletedRow, findDeleted, listDeleted } from '../../../sqlite/control/apps/deleted.ts';
import { findDispatchNamespace } from '../../../sqlite/control/apps/dispatch.ts';
import { seesAppsOf } from '../../access.ts';
import { unwrap } from '../../app/outcome.ts';
import type { RequestContext } from '../../context.ts';
import { UNDELETABLE_MS } from '../../contract/apps/apps.ts';
import { undeletableSince } from '../../host/prune.ts';
import { placeApp } from '../../hosts/every-host.ts';
import { Problem } from '../../problem.ts';
import { decodeCursor } from '../cursor.ts';
import { stateOfHost } from '../hosts.ts';
import { listAnswer } from '../paging.ts';
import type { Service } from '../types.ts';
import { toApp } from './apps.ts';

const list: Service<'apps.list_deleted'> = async ({ reads, actor, at }, { limit, cursor }) => {
  const [deletedAt, id] = decodeCursor('apps.list_deleted', cursor, 2) ?? [];
  const before: [string, string] | null =
    deletedAt === undefined || id === undefined ? null : [deletedAt, id];
  const filter = { by: seesAppsOf(actor), since: undeletableSince(at), before, limit };
  return listAnswer('apps.list_deleted', await listDeleted(reads, filter), (row) => ({
    id: row.id,
    slug: row.slug,
    owner: row.owner_id,
    storage: row.storage,
    deleted_at: row.deleted_at,
    removed_at: new Date(Date.parse(row.deleted_at) + UNDELETABLE_MS).toISOString(),
  }));
};

const undelete: Service<'apps.undelete'> = async (context, { app, slug }) => {
  const { env, actor, reads, at } = context;
  const found = await findDeleted(reads, app, { by: seesAppsOf(actor), since: undeletableSince(at) });
  if (found === null)
    throw new Problem(
      'app_not_found',
      `No app ${app} can be undeleted; apps.list_deleted lists those that can.`,
    );
  const { dispatch_namespace: namespace } = found;
  if (namespace !== null) {
    if (slug !== undefined)
      throw new Problem('invalid_input', 'A script of a dispatch namespace cannot get another name.');
    if ((await findDispatchNamespace(reads, found.owner_id, namespace)) === null)
      throw new Problem(
        'invalid_input',
        `The dispatch namespace ${namespace} of the script was deleted; make the namespace again first.`,
      );
  }
  const row = await context.app(found.id).undelete(found.id, {
    slug: slug ?? found.slug,
    home: await homeFor(context, found),
    quota: Number(namespace === null ? env.RUNNER_MAX_APPS_PER_USER : env.RUNNER_MAX_SCRIPTS_PER_USER),
    deleted: { at: found.deleted_at, slug: found.slug },
  });
  return toApp(unwrap(row), env);
};

/**
 * Returns the home of an app after its undeletion: its last home, or any host if the last home is silent or removed and the
 * data is in the bucket.
 * @returns null in a Cellar of one host
 * @throws {Problem} `host_unavailable` when the data is on the disk of a host that is silent or removed
 */
async function homeFor(context: RequestContext, { home, storage }: DeletedRow): Promise<string | null> {
  if (!context.env.HOST_ID) return null;
  const state = home === null ? null : await stateOfHost(context.env, home);
  if (state !== null && state !== 'silent') return home;
  if (storage === 'bucket') return placeApp(context);
  throw new Problem(
    'host_unavailable',
    'The data of the app is on the disk of a host that does not answer; start that host first.',
  );
}

export const deletedAppServices = { 'apps.list_deleted': list, 'apps.undelete': undelete };
