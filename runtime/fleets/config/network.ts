// The addresses that an app may reach: public ones and those that the operator allows, but no address of this machine.
import { Egress, HELD_V4, HELD_V6 } from '../../isolation/egress.ts';
import { ownAddresses, PRIVATE_V4, PRIVATE_V6 } from '../../isolation/private-networks.ts';
import type { Fields } from './capnp.ts';

/** Reserved addresses that workerd counts as public. */
const UNUSED = [
  '192.0.2.0/24',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '2001::/23',
  '2001:db8::/32',
  '3fff::/20',
  '5f00::/16',
];

/**
 * Returns the service `internet` of an app's config. It denies this machine's current addresses, so make it at each launch.
 * @param allowed private addresses and CIDR ranges that apps may reach
 */
export function internetService(allowed: readonly string[]): Fields {
  return networkService('internet', allowed);
}

/** Returns a service that reaches the same addresses as `internet`. @param tls TLS options besides `trustBrowserCas` */
export function networkService(name: string, allowed: readonly string[], tls: Fields = {}): Fields {
  const egress = new Egress(allowed);
  const denied = [...PRIVATE_V4, ...PRIVATE_V6, ...UNUSED, ...HELD_V4, ...HELD_V6, ...ownAddresses()];
  return {
    name,
    network: {
      // workerd's `public` excludes private networks. If an address is in two ranges, workerd applies the narrower one.
      allow: ['public', ...egress.networks],
      deny: egress.closed([...new Set(denied)]),
      tlsOptions: { trustBrowserCas: true, ...tls },
    },
  };
}
