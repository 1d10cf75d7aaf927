// For tests that need system users for apps. They need root.
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { whyNoUsers } from '../../runtime/isolation/users.ts';

const why = whyNoUsers([workerdPath()]);

/** Options of such a test. They skip it with the reason where apps have no users. */
export const NEEDS_USERS: { skip?: string } = why === null ? {} : { skip: `apps have no users here: ${why}` };
