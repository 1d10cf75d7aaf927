// Looks up custom hostnames: their DNS records and their certificates. The host does it, because the control plane has
// no network access.
import { X509Certificate } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { open, readdir } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { DOMAIN_LOOKUP_MS, type DomainLookup } from '../../handlers/contract/apps/domains.ts';
import { FairQueue, QueueFull } from '../queues/fair-queue.ts';

/** Maximum number of entries of each list in a result: of addresses, and of TXT records. */
const RECORDS = 20;
/** Longest TXT record in a result, in characters; longer ones are cut. */
const TEXT_LENGTH = 255;
/** Maximum bytes that are read of a certificate file. A chain of certificates is shorter. */
const CERTIFICATE_BYTES = 64 * 1024;
/** DNS errors for a name that does not exist, or has no such record. */
const NOTHING = ['ENOTFOUND', 'ENODATA'];

export interface Lookups {
  resolve4: (name: string) => Promise<string[]>;
  resolve6: (name: string) => Promise<string[]>;
  resolveCname: (name: string) => Promise<string[]>;
  resolveTxt: (name: string) => Promise<string[][]>;
  cancel: () => void;
}

export interface DomainChecksOptions {
  baseDomain: string;
  /** Caddy's directory; null without Caddy. */
  certificates: string | null;
  /** Makes a DNS resolver. Replaced in tests. */
  lookups?: () => Lookups;
  /** Returns the addresses of this machine. Replaced in tests. */
  ownAddresses?: () => string[];
}

export class DomainChecks {
  readonly #options: DomainChecksOptions;
  readonly #queue = new FairQueue({
    name: 'lookups of hostnames',
    running: 8,
    runningPerOwner: 2,
    waitingPerOwner: 2,
  });

  constructor(options: DomainChecksOptions) {
    this.#options = options;
  }

  /**
   * Looks up a hostname. Waits up to `DOMAIN_LOOKUP_MS` for its turn, then up to as long for DNS.
   * @param hostname in ASCII, as DNS uses it (punycode)
   * @param owner the account that asks; concurrent lookups are limited for each account
   * @throws {QueueFull} when the owner has too many lookups, or its turn does not come in time
   */
  lookUp(hostname: string, owner: string): Promise<DomainLookup> {
    const late = new AbortController();
    const timer = setTimeout(
      () => late.abort(new QueueFull('too many hostnames are looked up; try again in some seconds')),
      DOMAIN_LOOKUP_MS,
    );
    const work = async () => {
      const [dns, certificate] = await Promise.all([this.#dns(hostname), this.#certificate(hostname)]);
      return { hostname, dns, certificate };
    };
    return this.#queue.run({ owner, signal: late.signal }, work).finally(() => clearTimeout(timer));
  }

  async #dns(hostname: string): Promise<DomainLookup['dns']> {
    const { baseDomain, ownAddresses = interfaceAddresses } = this.#options;
    const lookups = this.#options.lookups?.() ?? new Resolver({ timeout: DOMAIN_LOOKUP_MS / 2, tries: 1 });
    const timer = setTimeout(() => lookups.cancel(), DOMAIN_LOOKUP_MS);
    try {
      const [found, ofBase, alias, texts] = await Promise.all([
        addressesOf(lookups, hostname),
        addressesOf(lookups, baseDomain),
        lookups.resolveCname(hostname).catch(() => []),
        lookups.resolveTxt(`_cellar.${hostname}`).catch(() => []),
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
        addresses: (found ?? []).slice(0, RECORDS),
        alias: alias[0] ?? null,
        machine: machine.slice(0, RECORDS),
        texts: texts.slice(0, RECORDS).map((parts) => parts.join('').slice(0, TEXT_LENGTH)),
      };
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Reads the certificates that Caddy stores at `storage/certificates/<issuer>/<name>/<name>.crt`. Returns the state of the
   * one that expires last.
   */
  async #certificate(hostname: string): Promise<DomainLookup['certificate']> {
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

/** Returns the IPv4 and IPv6 addresses of a name; null if none was found because a lookup failed. */
async function addressesOf(lookups: Lookups, name: string): Promise<string[] | null> {
  const both = await Promise.allSettled([lookups.resolve4(name), lookups.resolve6(name)]);
  const found = both.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  const isSure = both.every(
    (each) => each.status === 'fulfilled' || NOTHING.includes((each.reason as { code?: string }).code ?? ''),
  );
  return found.length > 0 || isSure ? found : null;
}

/**
 * Returns the addresses of this machine's network interfaces, without loopback and `fe80:` (link-local) ones. A hostname
 * with one of them in its DNS leads to this machine.
 */
function interfaceAddresses(): string[] {
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
