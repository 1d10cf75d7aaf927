// Where custom hostnames lead, and whether there are certificates for them. Looked up by the host: the control plane has
// no network of its own.
import { X509Certificate } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { open, readdir } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { DOMAIN_CHECK_MS, type DomainState } from '../../handlers/contract/domains.ts';

/** Names that are looked up at the same time. */
const AT_ONCE = 8;
/** Most addresses that are told of. */
const ADDRESSES = 20;
/** A chain of certificates has less, in bytes. */
const CERTIFICATE_BYTES = 64 * 1024;
/** What DNS answers for a name that is not there, or has no such record. */
const NOTHING = ['ENOTFOUND', 'ENODATA'];

/** What is asked of DNS. */
export interface Lookups {
  resolve4: (name: string) => Promise<string[]>;
  resolve6: (name: string) => Promise<string[]>;
  resolveCname: (name: string) => Promise<string[]>;
  cancel: () => void;
}

export interface DomainChecksOptions {
  baseDomain: string;
  /** Caddy's directory; null where there is no Caddy. */
  certificates: string | null;
  /** Others in tests. */
  lookups?: () => Lookups;
  ownAddresses?: () => string[];
}

export class DomainChecks {
  readonly #options: DomainChecksOptions;
  #running = 0;

  constructor(options: DomainChecksOptions) {
    this.#options = options;
  }

  /**
   * @param hostname as DNS has it, attached to an app
   * @returns null when too many are looked up already
   */
  async check(hostname: string): Promise<DomainState | null> {
    if (this.#running >= AT_ONCE) return null;
    this.#running++;
    try {
      const [dns, certificate] = await Promise.all([this.#dns(hostname), this.#certificate(hostname)]);
      return { hostname, dns, certificate };
    } finally {
      this.#running--;
    }
  }

  async #dns(hostname: string): Promise<DomainState['dns']> {
    const { baseDomain, ownAddresses = publicAddresses } = this.#options;
    const lookups = this.#options.lookups?.() ?? new Resolver({ timeout: DOMAIN_CHECK_MS / 2, tries: 1 });
    const timer = setTimeout(() => lookups.cancel(), DOMAIN_CHECK_MS);
    try {
      const [found, ofBase, alias] = await Promise.all([
        addressesOf(lookups, hostname),
        addressesOf(lookups, baseDomain),
        lookups.resolveCname(hostname).catch(() => []),
      ]);
      const machine = [...new Set([...ownAddresses(), ...(ofBase ?? [])])];
      const leads =
        found === null
          ? 'unknown'
          : found.length === 0
            ? 'none'
            : found.some((address) => machine.includes(address))
              ? 'here'
              : 'elsewhere';
      return {
        leads,
        addresses: (found ?? []).slice(0, ADDRESSES),
        alias: alias[0] ?? null,
        machine: machine.slice(0, ADDRESSES),
      };
    } finally {
      clearTimeout(timer);
    }
  }

  /** Caddy keeps a certificate at `certificates/<issuer>/<name>/<name>.crt`. */
  async #certificate(hostname: string): Promise<DomainState['certificate']> {
    const { certificates } = this.#options;
    if (certificates === null) return { state: 'off', until: null, issuer: null };
    const root = join(certificates, 'storage/certificates');
    const issuers = await readdir(root).catch(() => []);
    const found: X509Certificate[] = [];
    for (const issuer of issuers) {
      const text = await readStart(join(root, issuer, hostname, `${hostname}.crt`));
      if (text !== null) found.push(new X509Certificate(text));
    }
    const last = found.toSorted((a, b) => Date.parse(b.validTo) - Date.parse(a.validTo))[0];
    if (last === undefined) return { state: 'waiting', until: null, issuer: null };
    const until = new Date(last.validTo);
    return {
      state: until.getTime() > Date.now() ? 'valid' : 'expired',
      until: until.toISOString(),
      issuer: /^O=(.+)$/m.exec(last.issuer)?.[1] ?? /^CN=(.+)$/m.exec(last.issuer)?.[1] ?? null,
    };
  }
}

/** @returns null when no name server answered */
async function addressesOf(lookups: Lookups, name: string): Promise<string[] | null> {
  const both = await Promise.allSettled([lookups.resolve4(name), lookups.resolve6(name)]);
  const found = both.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  const isSure = both.every(
    (each) => each.status === 'fulfilled' || NOTHING.includes((each.reason as { code?: string }).code ?? ''),
  );
  return found.length > 0 || isSure ? found : null;
}

/** Addresses of this machine's own network interfaces, without those of loopback and of the link. */
function publicAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'))
    .map(({ address }) => address);
}

async function readStart(path: string): Promise<string | null> {
  const file = await open(path).catch(() => null);
  if (file === null) return null;
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(CERTIFICATE_BYTES));
    return buffer.subarray(0, bytesRead).toString('latin1');
  } finally {
    await file.close();
  }
}
