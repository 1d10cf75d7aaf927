// Ends streams whose reader loses the right to read them.
import { authorize, keyOf, rightsLost } from '../access.ts';
import type { Context } from '../context.ts';
import type { Operation } from '../contract/operation.ts';
import { hasExpired } from '../key-scopes.ts';
import { Problem } from '../problem.ts';

/**
 * Interval at which a stream checks its reader's rights, in ms. Queries the database only after somebody has lost rights.
 */
const CHECK_EVERY_MS = 2_000;

/** Returns a stream that closes cleanly soon after its reader loses the right to read it. */
export function whileAllowed(
  context: Context,
  operation: Operation,
  input: object,
  stream: ReadableStream<Uint8Array>,
): ReadableStream<Uint8Array> {
  const { readable, writable } = new IdentityTransformStream();
  const ending = new AbortController();
  let seenLosses = rightsLost();
  const check = async () => {
    if (hasExpired(keyOf(context.actor)?.expiresAt ?? null)) return ending.abort();
    const now = rightsLost();
    if (now === seenLosses) return;
    await authorize({ actor: await context.whoNow(), reads: context.reads }, operation, input);
    seenLosses = now;
  };
  const timer = setInterval(() => {
    check().catch((error: unknown) => {
      if (error instanceof Problem && error.status < 500) ending.abort();
    });
  }, CHECK_EVERY_MS);
  const ended = stream
    .pipeTo(writable, { signal: ending.signal, preventAbort: true })
    // Closes the stream cleanly, unless the reader has disconnected.
    .catch(() => writable.close().catch(() => {}))
    .finally(() => clearInterval(timer));
  context.waitUntil(ended);
  return readable;
}
