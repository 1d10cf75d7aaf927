// E-mail addresses: which are taken, and which apps may send from.
import { domainToASCII } from 'node:url';

/** Longest address, in characters. */
const ADDRESS_LENGTH = 254;
const ADDRESS = /^[^\s\p{Cc}@,;:<>"()\\]+@[^\s\p{Cc}@,;:<>"()\\]+$/u;

/** Whether a text is one address by itself, such as `bob@example.com`, and nothing that a mail server reads as more. */
export function isAddress(text: string): boolean {
  return text.length <= ADDRESS_LENGTH && ADDRESS.test(text);
}

/** An address as it is compared: in lower case, with its domain as DNS has it. */
export function comparable(address: string): string {
  const domain = domainOf(address);
  const name = address.slice(0, -domain.length);
  return (name + (domainToASCII(domain) || domain)).toLowerCase();
}

/** What stands behind the `@`. */
export function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1);
}

/** Who apps may send from. */
export interface Senders {
  /** Any address there. */
  domains: string[];
  addresses: string[];
  /** But for this one, which Cellar's own e-mails come from, unless it is among `addresses`. */
  own: string;
}

/**
 * Who apps may send from.
 * @param from RUNNER_SMTP_FROM, whose domain it is when nothing is allowed by name
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

/** Whether apps may send from an address. */
export function mayBeSender({ domains, addresses, own }: Senders, address: string): boolean {
  const compared = comparable(address);
  if (addresses.includes(compared)) return true;
  return compared !== own && domains.includes(domainOf(compared));
}
