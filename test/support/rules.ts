// For tests that need packet filter rules for the users of apps. They need root and `nft`.
import { Firewall, openFirewall } from '../../runtime/isolation/firewall.ts';
import { NEEDS_USERS } from './users.ts';

/** Machine name of the test's own firewall rules. */
export const RULES = `cellar-test-${process.pid}`;

const tried = NEEDS_USERS.skip ?? (await openFirewall(RULES, []));
if (tried instanceof Firewall) await tried.close();

/** Options of a test that needs packet filter rules. They skip the test, with the reason, where no rules can be set. */
export const NEEDS_RULES: { skip?: string } =
  tried instanceof Firewall ? {} : { skip: `no rules can be set here: ${tried}` };
