// Streams of those who may lose the right to read them meanwhile.
import { authorize, rightsLost } from '../access.ts';
import type { Context } from '../context.ts';
import type { Operation } from '../contract/operation.ts';
import { Problem } from '../problem.ts';

/** So often a stream looks whether anybody has lost rights, in ms. Only then the database is asked. */
const LOOK_EVERY_MS = 2_000;

/** A stream that ends, in order, soon after its reader may not read it any more. */
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
    // The reader gets an orderly end, unless it has left already.
    .catch(() => writable.close().catch(() => {}))
    .finally(() => clearInterval(timer));
  context.waitUntil(ended);
  return readable;
}
