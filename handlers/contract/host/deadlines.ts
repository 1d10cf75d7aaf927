// How long things may take, in ms: the host's calls, and what their callers wait for. Pure values: the browser imports them too.
import type { OperationName } from '../index.ts';

/** Calls of the host that say nothing else. */
export const CALL_DEADLINE_MS = 10_000;
/** A reading of storage has 10 s, and may wait for its turn. */
export const READ_DEADLINE_MS = 60_000;
/** The host itself gives up on git's commands earlier; the contents of a file may take their time. */
export const SOURCE_DEADLINE_MS = 600_000;
/** A whole object of 5 GiB. What stalls is ended much earlier by the host. */
export const OBJECT_DEADLINE_MS = 3_600_000;
/** A list of snapshots in a store far away. */
export const SNAPSHOT_LIST_DEADLINE_MS = 3_600_000;
export const SNAPSHOT_DEADLINE_MS = 6 * 3_600_000;

/** A wake of 120 s, and what a drain or a start in its turn needs. */
const USUAL_MS = 180_000;
/** What a call may take besides: a wake before it, and the way there and back. */
const AROUND_MS = USUAL_MS;
/** Operations that may take longer, and how long. */
const LONG: Partial<Record<OperationName, number>> = {
  'admin.snapshot': SNAPSHOT_DEADLINE_MS,
  'admin.restore': SNAPSHOT_DEADLINE_MS,
  'snapshots.verify': SNAPSHOT_DEADLINE_MS,
  'snapshots.list': SNAPSHOT_LIST_DEADLINE_MS,
  'deploys.create': SOURCE_DEADLINE_MS,
  'source.tree': SOURCE_DEADLINE_MS,
  'source.blob': SOURCE_DEADLINE_MS,
  'source.diff': SOURCE_DEADLINE_MS,
  'source.commit': SOURCE_DEADLINE_MS,
  'source.import': SOURCE_DEADLINE_MS,
  'source.template': SOURCE_DEADLINE_MS,
  'storage.r2.get': OBJECT_DEADLINE_MS,
  'storage.r2.put': OBJECT_DEADLINE_MS,
  'storage.r2.raw': OBJECT_DEADLINE_MS,
};

/** How long a caller waits for an operation at least, so that it is the API that gives up first. */
export function patienceMs(operation: OperationName): number {
  const longest = LONG[operation];
  return longest === undefined ? USUAL_MS : longest + AROUND_MS;
}
