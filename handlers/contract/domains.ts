// Custom hostnames.
import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from './fields.ts';
import { operation } from './operation.ts';

/** Most domains of one app. */
export const DOMAIN_LIMIT = 100;

/** Two or more labels. The last is no number, so that an IP address does not match. */
const HOSTNAME =
  /^(?=.{4,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+(?!\d+$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])$/;

/** A hostname as DNS has it: lower case, ASCII, without the dot at the end. Null when the text is no hostname. */
export function normalHostname(given: string): string | null {
  const name = given.toLowerCase().replace(/\.$/, '');
  if (/[^a-z0-9._\-\u0080-\uffff]/.test(name) || !URL.canParse(`http://${name}`)) return null;
  const { hostname } = new URL(`http://${name}`);
  return HOSTNAME.test(hostname) ? hostname : null;
}

const hostname = z
  .string()
  .max(300)
  .transform((given, context) => {
    const name = normalHostname(given);
    if (name !== null) return name;
    context.addIssue({
      code: 'custom',
      message: 'must be a hostname such as shop.example.com, without scheme or port',
    });
    return z.NEVER;
  });

export const Domain = z.strictObject({ hostname: z.string(), app_id: id, created_at: time });

/** How long a check of a name may take, in ms. */
export const DOMAIN_CHECK_MS = 5_000;

/** Where a name leads, and whether there is a certificate for it. */
export const DomainState = z.strictObject({
  hostname: z.string(),
  dns: z.strictObject({
    /**
     * `here`: to this machine. `elsewhere`: to other addresses only; behind a proxy of one's own that is right.
     * `none`: nowhere. `unknown`: no name server answered in time.
     */
    leads: z.enum(['here', 'elsewhere', 'none', 'unknown']),
    /** What the name has, at most 20. */
    addresses: z.array(z.string()),
    /** The name that it is another name of, if it is one. */
    alias: z.string().nullable(),
    /** Public addresses that are known to be this machine's: its own, and those of the base domain. */
    machine: z.array(z.string()),
  }),
  /** `off`: Cellar speaks plain HTTP, and what stands in front has the certificates. `waiting`: the first visit gets it. */
  certificate: z.strictObject({
    state: z.enum(['off', 'waiting', 'valid', 'expired']),
    until: time.nullable(),
    issuer: z.string().nullable(),
  }),
});
export type DomainState = z.output<typeof DomainState>;

export const domains = [
  operation({
    name: 'domains.check',
    summary: "Looks up where an app's hostname leads, and whether there is a certificate for it",
    method: 'GET',
    path: null,
    needs: 'view',
    input: z.strictObject({ id: reference, hostname: reference }),
    output: DomainState,
    status: 200,
    errors: ['app_not_found', 'domain_not_found', 'rate_limited', 'host_unavailable'],
  }),
  operation({
    name: 'domains.list',
    summary: "Lists an app's custom hostnames",
    method: 'GET',
    path: '/v1/apps/:id/domains',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Domain),
    status: 200,
    errors: ['app_not_found'],
  }),
  operation({
    name: 'domains.add',
    summary: 'Attaches a hostname; it is served at once',
    method: 'POST',
    path: '/v1/apps/:id/domains',
    needs: 'admin',
    input: z.strictObject({ id: reference, hostname }),
    output: Domain,
    status: 201,
    errors: ['app_not_found', 'domain_taken', 'quota_exceeded', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'domains.remove',
    summary: 'Detaches a hostname',
    method: 'DELETE',
    path: '/v1/apps/:id/domains/:hostname',
    needs: 'admin',
    input: z.strictObject({ id: reference, hostname: reference }),
    output: nothing,
    status: 204,
    errors: ['app_not_found', 'domain_not_found', 'transition_conflict', 'host_unavailable'],
  }),
] as const;
