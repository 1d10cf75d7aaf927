// Sets of network addresses.
import { BlockList, isIP } from 'node:net';

/** Addresses and CIDR ranges, IPv4 and IPv6. */
export class AddressRanges {
  readonly #list = new BlockList();
  readonly #none: boolean;

  /**
   * @param ranges addresses or CIDR ranges, such as `10.0.0.0/8` or `::1`
   * @throws {TypeError} when one is neither
   */
  constructor(ranges: readonly string[]) {
    this.#none = ranges.length === 0;
    for (const range of ranges) {
      const [address = '', prefix, ...rest] = range.split('/');
      const version = isIP(address);
      const bits = prefix === undefined ? (version === 4 ? 32 : 128) : Number(prefix);
      const valid = version !== 0 && rest.length === 0 && prefix !== '' && Number.isInteger(bits);
      if (!valid || bits < 0 || bits > (version === 4 ? 32 : 128)) {
        throw new TypeError(`'${range}' is not an address or a CIDR range such as 10.0.0.0/8`);
      }
      this.#list.addSubnet(address, bits, version === 4 ? 'ipv4' : 'ipv6');
    }
  }

  has(address: string): boolean {
    if (this.#none) return false;
    const version = isIP(address);
    return version !== 0 && this.#list.check(address, version === 4 ? 'ipv4' : 'ipv6');
  }
}

/** Returns an address without its IPv4-in-IPv6 prefix, brackets, zone or port. */
export function plainAddress(text: string): string {
  let address = text;
  if (address.startsWith('[')) address = address.slice(1, address.indexOf(']'));
  else if (/^[\d.]+:\d+$/.test(address)) address = address.slice(0, address.indexOf(':'));
  const zone = address.indexOf('%');
  if (zone !== -1) address = address.slice(0, zone);
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}
