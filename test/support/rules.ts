// For tests that need rules of the packet filter for users of apps: root can set them, where `nft` is installed.
import { Firewall, openFirewall } from '../../runtime/isolation/firewall.ts';
import { NEEDS_USERS } from './users.ts';

/** The name that a test's own rules have. */
export const RULES = `cellar-test-${process.pid}`;

const tried = NEEDS_USERS.skip ?? (await openFirewall(RULES, []));
if (tried instanceof Firewall) await tried.close();

/** Options of such a test: where there are none, it is skipped with the reason. */
export const NEEDS_RULES: { skip?: string } =
  tried instanceof Firewall ? {} : { skip: `no rules can be set here: ${tried}` };
