// E-mail addresses: validates them, and decides from which an app may send.
import { domainToASCII } from 'node:url';

/** Longest address, in characters. */
const ADDRESS_LENGTH = 254;
const ADDRESS = /^[^\s\p{Cc}@,;:<>"()\\]+@[^\s\p{Cc}@,;:<>"()\\]+$/u;

/** Returns whether a text is one address, such as `bob@example.com`, without characters that are special in headers. */
export function isAddress(text: string): boolean {
  return text.length <= ADDRESS_LENGTH && ADDRESS.test(text);
}

/** Normalizes an address for comparison: lower case, and the domain in ASCII (punycode). */
export function comparable(address: string): string {
  const name = address.slice(0, -domainOf(address).length);
  return (name + asciiDomainOf(address)).toLowerCase();
}

/** Returns the part after the last `@`. */
export function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1);
}

/** Returns the domain in ASCII (punycode), as headers need it; unchanged if it has no such form. */
export function asciiDomainOf(address: string): string {
  const domain = domainOf(address);
  return domainToASCII(domain) || domain;
}

/** The addresses from which apps may send. */
export interface Senders {
  /** Any address of these domains is allowed, except `own`. */
  domains: string[];
  addresses: string[];
  /** The sender of Cellar's own e-mails. Apps may use it only if it is in `addresses`. */
  own: string;
}

/**
 * Returns the addresses from which apps may send.
 * @param from RUNNER_SMTP_FROM; its domain is allowed when `allowed` is empty
 * @param allowed RUNNER_SMTP_APP_SENDERS: domains and addresses
 */
export function appSenders(from: string, allowed: readonly string[]): Senders {
  const own = comparable(/<(.+)>$/.exec(from)?.[1] ?? from);
  const named = allowed.length > 0 ? allowed : [domainOf(own)];
  return {
    domains: named.filter((each) => !each.includes('@')).map((each) => domainOf(comparable(`a@${each}`))),
    addresses: named.filter((each) => each.includes('@')).map(comparable),
    own,
  };
}

/** Returns whether apps may send from an address. */
export function mayBeSender({ domains, addresses, own }: Senders, address: string): boolean {
  const compared = comparable(address);
  if (addresses.includes(compared)) return true;
  return compared !== own && domains.includes(domainOf(compared));
}
