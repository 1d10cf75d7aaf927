// Webhooks of Git hosts. The signature of a delivery is its only credential. A body is parsed only after the signature
// check.
import { findApp } from '../../sqlite/control/apps/apps.ts';
import type { RequestContext } from '../context.ts';
import { WEBHOOK_BYTES } from '../contract/sizes.ts';
import { Problem } from '../problem.ts';
import { readBytes } from '../transports/body.ts';
import { holdUnproved } from '../transports/large-bodies.ts';
import { record } from './batch.ts';
import { deliveryOf } from './delivery.ts';
import { keyOf } from './keys.ts';
import { signatureOf } from './signature.ts';

/** Timeout for reading a body, in ms. Git hosts themselves wait only 5 to 10 s for an answer. */
const BODY_MS = 30_000;
const PATH = /^\/v1\/hooks\/([0-9a-z]{16})$/;

/** Answers `POST /v1/hooks/:id`. The fetch that follows is queued on the host, where it survives a crash. */
export async function webhook(
  request: Request,
  pathname: string,
  context: RequestContext,
): Promise<Response> {
  const id = PATH.exec(pathname)?.[1];
  if (id === undefined || request.method !== 'POST') throw new Problem('route_not_found');
  const signature = signatureOf(request.headers);
  if (signature === null)
    throw new Problem(
      'unauthorized',
      'The delivery of the webhook is not signed; give the Git host the secret that source.connect returned.',
    );
  const secret = await keyOf(context, id);
  // Refuses a wrong token or an old signature before the body is read.
  if (!(await signature.isPlausible(secret))) throw wrong();
  // Counts the body in the limit of the app's owner. With a limit for each app, an account with many apps could use all the
  // memory for large bodies.
  holdUnproved(request, (await findApp(context.db, id))?.owner_id ?? '');
  const body = await readInTime(request);
  if (!(await signature.signs(secret, body))) throw wrong();
  const delivery = await deliveryOf(request.headers, body, signature.identity);
  const result = await record(context, id, delivery);
  return Response.json({ result }, { status: result === 'queued' ? 202 : 200 });
}

/**
 * Reads the body. Has a timeout, because the body of a slow sender takes memory that others need.
 * @throws {Problem} `request_timeout`, `body_too_large`
 */
async function readInTime(request: Request): Promise<Uint8Array> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Problem('request_timeout')), BODY_MS);
  try {
    return await Promise.race([readBytes(request, WEBHOOK_BYTES), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function wrong(): Problem {
  return new Problem(
    'unauthorized',
    'The signature of the delivery is wrong or too old; check the secret and the clock at the Git host.',
  );
}
