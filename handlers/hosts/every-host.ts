// Calls to every host, and the choice of a new app's host.
import { type HostRow, listHosts } from '../../sqlite/control/hosts.ts';
import type { RequestContext } from '../context.ts';
import type { Env } from '../env.ts';
import type { HostsObject } from './hosts-object.ts';

/** How long a host may take to answer, in ms. */
export const HOST_ANSWER_MS = 3_000;

/** The answer of a host. */
export interface HostAnswer<Answer> {
  host: HostRow;
  answer: Answer;
}

/** Returns the Durable Object of all hosts. */
export function hostsOf(env: Env): DurableObjectStub<HostsObject> {
  return env.HOSTS.getByName('hosts');
}

/**
 * Asks every host that is not silent. The result lacks hosts that do not answer.
 * @param ask makes the call, with the host's id as `home` in the query; should have the deadline `HOST_ANSWER_MS`
 */
export async function askHosts<Answer>(
  { db }: Pick<RequestContext, 'db'>,
  ask: (home: string) => Promise<Answer>,
): Promise<HostAnswer<Answer>[]> {
  const hosts = (await listHosts(db)).filter(({ silent_since }) => silent_since === null);
  const answers = await Promise.all(
    hosts.map((host) =>
      ask(host.id).then(
        (answer) => [{ host, answer }],
        () => [],
      ),
    ),
  );
  return answers.flat();
}

/** Returns the id of the host that becomes the home of a new app; null in a Cellar of one host. */
export async function placeApp({
  env,
  newHome,
}: Pick<RequestContext, 'env' | 'newHome'>): Promise<string | null> {
  if (!env.HOST_ID) return null;
  return newHome ?? (await hostsOf(env).place()) ?? env.HOST_ID;
}
