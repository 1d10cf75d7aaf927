// Calls that list the Workers which use a given Worker. Wrangler makes them before it deletes a Worker, and shows the list.
import type { AppRow } from '../../../sqlite/control/apps/apps.ts';
import type { DescribedRelease } from '../../contract/host/host-releases.ts';
import { Problem } from '../../problem.ts';
import { appCall, type CallContext } from '../call.ts';
import { allApps } from './scripts.ts';

export const referenceCalls = [
  appCall({
    method: 'GET',
    path: '/accounts/:account/workers/scripts/:script/references',
    as: 'apps.get',
    answer: async (context, _body, app) => {
      const siblings = await siblingsOf(context, app);
      return {
        services: {
          incoming: siblings
            .filter(({ release }) => release.services.some(({ service }) => service === app.slug))
            .map(({ slug: service }) => ({ service })),
          outgoing: [],
        },
        durable_objects: siblings.flatMap(({ slug: service, release }) =>
          release.durable_objects
            .filter(({ script_name }) => script_name === app.slug)
            .map(({ class_name }) => ({ service, durable_object_namespace_name: class_name })),
        ),
        dispatch_outbounds: [],
      };
    },
  }),
  appCall({
    method: 'GET',
    path: '/accounts/:account/workers/tails/by-consumer/:script',
    as: 'apps.get',
    answer: async (context, _body, app) =>
      (await siblingsOf(context, app))
        .filter(({ release }) => release.tail_consumers.includes(app.slug))
        .map(({ slug: script }) => ({ producer: { script } })),
  }),
];

/**
 * Returns the other apps of the app's owner that the caller sees, with their live releases. A release can refer only to apps
 * of its own owner.
 */
async function siblingsOf(
  context: CallContext,
  app: AppRow,
): Promise<{ slug: string; release: DescribedRelease }[]> {
  const apps = (await allApps(context)).filter(({ id, owner }) => owner === app.owner_id && id !== app.id);
  const found = [];
  for (const { id, slug } of apps) {
    const release = await context.host.call('GET /apps/:id/release', { id }).catch((error: unknown) => {
      // The app was deleted meanwhile, or its host does not know it yet.
      if (error instanceof Problem && error.code === 'app_not_found') return null;
      throw error;
    });
    if (release !== null) found.push({ slug, release });
  }
  return found;
}
