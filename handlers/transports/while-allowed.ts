// Ends streams whose reader loses the right to read them.
import { authorize, rightsLost } from '../access.ts';
import type { Context } from '../context.ts';
import type { Operation } from '../contract/operation.ts';
import { Problem } from '../problem.ts';

/** Interval at which a stream checks for lost rights, in ms. Queries the database only after a loss. */
const LOOK_EVERY_MS = 2_000;

/** Returns a stream that closes cleanly soon after its reader loses the right to read it. */
export function whileAllowed(
  context: Context,
  operation: Operation,
  input: object,
  stream: ReadableStream<Uint8Array>,
): ReadableStream<Uint8Array> {
  const { readable, writable } = new IdentityTransformStream();
  const ending = new AbortController();
  let seen = rightsLost();
  const look = async () => {
    const now = rightsLost();
    if (now === seen) return;
    await authorize({ actor: await context.whoNow(), reads: context.reads }, operation, input);
    seen = now;
  };
  const timer = setInterval(() => {
    look().catch((error: unknown) => {
      if (error instanceof Problem && error.status < 500) ending.abort();
    });
  }, LOOK_EVERY_MS);
  const ended = stream
    .pipeTo(writable, { signal: ending.signal, preventAbort: true })
    // Closes the stream cleanly, unless the reader has disconnected.
    .catch(() => writable.close().catch(() => {}))
    .finally(() => clearInterval(timer));
  context.waitUntil(ended);
  return readable;
}
