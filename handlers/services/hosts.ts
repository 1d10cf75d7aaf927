import { countHomes } from '../../sqlite/control/hosts.ts';
import { unwrap } from '../app/outcome.ts';
import type { Env } from '../env.ts';
import { hostsOf } from '../hosts/every-host.ts';
import type { SeenHost } from '../hosts/hosts-object.ts';
import { Problem } from '../problem.ts';
import { decodeNumbers, encodeCursor } from './cursor.ts';
import type { Service } from './types.ts';

const list: Service<'hosts.list'> = async ({ env, db }, { limit, cursor }) => {
  const [all, counts] = await Promise.all([seenHosts(env), countHomes(db)]);
  const from = decodeNumbers('hosts.list', cursor, 1)?.[0] ?? 0;
  const items = all.slice(from, from + limit).map(({ row, state, load, clockAheadMs, reportedAt }) => {
    const count = counts.find(({ home }) => home === row.id);
    return {
      id: row.id,
      name: row.name,
      address: row.address,
      version: row.version,
      state,
      apps: count?.apps ?? 0,
      local_apps: count?.local ?? 0,
      started_at: row.started_at,
      silent_since: row.silent_since,
      reported_at: reportedAt,
      clock_ahead_ms: clockAheadMs,
      load: load && {
        memory_free_bytes: load.memory_free_bytes,
        memory_total_bytes: load.memory_total_bytes,
        cpu: load.cpu,
        disk_free_bytes: load.disk_free_bytes,
        disk_total_bytes: load.disk_total_bytes,
        running: load.running,
      },
    };
  });
  const next = from + limit < all.length ? encodeCursor('hosts.list', [String(from + limit)]) : null;
  return { items, next_cursor: next };
};

const drain: Service<'hosts.drain'> = async ({ env }, { host, drain: drains }) =>
  unwrap(await hostsOf(env).drain((await requireHost(env, host)).row.id, drains));

const remove: Service<'hosts.remove'> = async ({ env }, { host }) =>
  unwrap(await hostsOf(env).remove((await requireHost(env, host)).row.id));

export const hostServices = {
  'hosts.list': list,
  'hosts.drain': drain,
  'hosts.remove': remove,
};

/** Finds a host by its id, or by a name that only one host has. @throws {Problem} `host_not_found` */
export async function requireHost(env: Env, host: string): Promise<SeenHost> {
  const all = await seenHosts(env);
  const byId = all.find(({ row }) => row.id === host);
  if (byId !== undefined) return byId;
  const named = all.filter(({ row }) => row.name === host);
  if (named.length === 1) return named[0]!;
  throw new Problem(
    'host_not_found',
    named.length === 0
      ? `There is no host ${host}; \`cellar hosts\` lists them.`
      : `Several hosts are called ${host}; use the id of one of them: ${named.map(({ row }) => row.id).join(', ')}.`,
  );
}

/** Returns the state of the host with an id; null for an unknown one. */
export async function stateOfHost(env: Env, id: string): Promise<SeenHost['state'] | null> {
  return (await seenHosts(env)).find(({ row }) => row.id === id)?.state ?? null;
}

/** Returns all hosts; an empty list in a Cellar of one host. */
async function seenHosts(env: Env): Promise<SeenHost[]> {
  return env.HOST_ID ? hostsOf(env).list() : [];
}
