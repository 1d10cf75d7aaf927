// What an app may reach: public addresses of the internet, and none of this machine's.
import { ownAddresses, PRIVATE_V4, PRIVATE_V6 } from '../../machine/private-networks.ts';
import type { Fields } from './capnp.ts';

/** Addresses that nobody on the internet has, and that workerd takes for public. */
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
 * The service `internet` of a cell's config. It holds the addresses that this machine has now: write it anew at each
 * launch.
 */
export function internetService(): Fields {
  return {
    name: 'internet',
    network: {
      // Without private networks, as workerd knows them; of two that match, the narrower one counts.
      allow: ['public'],
      deny: [...new Set([...PRIVATE_V4, ...PRIVATE_V6, ...UNUSED, ...ownAddresses()])],
      tlsOptions: { trustBrowserCas: true },
    },
  };
}
