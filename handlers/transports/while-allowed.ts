// Ends streams whose reader loses the right to read them, and bodies whose sender loses the right to send them.
import { withRetries } from '../../sqlite/control/reads.ts';
import { authorize, keyOf, rightsLost } from '../access.ts';
import type { Context } from '../context.ts';
import type { Operation } from '../contract/operation.ts';
import { hasExpired } from '../key-scopes.ts';
import { Problem } from '../problem.ts';
import { discard } from './body.ts';

/**
 * Interval at which a stream checks its reader's rights, in ms. Queries the database only after somebody has lost rights.
 */
const CHECK_EVERY_MS = 2_000;
/** Maximum age of the last check with several hosts, in ms: a host does not learn of rights that another host removed. */
const CHECK_HOSTS_MS = 20_000;
/** Maximum age of the last check of a sender's rights, in ms, when a chunk of its body is forwarded. */
const CHECK_VALID_MS = 2_000;

/** Maximum bytes of one read of a body. Smaller reads would cost much CPU time for a large body. */
const BUFFER_BYTES = 256 * 1024;

/** Thrown when the sender of a body loses the right to send it before its end. With a 5xx status, the check itself failed. */
export class RightsLost extends Problem {
  constructor({ code, message, status }: Problem) {
    super(code, status < 500 ? `Your rights changed before the end of the request. ${message}` : message);
  }
}

/** Returns a stream that closes cleanly soon after its reader loses the right to read it. */
export function whileAllowed(
  context: Context,
  operation: Operation,
  input: object,
  stream: ReadableStream<Uint8Array>,
): ReadableStream<Uint8Array> {
  const { readable, writable } = new IdentityTransformStream();
  const ending = new AbortController();
  let seenLosses = context.losses;
  let checkedAt = Date.parse(context.at);
  const check = async () => {
    if (hasExpired(keyOf(context.actor)?.expiresAt ?? null)) return ending.abort();
    const [losses, now] = [rightsLost(), Date.now()];
    const isOld = context.env.HOST_ID !== '' && now >= checkedAt + CHECK_HOSTS_MS;
    if (losses === seenLosses && !isOld) return;
    await authorize({ actor: await context.whoNow(), reads: context.reads }, operation, input);
    [seenLosses, checkedAt] = [losses, now];
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

/**
 * Forwards a body, and checks its sender's rights again while it arrives. Otherwise a sender could begin a request early and
 * send the end of its body after the rights are lost. Forwards a chunk only if the last check is younger than
 * `CHECK_VALID_MS`, and no rights were lost since.
 * @param check rejects when the sender may no longer send the body. The caller has checked once already, after `context.at`.
 * @param send sends the body, which has a known length if the request has one
 * @throws {RightsLost} when `check` rejects with a `Problem`
 */
export async function sendWhileAllowed<Answer>(
  { at, losses: lossesBefore }: Pick<Context, 'at' | 'losses'>,
  { headers }: Request,
  body: ReadableStream<Uint8Array>,
  check: () => Promise<unknown>,
  send: (body: ReadableStream<Uint8Array>) => Promise<Answer>,
): Promise<Answer> {
  const length = headers.get('content-length');
  const { readable, writable } =
    length === null ? new IdentityTransformStream() : new FixedLengthStream(Number(length));
  const writer = writable.getWriter();
  let lost = null as RightsLost | null;
  let seenLosses = lossesBefore;
  let checkedAt = Date.parse(at);
  const requireRights = async () => {
    const [losses, now] = [rightsLost(), Date.now()];
    if (losses === seenLosses && now < checkedAt + CHECK_VALID_MS) return;
    // Retries, because a large body is checked many times, and a short database failure must not end the upload.
    await withRetries(check);
    [seenLosses, checkedAt] = [losses, now];
  };
  const forward = async () => {
    const reader = body.getReader({ mode: 'byob' });
    try {
      let buffer = new ArrayBuffer(BUFFER_BYTES);
      for (;;) {
        const { done, value } = await reader.read(new Uint8Array(buffer));
        if (done) break;
        await requireRights();
        await writer.write(value);
        buffer = value.buffer;
      }
      await writer.close();
    } finally {
      reader.releaseLock();
    }
  };
  const forwarded = forward().catch(async (error: unknown) => {
    if (error instanceof Problem) lost = new RightsLost(error);
    await writer.abort(error).catch(() => {});
    // A client reads a refusal only after it has sent the whole body.
    await (lost ? discard(body) : body.cancel(error).catch(() => {}));
  });
  const sent = send(readable);
  await sent.catch(() => {});
  // After a loss of rights, ignores the host's answer: workerd ends an aborted body without a length as if it were complete.
  if (lost === null) return sent;
  await forwarded;
  throw lost;
}
