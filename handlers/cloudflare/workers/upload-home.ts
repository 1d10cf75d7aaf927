// Which host takes an upload: the one that deploys it.
import { type HostRow, listHosts } from '../../../sqlite/control/hosts.ts';
import { hashOf } from '../../secrets.ts';
import type { CallContext } from '../call.ts';

/**
 * Returns the home of the app. An app that the upload creates has none yet, and Wrangler sends its assets before its code: then
 * the host follows from the name, so that both go to the same one. Undefined in a Cellar of one host.
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

/** Returns the host with the highest hash of itself and the name: another host that joins or leaves moves few names. */
async function hostByName(hosts: HostRow[], name: string): Promise<string | undefined> {
  const ranked = await Promise.all(
    hosts.map(async ({ id }) => ({ id, rank: await hashOf(`${id} ${name}`) })),
  );
  return ranked.sort((a, b) => (a.rank < b.rank ? 1 : -1))[0]?.id;
}
