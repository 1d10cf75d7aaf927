// Custom hostnames: which hostnames an app may have, and when they are served. The host queries DNS. This file decides whether
// the DNS records prove that a hostname belongs to the app's owner.
import type { DomainProof } from '../../../sqlite/control/apps/changes.ts';
import {
  type DomainOfApp,
  type DomainRow,
  domainObstacles,
  findDomain,
  listDomains,
  noteLookup,
} from '../../../sqlite/control/domains.ts';
import type { Context, RequestContext } from '../../context.ts';
import {
  DOMAIN_LIMIT,
  DOMAIN_RESERVED_MS,
  type Domain,
  type DomainLookup,
  normalHostname,
} from '../../contract/apps/domains.ts';
import type { Env } from '../../env.ts';
import { Problem } from '../../problem.ts';
import { invalidInput } from '../../transports/validate.ts';
import { listAnswer, pageAfter } from '../paging.ts';
import type { Service } from '../types.ts';
import { changeApp, requireApp } from './apps.ts';

const list: Service<'domains.list'> = async ({ reads, env }, { id, ...page }) => {
  const name = `domains.list ${id}`;
  return listAnswer(name, await listDomains(reads, id, pageAfter(name, page)), (row) => toDomain(row, env));
};

const add: Service<'domains.add'> = async (context, { id, hostname }) => {
  refuseOwnNames(hostname, context.env);
  const { slug, dispatch_script: script } = await requireApp(context, id);
  if (script !== null)
    throw new Problem('invalid_input', `The script ${script} of a dispatch namespace has no hostnames.`);
  // If the lookup fails, the hostname stays pending and is looked up again.
  const lookup = needsProof(context.env) ? await lookUp(context, id, hostname).catch(() => null) : null;
  const proof = proofOf({ hostname, app_id: id, slug }, lookup, context.env);
  const { changed } = await changeApp(context, id, {
    kind: 'domain_add',
    hostname,
    limit: DOMAIN_LIMIT,
    proof,
    reason: proof === null ? reasonOf(hostname, lookup) : null,
    reservedFrom: reservedFrom(context),
  });
  if (changed === null) throw await refusal(context, id, hostname);
  return toDomain(changed as unknown as DomainRow, context.env);
};

const remove: Service<'domains.remove'> = async (context, { id, hostname }) => {
  const name = normalHostname(hostname) ?? hostname;
  const { changed } = await changeApp(context, id, { kind: 'domain_remove', hostname: name });
  if (changed === null) throw new Problem('domain_not_found', `The app has no domain ${hostname}.`);
  return null;
};

const check: Service<'domains.check'> = async (context, { id, hostname }) => {
  const row = await findDomain(context.db, id, normalHostname(hostname) ?? hostname);
  if (row === null) throw new Problem('domain_not_found', `The app has no domain ${hostname}.`);
  const lookup = await lookUp(context, id, row.hostname);
  return { ...toDomain(await settle(context, row, lookup), context.env), ...lookup };
};

/** Looks up the DNS of a hostname that an app has or wants. @throws {Problem} `app_not_found`, `rate_limited` */
function lookUp({ host }: RequestContext, id: string, hostname: string): Promise<DomainLookup> {
  return host.call('GET /apps/:id/domain', { id }, { query: { hostname } });
}

export const domainServices = {
  'domains.list': list,
  'domains.add': add,
  'domains.remove': remove,
  'domains.check': check,
};

/** Looks up a pending hostname, if proof is needed, and activates it when it is proved. */
export async function proveDomain(context: RequestContext, row: DomainOfApp): Promise<void> {
  const lookup = needsProof(context.env) ? await lookUp(context, row.app_id, row.hostname) : null;
  await settle(context, row, lookup);
}

/** Stores the result of a DNS lookup, and activates a hostname that is proved. Returns the updated row. */
async function settle(
  context: RequestContext,
  row: DomainOfApp,
  lookup: DomainLookup | null,
): Promise<DomainRow> {
  if (row.proved_at !== null) return row;
  if (proofOf(row, lookup, context.env) === null) {
    const reason = reasonOf(row.hostname, lookup);
    await noteLookup(context.db, row, reason, context.at);
    return { ...row, checked_at: context.at, reason };
  }
  const { changed } = await changeApp(context, row.app_id, { kind: 'domain_prove', hostname: row.hostname });
  return (changed as DomainRow | null) ?? row;
}

function needsProof(env: Env): boolean {
  return env.DOMAIN_PROOF === 'on';
}

/**
 * Returns the proof that an app may have a hostname; null without a proof. `names`: a TXT record names the app, or no proof
 * is needed. `points`: the hostname leads to this machine.
 */
function proofOf(
  { app_id, slug }: Pick<DomainOfApp, 'hostname' | 'app_id' | 'slug'>,
  lookup: DomainLookup | null,
  env: Env,
): DomainProof | null {
  if (!needsProof(env)) return 'names';
  if (lookup?.dns.texts.some((text) => text === app_id || text === slug)) return 'names';
  return lookup?.dns.leads === 'here' ? 'points' : null;
}

/** Returns why a hostname is pending. */
function reasonOf(hostname: string, lookup: DomainLookup | null): string {
  if (lookup === null)
    return `The DNS of ${hostname} could not be looked up; Cellar tries again in a minute.`;
  const { leads, addresses, machine, texts } = lookup.dns;
  const proof = `_cellar.${hostname} ${texts.length === 0 ? 'has no TXT record' : 'has a TXT record that does not name the app'}`;
  if (leads === 'unknown') return `No name server answered for ${hostname}, and ${proof}.`;
  if (leads === 'none') return `${hostname} has no address, and ${proof}.`;
  const here = machine.length === 0 ? '' : ` (${machine.join(', ')})`;
  return `${hostname} points to ${addresses.join(', ')} and not to this machine${here}, and ${proof}.`;
}

/** Refuses a hostname that belongs to this Cellar or its machine. @throws {Problem} `invalid_input` */
function refuseOwnNames(hostname: string, { BASE_DOMAIN: base, MACHINE_NAMES }: Env): void {
  const message =
    hostname === base || hostname.endsWith(`.${base}`)
      ? `must not be ${base} or a name under it, which belong to this Cellar; to change the name of an app there, rename the app`
      : base.endsWith(`.${hostname}`)
        ? `is a parent of this Cellar's base domain ${base}; use a name beside or outside of it`
        : /(^|\.)(localhost|localdomain)$/.test(hostname)
          ? 'is a name of the machine itself; use a name outside of localhost and localdomain'
          : MACHINE_NAMES.split(',').includes(hostname)
            ? 'is a name of the machine that this Cellar runs on'
            : null;
  if (message !== null) throw invalidInput([{ path: 'hostname', message }]);
}

/** Returns a time, ISO 8601. Hostnames that were removed since then are reserved for the account that had them. */
function reservedFrom({ at }: RequestContext): string {
  return new Date(Date.parse(at) - DOMAIN_RESERVED_MS).toISOString();
}

/** Returns why a hostname was not attached. */
async function refusal(context: Context, id: string, hostname: string): Promise<Problem> {
  const { app_id, proved_at, removed_at } = await domainObstacles(
    context.db,
    id,
    hostname,
    reservedFrom(context),
  );
  if (removed_at !== null) {
    const until = new Date(Date.parse(removed_at) + DOMAIN_RESERVED_MS).toISOString();
    return new Problem(
      'domain_taken',
      `${hostname} was removed from an app of another account, and is reserved for that account until ${until}.`,
    );
  }
  if (app_id === null)
    return new Problem(
      'quota_exceeded',
      `An app may have at most ${DOMAIN_LIMIT} domains; remove one first.`,
    );
  if (proved_at !== null || app_id === id) return new Problem('domain_taken');
  return new Problem(
    'domain_taken',
    `Another app has added ${hostname}, but has not proved that the domain is its own. If it is yours, set the TXT record _cellar.${hostname} to ${id}, and add the domain again.`,
  );
}

function toDomain(
  { hostname, app_id, created_at, proved_at, checked_at, reason }: DomainRow,
  env: Env,
): Domain {
  const isActive = proved_at !== null;
  return {
    hostname,
    app_id,
    created_at,
    state: isActive ? 'active' : 'pending',
    reason: isActive ? null : reason,
    checked_at,
    records: isActive
      ? []
      : [
          { type: 'CNAME', name: hostname, value: env.BASE_DOMAIN },
          { type: 'TXT', name: `_cellar.${hostname}`, value: app_id },
        ],
  };
}
