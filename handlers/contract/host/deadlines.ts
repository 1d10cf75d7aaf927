// Timeouts in ms, of calls to the host and of their callers. Pure values: the browser imports them too.
import type { OperationName } from '../index.ts';

/** Default timeout of calls to the host. */
export const CALL_DEADLINE_MS = 10_000;
/** Timeout of storage queries. A query itself has 10 s, but may wait in the queue first. */
export const READ_DEADLINE_MS = 60_000;
/** Timeout for the stream of a KV value: 25 MiB from a slow client. */
export const KV_VALUE_MS = 300_000;
/** Timeout of calls about the repository. The host ends git commands earlier. */
export const SOURCE_DEADLINE_MS = 600_000;
/** Timeout of an upload, with the deploy that may follow: the host gives the body 30 minutes. */
export const UPLOAD_DEADLINE_MS = 1_800_000 + SOURCE_DEADLINE_MS;
/** Timeout for a whole object of 5 GiB. The host ends stalled transfers much earlier. */
export const OBJECT_DEADLINE_MS = 3_600_000;
/** Timeout of a list of snapshots, which may be in a remote store. */
export const SNAPSHOT_LIST_DEADLINE_MS = 3_600_000;
export const SNAPSHOT_DEADLINE_MS = 6 * 3_600_000;

/** Default timeout of a caller: a wake of 120 s, plus a drain or a queued start. */
const DEFAULT_MS = 180_000;
/** Added to a call's own timeout, for a wake of the app before the call and for the network. */
const OVERHEAD_MS = DEFAULT_MS;
/** Timeouts of operations that may take longer than `DEFAULT_MS`, without `OVERHEAD_MS`. */
const LONGER_MS: Partial<Record<OperationName, number>> = {
  'apps.move': SNAPSHOT_DEADLINE_MS,
  'admin.snapshot': SNAPSHOT_DEADLINE_MS,
  'admin.restore': SNAPSHOT_DEADLINE_MS,
  'snapshots.verify': SNAPSHOT_DEADLINE_MS,
  'snapshots.list': SNAPSHOT_LIST_DEADLINE_MS,
  'deploys.create': SOURCE_DEADLINE_MS,
  'deploys.begin_upload': UPLOAD_DEADLINE_MS,
  'deploys.upload_files': UPLOAD_DEADLINE_MS,
  'deploys.finish_upload': UPLOAD_DEADLINE_MS,
  // The call may deploy both versions.
  'split.set': 2 * SOURCE_DEADLINE_MS,
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

/**
 * Returns the minimum timeout of a caller, in ms. The API's own timeout is shorter, unless `RUNNER_WAKE_TIMEOUT_S` was
 * raised to 150 or more.
 */
export function clientTimeoutMs(operation: OperationName): number {
  const longest = LONGER_MS[operation];
  return longest === undefined ? DEFAULT_MS : longest + OVERHEAD_MS;
}
