// Addresses that are not the public internet: this machine, its networks, and what only they can reach.
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { AddressRanges, plainAddress } from './address-ranges.ts';

/** IPv4 networks of machines, providers and private networks. The last holds Azure's metadata. */
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

/** The same of IPv6. `::/96` has `::1`; `fc00::/7` has `fd00:ec2::254`, Amazon's metadata. */
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

/** The addresses of this machine's interfaces now, as networks of one address. IPv4 ones as IPv6 reaches them, too. */
export function ownAddresses(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return addresses.flatMap(({ address, family }) =>
    family === 'IPv4' ? [`${address}/32`, ...translated(`${address}/32`)] : [`${address.split('%')[0]}/128`],
  );
}

/** An IPv4 network as IPv6 reaches it by a translator (NAT64) and by a relay (6to4). */
function translated(network: string): string[] {
  const [address = '', length] = network.split('/');
  const bytes = address.split('.').map(Number);
  const hex = (index: number) => ((bytes[index]! << 8) | bytes[index + 1]!).toString(16);
  const half = `${hex(0)}:${hex(2)}`;
  return [`64:ff9b::${half}/${96 + Number(length)}`, `2002:${half}::/${16 + Number(length)}`];
}

/** The addresses that what tenants name may be reached at: public ones, and private ones that the operator allows. */
export class PublicAddresses {
  readonly #allowed: AddressRanges;
  readonly #denied = new AddressRanges([...PRIVATE_V4, ...PRIVATE_V6]);

  /** @param allowed addresses and CIDR ranges that are reachable although they are private */
  constructor(allowed: readonly string[]) {
    this.#allowed = new AddressRanges(allowed);
  }

  /** Whether an address may be reached. An IPv4 address that is written as IPv6 is taken for what it is. */
  has(address: string): boolean {
    const plain = plainAddress(address);
    if (this.#allowed.has(plain)) return true;
    // This machine's may change while it runs.
    return isIP(plain) !== 0 && !this.#denied.has(plain) && !new AddressRanges(ownAddresses()).has(plain);
  }
}
