// For tests that need system users for apps. They need root.
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { whyNoUsers } from '../../runtime/isolation/users.ts';

const why = whyNoUsers([workerdPath()]);

/** Options of a test that needs users of apps. They skip the test, with the reason, where apps have none. */
export const NEEDS_USERS: { skip?: string } = why === null ? {} : { skip: `apps have no users here: ${why}` };
