// For tests that need users for apps: they run as root, where such users can be had.
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { whyNoUsers } from '../../runtime/isolation/users.ts';

const why = whyNoUsers([workerdPath()]);

/** Options of such a test: where there are none, it is skipped with the reason. */
export const NEEDS_USERS: { skip?: string } = why === null ? {} : { skip: `apps have no users here: ${why}` };
