// Private networks that the operator opens to apps (`RUNNER_EGRESS_ALLOW`). A range opens the networks inside it, except the
// networks in `HELD`: this machine, and providers' metadata, whose keys must stay secret.
import { BlockList, isIPv6 } from 'node:net';
import { ownAddresses } from './private-networks.ts';

/**
 * This machine, its link-local networks, and providers' metadata. `RUNNER_EGRESS_ALLOW` opens them only by a single address,
 * or by a range that is inside one of these networks.
 */
export const HELD_V4 = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '168.63.129.16/32',
  '100.100.100.200/32',
];
export const HELD_V6 = ['::/96', 'fe80::/10', 'fd00:ec2::254/128'];
const HELD = [...HELD_V4, ...HELD_V6];

export class Egress {
  /** Allowed single addresses, and allowed networks inside `HELD`. They are open without exception. */
  readonly named: string[];
  /** All other allowed networks. They are open except for the networks in `HELD`. */
  readonly ranges: string[];

  /** @param allowed valid addresses and CIDR ranges */
  constructor(allowed: readonly string[] = []) {
    const networks = allowed.map(asNetwork);
    const isNamed = (network: string) =>
      /\/32$|:.*\/128$/.test(network) || HELD.some((held) => contains(held, network));
    this.named = networks.filter(isNamed);
    this.ranges = networks.filter((network) => !isNamed(network));
  }

  /** All open networks. */
  get networks(): string[] {
    return [...this.named, ...this.ranges];
  }

  /** Returns those of `networks` that stay closed. A smaller range inside one of them does not open it. */
  closed(networks: readonly string[]): string[] {
    const held = new Set([...HELD, ...ownAddresses()]);
    return networks.filter((network) => {
      const opening = held.has(network) ? this.named : this.networks;
      return !opening.some((opened) => contains(opened, network));
    });
  }
}

function asNetwork(range: string): string {
  return range.includes('/') ? range : `${range}/${isIPv6(range) ? 128 : 32}`;
}

/** Whether `outer` contains a network, or equals it. */
function contains(outer: string, inner: string): boolean {
  const [[from, length], [address, innerLength]] = [parts(outer), parts(inner)];
  if (isIPv6(from) !== isIPv6(address) || innerLength < length) return false;
  const type = isIPv6(from) ? 'ipv6' : 'ipv4';
  const list = new BlockList();
  list.addSubnet(from, length, type);
  return list.check(address, type);
}

function parts(network: string): [address: string, length: number] {
  const [address, length] = network.split('/');
  return [address!, Number(length)];
}
