// The hosts of a Cellar that runs on several machines.
import * as z from 'zod';
import { listOf, nothing, page, reference, time } from './fields.ts';
import { operation } from './operation.ts';

/** `draining`: its apps move to other hosts, and it gets no new ones. `silent`: it has not reported for 20 s. */
export const hostState = z.enum(['active', 'draining', 'silent']);

export const Host = z.strictObject({
  /** The host's id, which is the id of its data directory. */
  id: z.string(),
  name: z.string(),
  address: z.string(),
  version: z.string(),
  state: hostState,
  /** Number of apps whose home is this host. */
  apps: z.int(),
  /** Number of these apps that cannot move, because their data is on this host's disk. */
  local_apps: z.int(),
  started_at: time,
  /** Time at which the host became silent; null while it reports. */
  silent_since: time.nullable(),
  /** Time of its last report; null before the first one. */
  reported_at: time.nullable(),
  /** How far the host's clock is ahead of the bucket's clock, in ms; null before this is known. */
  clock_ahead_ms: z.number().nullable(),
  /** The load in the host's last report; null before its first report. */
  load: z
    .strictObject({
      memory_free_bytes: z.int(),
      memory_total_bytes: z.int(),
      /** Processor use of the last minute: 0 is idle, 1 is all processors. */
      cpu: z.number(),
      disk_free_bytes: z.int(),
      disk_total_bytes: z.int(),
      /** Number of apps with a process. */
      running: z.int(),
    })
    .nullable(),
});
export type Host = z.output<typeof Host>;

const host = reference;

export const hosts = [
  operation({
    name: 'hosts.list',
    summary: 'Lists the hosts of a Cellar that runs on several machines; with one machine, the list is empty',
    method: 'GET',
    path: '/v1/hosts',
    needs: 'runner',
    input: z.strictObject({ ...page }),
    output: listOf(Host),
  }),
  operation({
    name: 'hosts.drain',
    summary: 'Drains a host: its apps move to other hosts one by one, and it gets no new apps',
    method: 'POST',
    path: '/v1/hosts/:host/drain',
    needs: 'runner',
    input: z.strictObject({ host, drain: z.boolean().default(true) }),
    output: nothing,
    errors: ['host_not_found'],
  }),
  operation({
    name: 'hosts.remove',
    summary: 'Removes a host that is silent or has no apps; when the host starts again, it joins again',
    method: 'DELETE',
    path: '/v1/hosts/:host',
    needs: 'runner',
    input: z.strictObject({ host }),
    output: nothing,
    errors: ['host_not_found', 'host_in_use'],
  }),
] as const;
