// Chooses the host for an upload. The same host deploys it.
import { type HostRow, listHosts } from '../../../sqlite/control/hosts.ts';
import { hashOf } from '../../secrets.ts';
import type { CallContext } from '../call.ts';

/**
 * Returns the home of the app, the host that runs it. A new app has none yet, so its name determines the host. Wrangler sends the
 * assets before the code, and both must reach the same host. Undefined in a Cellar of one host.
 */
export async function homeOfUpload(
  { env, db, account, words }: CallContext,
  app: { home: string | null } | null,
): Promise<string | undefined> {
  if (!env.HOST_ID) return undefined;
  if (app !== null) return app.home ?? undefined;
  const active = (await listHosts(db)).filter((host) => host.silent_since === null && host.is_draining === 0);
  return (await hostByName(active, `${account}/${words.script}`)) ?? env.HOST_ID;
}

/** Returns the host with the highest hash of host and name. So few names change their host when hosts join or leave. */
async function hostByName(hosts: HostRow[], name: string): Promise<string | undefined> {
  const ranked = await Promise.all(
    hosts.map(async ({ id }) => ({ id, rank: await hashOf(`${id} ${name}`) })),
  );
  return ranked.sort((a, b) => (a.rank < b.rank ? 1 : -1))[0]?.id;
}
