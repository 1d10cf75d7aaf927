// Timeouts in ms, of calls to the host and of their callers. Pure values: the browser imports them too.
import type { OperationName } from '../index.ts';

/** Default timeout of calls to the host. */
export const CALL_DEADLINE_MS = 10_000;
/** A storage read has 10 s, and may wait in the queue first. */
export const READ_DEADLINE_MS = 60_000;
/** A value of KV as a stream: 25 MiB from a slow client. */
export const KV_VALUE_MS = 300_000;
/** The host ends git commands earlier than this. Large files may take long. */
export const SOURCE_DEADLINE_MS = 600_000;
/** A whole object of 5 GiB. The host ends stalled transfers much earlier. */
export const OBJECT_DEADLINE_MS = 3_600_000;
/** A list of snapshots in a remote store. */
export const SNAPSHOT_LIST_DEADLINE_MS = 3_600_000;
export const SNAPSHOT_DEADLINE_MS = 6 * 3_600_000;

/** A wake of 120 s, plus a drain or a queued start. */
const DEFAULT_MS = 180_000;
/** Added to a call's own timeout, for a wake of the app before the call and for the network. */
const OVERHEAD_MS = DEFAULT_MS;
/** Operations with longer timeouts. */
const LONGER_MS: Partial<Record<OperationName, number>> = {
  'apps.move': SNAPSHOT_DEADLINE_MS,
  'admin.snapshot': SNAPSHOT_DEADLINE_MS,
  'admin.restore': SNAPSHOT_DEADLINE_MS,
  'snapshots.verify': SNAPSHOT_DEADLINE_MS,
  'snapshots.list': SNAPSHOT_LIST_DEADLINE_MS,
  'deploys.create': SOURCE_DEADLINE_MS,
  'deploys.begin_upload': SOURCE_DEADLINE_MS,
  'deploys.upload_files': SOURCE_DEADLINE_MS,
  'deploys.finish_upload': SOURCE_DEADLINE_MS,
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

/** Returns the minimum timeout of a caller, in ms. It is longer than the API's own timeout, so that the API times out first. */
export function clientTimeoutMs(operation: OperationName): number {
  const longest = LONGER_MS[operation];
  return longest === undefined ? DEFAULT_MS : longest + OVERHEAD_MS;
}
