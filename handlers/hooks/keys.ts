// The keys that sign deliveries, kept for a moment: a burst of deliveries asks the host once for each, not twice.
import type { HostClient } from '../host/host-client.ts';

const KEPT_MS = 10_000;
/** Keys that are kept at once. */
const MOST = 1000;

const kept = new Map<string, { secret: string; until: number }>();
/** Counts changes, so that a key that was read before one is not kept after it. */
let changes = 0;

/** Returns the key that signs an app's deliveries. @throws {Problem} `source_not_connected`, `host_unavailable` */
export async function keyOf(host: HostClient, id: string): Promise<string> {
  const known = kept.get(id);
  if (known !== undefined && known.until > Date.now()) return known.secret;
  const before = changes;
  const { secret } = await host.call('GET /apps/:id/connection/key', { id });
  kept.delete(id);
  if (kept.size >= MOST) kept.delete(kept.keys().next().value!);
  if (changes === before) kept.set(id, { secret, until: Date.now() + KEPT_MS });
  return secret;
}

/** Forgets a key. Call it before and after the key is changed. */
export function forgetKey(id: string): void {
  changes++;
  kept.delete(id);
}
