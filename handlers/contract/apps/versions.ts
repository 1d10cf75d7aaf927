// The version that a deploy serves.
import type { DeployFact, DeployVersion } from '../host/host-calls.ts';

/** Returns the version that a deploy serves: its own, or that of an earlier deploy. */
export function versionOf({ id, message, created_at, version }: DeployFact): DeployVersion {
  return version ?? { id, tag: '', message, created_at };
}
