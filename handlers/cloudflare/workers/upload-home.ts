// Chooses the host that stores and deploys an upload.
import { type HostRow, listHosts } from '../../../sqlite/control/hosts.ts';
import { hashOf } from '../../secrets.ts';
import type { CallContext } from '../call.ts';

/**
 * Returns the id of the app's home, which is the host that runs the app. For a new app, the name determines the host:
 * Wrangler sends assets before code, and both must reach the same host. Undefined in a Cellar of one host.
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

/**
 * Returns the host for which the hash of host and name is highest (rendezvous hashing). When hosts join or leave, few names
 * change their host.
 */
async function hostByName(hosts: HostRow[], name: string): Promise<string | undefined> {
  const ranked = await Promise.all(
    hosts.map(async ({ id }) => ({ id, rank: await hashOf(`${id} ${name}`) })),
  );
  return ranked.sort((a, b) => (a.rank < b.rank ? 1 : -1))[0]?.id;
}
