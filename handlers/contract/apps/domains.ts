// Custom hostnames.
import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** Most domains of one app. */
export const DOMAIN_LIMIT = 100;

/** Two or more labels. The last is no number, so that an IP address does not match. */
const HOSTNAME =
  /^(?=.{4,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+(?!\d+$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])$/;

/**
 * Returns a hostname as DNS has it: lower case, ASCII, without the dot at the end. People paste addresses of pages: scheme,
 * port and path are left out. Null when the text has no hostname.
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

/** How long a hostname that was served stays reserved for its owner after it was removed, in ms. */
export const DOMAIN_RESERVED_MS = 7 * 24 * 3_600_000;

export const Domain = z.strictObject({
  hostname: z.string(),
  app_id: id,
  created_at: time,
  /** `pending`: it is not served, because its DNS neither points to this machine nor names the app. `active`: it is served. */
  state: z.enum(['pending', 'active']),
  /** Why it is pending: what the last lookup found. */
  reason: z.string().nullable(),
  /** When it was looked up last; null before the first time. */
  checked_at: time.nullable(),
  /** While it is pending: DNS records, each of which makes it active. */
  records: z.array(z.strictObject({ type: z.enum(['CNAME', 'TXT']), name: z.string(), value: z.string() })),
});
export type Domain = z.output<typeof Domain>;

/** How long the lookup of a name may take, in ms; it may wait as long for its turn. */
export const DOMAIN_LOOKUP_MS = 5_000;

/** Where a name leads, and whether there is a certificate for it. */
const lookup = {
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
    /** The texts of the TXT records of `_cellar.<hostname>`, at most 20. */
    texts: z.array(z.string()),
  }),
  /** `off`: Cellar speaks plain HTTP, and what stands in front has the certificates. `waiting`: the first visit gets it. */
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
    summary: "Looks up where an app's hostname leads, and has it served when that proves it",
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
    summary: 'Attaches a hostname; it is served once its DNS points here or names the app',
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
    summary: 'Detaches a hostname, which stays reserved for its owner for 7 days',
    method: 'DELETE',
    path: '/v1/apps/:id/domains/:hostname',
    needs: 'admin',
    input: z.strictObject({ id: reference, hostname: reference }),
    output: nothing,
    status: 204,
    errors: ['app_not_found', 'domain_not_found', 'transition_conflict', 'host_unavailable'],
  }),
] as const;
