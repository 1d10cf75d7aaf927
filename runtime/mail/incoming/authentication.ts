// Checks SPF, DKIM and DMARC of a received e-mail.
import { Resolver } from 'node:dns/promises';
import { getPriority, setPriority } from 'node:os';
import { type AuthenticateResult, authenticate, type DMARCResult, dmarc as dmarcOf } from 'mailauth';
import { reason } from '../../log.ts';

/** Maximum DNS lookups for one e-mail, without those for DMARC policies. */
const LOOKUPS = 60;
/** Maximum total time of these lookups, in ms. */
const LOOKUPS_MS = 15_000;
/**
 * Maximum DNS lookups for DMARC policies. They have their own limit, because a sender could use up the other lookups. Then
 * the policy that refuses a forged e-mail would not be found.
 */
const POLICY_LOOKUPS = 150;
/** Maximum domains of the addresses in the From header: DMARC is checked for each. */
export const FROM_DOMAINS = 5;
/** Timeout of a DNS lookup, in ms. */
const LOOKUP_MS = 5_000;

/** Looks up DNS records, as `Resolver.resolve` does. */
export type Lookup = (name: string, type: string) => Promise<string[] | string[][]>;

/** The connection that an e-mail came by, and its sender. */
export interface Origin {
  address: string;
  helo: string;
  /** The envelope's sender. Empty for a notification of a mail server. */
  from: string;
}

export interface Authentication {
  /** The value of the header Authentication-Results, perhaps on several lines. */
  results: string;
  dmarc: 'pass' | 'fail' | 'other';
  /** Whether DMARC failed, and the policy of a domain in the From header is to refuse such e-mails. */
  isRefused: boolean;
  /** Whether a lookup for SPF or DKIM has failed. Then a genuine e-mail may look forged. */
  isUncertain: boolean;
  /** Whether the From header has addresses of more than `FROM_DOMAINS` domains. Then DMARC is not checked for all. */
  hasManyDomains: boolean;
}

/** Policies of DMARC, the strictest last. */
const STRICTNESS = ['none', 'quarantine', 'reject'];
/** Niceness of the checking thread: e-mails of strangers must not slow down other work. */
const NICENESS = 10;

/** Checks an e-mail at a low priority. Runs in a worker thread. @param message the thread's own copy */
export function authenticatedInThread(
  message: Uint8Array,
  origin: Origin,
  name: string,
): Promise<Authentication> {
  // Keeps a lower priority that is already set: only root may raise it.
  setPriority(Math.max(NICENESS, getPriority()));
  return authenticated(Buffer.from(message.buffer, message.byteOffset, message.length), origin, name);
}

/**
 * Checks an e-mail. Failed lookups make results `temperror`; never rejects.
 * @param name of this mail server
 * @param lookup replaced in tests
 */
export async function authenticated(
  message: Buffer,
  { address, helo, from }: Origin,
  name: string,
  lookup?: Lookup,
): Promise<Authentication> {
  const resolver = new Resolver({ timeout: LOOKUP_MS / 2, tries: 2 });
  const policies = new Resolver({ timeout: LOOKUP_MS / 2, tries: 2 });
  const look = (by: Resolver) => lookup ?? ((domain, type) => by.resolve(domain, type) as ReturnType<Lookup>);
  const tooMany = () => Promise.reject(Object.assign(new Error('too many lookups'), { code: 'ETIMEOUT' }));
  const late = AbortSignal.timeout(LOOKUPS_MS);
  const end = () => resolver.cancel();
  late.addEventListener('abort', end);
  let lookups = 0;
  let policyLookups = 0;
  // Caches lookups, because the checks of several domains look up mostly the same names.
  const found = new Map<string, ReturnType<Lookup>>();
  const policy: Lookup = (domain, type) => {
    const key = `${type} ${domain}`;
    const known = found.get(key);
    if (known !== undefined) return known;
    const lookedUp = ++policyLookups > POLICY_LOOKUPS ? tooMany() : look(policies)(domain, type);
    found.set(key, lookedUp);
    return lookedUp;
  };
  const bounded: Lookup = (domain, type) => {
    if (domain.startsWith('_dmarc.')) return policy(domain, type);
    return late.aborted || ++lookups > LOOKUPS ? tooMany() : look(resolver)(domain, type);
  };
  try {
    const checked = await authenticate(message, {
      ip: address,
      helo,
      sender: from,
      mta: name,
      resolver: bounded,
      disableArc: true,
      disableBimi: true,
    });
    const { dkim, spf } = checked;
    const domains = domainsOf(dkim.headerFrom);
    const hasManyDomains = domains.length > FROM_DOMAINS;
    const dmarc =
      checked.dmarc || hasManyDomains ? checked.dmarc : await strictest(checked, domains, bounded);
    const isUncertain = [...(dkim.results ?? []), spf || undefined].some(
      (each) => each?.status.result === 'temperror',
    );
    const verdict = dmarc === false || dmarc === undefined ? 'none' : dmarc.status.result;
    return {
      results: resultsOf(name, dmarc === false ? undefined : dmarc?.info, [
        ...(dkim.results ?? []).map(({ info }) => info),
        spf === false ? undefined : spf?.info,
      ]),
      dmarc: verdict === 'pass' || verdict === 'fail' ? verdict : 'other',
      isRefused: verdict === 'fail' && dmarc !== false && dmarc?.policy === 'reject',
      isUncertain,
      hasManyDomains,
    };
  } catch (error) {
    // Senders can make the parser fail. The e-mail must still arrive.
    console.error(`an e-mail could not be authenticated: ${reason(error)}`);
    return {
      results: resultsOf(name, 'dmarc=temperror', ['dkim=temperror', 'spf=temperror']),
      dmarc: 'other',
      isRefused: false,
      isUncertain: true,
      hasManyDomains: false,
    };
  } finally {
    late.removeEventListener('abort', end);
  }
}

/**
 * Returns the domains of addresses. In a malformed address, each part after an @ counts: mail readers may show any of these
 * parts as the sender's domain.
 */
function domainsOf(addresses: string[] = []): string[] {
  const parts = addresses.flatMap((address) => address.split('@').slice(1));
  return [...new Set(parts.map((part) => part.trim().toLowerCase()))];
}

/**
 * Returns the failed DMARC result with the strictest policy, for a From header with several domains (RFC 7489, section
 * 6.6.1). Returns false when DMARC fails for none of them. Never returns a pass: one domain could vouch for another's name.
 */
async function strictest(
  { dkim, spf }: AuthenticateResult,
  domains: string[],
  resolver: Lookup,
): Promise<DMARCResult | false> {
  const spfDomains = spf !== false && spf?.status.result === 'pass' ? [spf.domain] : [];
  const dkimDomains = (dkim.results ?? [])
    .filter(({ status, signingDomain }) => status.result === 'pass' && signingDomain !== undefined)
    .map(({ signingDomain }) => ({ domain: signingDomain! }));
  const results = await Promise.all(
    domains.map((headerFrom) => dmarcOf({ headerFrom, spfDomains, dkimDomains, resolver })),
  );
  const strict = (result: DMARCResult | false) => {
    if (result === false) return -1;
    return result.status.result === 'fail' ? STRICTNESS.indexOf(result.policy ?? '') : -1;
  };
  const [first = false] = results.toSorted((a, b) => strict(b) - strict(a));
  return strict(first) === -1 ? false : first;
}

/**
 * Returns the header's value. DMARC comes first, and no text of the sender can imitate its result: apps look for
 * `dmarc=pass`.
 */
function resultsOf(name: string, dmarc = 'dmarc=none', others: (string | undefined)[]): string {
  const harmless = (text: string) => text.replace(/[\r\n]+/g, ' ').replace(/dmarc(?=\s*=)/gi, 'dmarc_');
  const [, method = '', rest = ''] = /^(dmarc=)(.*)$/s.exec(dmarc) ?? [];
  const all = [method + harmless(rest), ...others.filter((each) => each !== undefined).map(harmless)];
  return [name, ...all].join(';\r\n ');
}
