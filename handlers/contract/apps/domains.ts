// Custom hostnames.
import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** Maximum domains of one app. */
export const DOMAIN_LIMIT = 100;

/** Two or more labels. The last label is not a number, so an IPv4 address does not match. */
const HOSTNAME =
  /^(?=.{4,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+(?!\d+$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])$/;

/**
 * Normalizes a hostname as in DNS: lower case, ASCII, no trailing dot. Strips scheme, port and path, because people paste URLs.
 * Returns null when the text has no hostname.
 */
export function normalHostname(given: string): string | null {
  const name = given
    .trim()
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/(:\d{1,5})?([/?#].*)?$/s, '')
    .replace(/\.$/, '');
  if (/[^a-z0-9._\-\u0080-\uffff]/.test(name) || !URL.canParse(`http://${name}`)) return null;
  const { hostname } = new URL(`http://${name}`);
  return HOSTNAME.test(hostname) ? hostname : null;
}

const hostname = z
  .string()
  .max(2_000)
  .transform((given, context) => {
    const name = normalHostname(given);
    if (name !== null) return name;
    context.addIssue({
      code: 'custom',
      message: 'must be a hostname such as shop.example.com',
    });
    return z.NEVER;
  });

/** How long a removed hostname that was served stays reserved for its owner, in ms. */
export const DOMAIN_RESERVED_MS = 7 * 24 * 3_600_000;

export const Domain = z.strictObject({
  hostname: z.string(),
  app_id: id,
  created_at: time,
  /**
   * `pending`: not served, because no DNS lookup has found that it points to this machine or names the app. `active`:
   * served.
   */
  state: z.enum(['pending', 'active']),
  /** Why the hostname is pending, by the last DNS lookup; null for an active hostname, and before the first lookup. */
  reason: z.string().nullable(),
  /** Time of the last DNS lookup; null before the first one. */
  checked_at: time.nullable(),
  /** DNS records for a pending hostname. One of them is enough to make it active. Empty for an active hostname. */
  records: z.array(z.strictObject({ type: z.enum(['CNAME', 'TXT']), name: z.string(), value: z.string() })),
});
export type Domain = z.output<typeof Domain>;

/** Timeout of a DNS lookup, in ms. A lookup may also wait in the queue for up to this time before it starts. */
export const DOMAIN_LOOKUP_MS = 5_000;

/** DNS state of a hostname, and its certificate. */
const lookup = {
  dns: z.strictObject({
    /**
     * `here`: the hostname resolves to this machine. `elsewhere`: it resolves only to other addresses, which is normal behind a
     * reverse proxy. `none`: it does not resolve. `unknown`: no name server answered in time.
     */
    leads: z.enum(['here', 'elsewhere', 'none', 'unknown']),
    /** Addresses of the hostname, at most 20. */
    addresses: z.array(z.string()),
    /** The target of its CNAME, if it has one. */
    alias: z.string().nullable(),
    /** Known public addresses of this machine, from its network interfaces and from the DNS of the base domain; at most 20. */
    machine: z.array(z.string()),
    /** TXT records of `_cellar.<hostname>`, at most 20. */
    texts: z.array(z.string()),
  }),
  /** `off`: Cellar speaks plain HTTP; a proxy in front holds the certificates. `waiting`: the first visit requests one. */
  certificate: z.strictObject({
    state: z.enum(['off', 'waiting', 'valid', 'expired']),
    until: time.nullable(),
    issuer: z.string().nullable(),
  }),
};
const DomainLookup = z.strictObject(lookup);
export type DomainLookup = z.output<typeof DomainLookup>;
const DomainState = z.strictObject({ ...Domain.shape, ...lookup });
export type DomainState = z.output<typeof DomainState>;

export const domains = [
  operation({
    name: 'domains.check',
    summary: "Looks up the DNS of an app's hostname, and serves the hostname if the DNS proves its ownership",
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference, hostname: reference }),
    output: DomainState,
    errors: ['domain_not_found', 'rate_limited', 'host_unavailable'],
  }),
  operation({
    name: 'domains.list',
    summary: "Lists an app's custom hostnames",
    method: 'GET',
    path: '/v1/apps/:id/domains',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Domain),
  }),
  operation({
    name: 'domains.add',
    summary:
      'Attaches a hostname to an app; Cellar serves the hostname once its DNS points to this Cellar, or a TXT record names the app',
    method: 'POST',
    path: '/v1/apps/:id/domains',
    needs: 'admin',
    input: z.strictObject({ id: reference, hostname }),
    output: Domain,
    status: 201,
    errors: ['domain_taken', 'quota_exceeded', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'domains.remove',
    summary: 'Detaches a hostname, which stays reserved for its owner for 7 days',
    method: 'DELETE',
    path: '/v1/apps/:id/domains/:hostname',
    needs: 'admin',
    input: z.strictObject({ id: reference, hostname: reference }),
    output: nothing,
    errors: ['domain_not_found', 'transition_conflict', 'host_unavailable'],
  }),
] as const;
