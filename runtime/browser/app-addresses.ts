// The addresses that a browser may connect to: the same as those of apps.
import { BlockList, isIPv6 } from 'node:net';
import { plainAddress } from '../isolation/address-ranges.ts';
import { Egress, HELD_V4, HELD_V6 } from '../isolation/egress.ts';
import { ownAddresses, PublicAddresses } from '../isolation/private-networks.ts';

export class AppAddresses {
  readonly #public = new PublicAddresses([]);
  readonly #named: BlockList;
  readonly #ranges: BlockList;
  readonly #held = listOf([...HELD_V4, ...HELD_V6]);

  /** @param allowed private addresses and CIDR ranges that apps may connect to */
  constructor(allowed: readonly string[]) {
    const egress = new Egress(allowed);
    this.#named = listOf(egress.named);
    this.#ranges = listOf(egress.ranges);
  }

  has(address: string): boolean {
    const plain = plainAddress(address);
    const isIn = (list: BlockList) => list.check(plain, isIPv6(plain) ? 'ipv6' : 'ipv4');
    if (isIn(this.#named) || this.#public.has(plain)) return true;
    return isIn(this.#ranges) && !isIn(this.#held) && !isIn(listOf(ownAddresses()));
  }
}

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address, length] = network.split('/');
    list.addSubnet(address!, Number(length), isIPv6(address!) ? 'ipv6' : 'ipv4');
  }
  return list;
}
