// Addresses outside the public internet: this machine, its networks, and addresses that only they reach.
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { AddressRanges, plainAddress } from './address-ranges.ts';

/** IPv4 networks that are not public: of the machine itself, private, and reserved ones. The last is Azure's metadata. */
export const PRIVATE_V4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '168.63.129.16/32',
];

/** IPv6 networks of the same kinds. `::/96` includes `::1`; `fc00::/7` includes `fd00:ec2::254`, Amazon's metadata. */
export const PRIVATE_V6 = [
  '::/96',
  '64:ff9b:1::/48',
  '100::/64',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
  ...PRIVATE_V4.flatMap(translated),
];

/** Returns the addresses of this machine's interfaces, as networks of one address, and the IPv6 forms of IPv4 addresses. */
export function ownAddresses(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return addresses.flatMap(({ address, family }) =>
    family === 'IPv4' ? [`${address}/32`, ...translated(`${address}/32`)] : [`${address.split('%')[0]}/128`],
  );
}

/** Returns the IPv6 forms of an IPv4 network: by a translator (NAT64) and by a relay (6to4). */
function translated(network: string): string[] {
  const [address = '', length] = network.split('/');
  const bytes = address.split('.').map(Number);
  const hex = (index: number) => ((bytes[index]! << 8) | bytes[index + 1]!).toString(16);
  const half = `${hex(0)}:${hex(2)}`;
  return [`64:ff9b::${half}/${96 + Number(length)}`, `2002:${half}::/${16 + Number(length)}`];
}

/** The addresses that tenants may name: public ones, and private ones that the operator allows. */
export class PublicAddresses {
  readonly #allowed: AddressRanges;
  readonly #denied = new AddressRanges([...PRIVATE_V4, ...PRIVATE_V6]);

  /** @param allowed private addresses and CIDR ranges that are reachable */
  constructor(allowed: readonly string[]) {
    this.#allowed = new AddressRanges(allowed);
  }

  /** Whether an address may be reached. An IPv4 address written as IPv6 counts as IPv4. */
  has(address: string): boolean {
    const plain = plainAddress(address);
    if (this.#allowed.has(plain)) return true;
    // The machine's addresses may change at run time.
    return isIP(plain) !== 0 && !this.#denied.has(plain) && !new AddressRanges(ownAddresses()).has(plain);
  }
}
