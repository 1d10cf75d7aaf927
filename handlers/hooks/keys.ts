// Caches the keys that sign deliveries, so that a burst of deliveries asks the host once.
import type { RequestContext } from '../context.ts';
import { shared } from './shared.ts';

const KEPT_MS = 10_000;
/** Maximum keys in the cache. */
const MOST = 1000;

interface Kept {
  secret: Promise<string>;
  until: number;
}

const kept = new Map<string, Kept>();

/** Returns the key that signs an app's deliveries. @throws {Problem} `source_not_connected`, `host_unavailable` */
export async function keyOf({ host, waitUntil }: RequestContext, id: string): Promise<string> {
  const known = kept.get(id);
  if (known !== undefined && known.until > Date.now()) return shared(known.secret);
  const secret = host.call('GET /apps/:id/connection/key', { id }).then((answer) => answer.secret);
  const asked = { secret, until: Date.now() + KEPT_MS };
  kept.delete(id);
  if (kept.size >= MOST) kept.delete(kept.keys().next().value!);
  kept.set(id, asked);
  // Other requests wait for the key, so the call continues when this request's client disconnects.
  waitUntil(
    secret.catch(() => {
      if (kept.get(id) === asked) kept.delete(id);
    }),
  );
  return secret;
}

/** Removes an app's key from the cache. Call it when the key was changed. */
export function forgetKey(id: string): void {
  kept.delete(id);
}
