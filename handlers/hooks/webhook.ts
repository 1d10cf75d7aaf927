// Webhooks of Git hosts. Their signature is their only credential, and nothing of a body is parsed before it is checked.
import { findApp } from '../../sqlite/control/apps/apps.ts';
import type { RequestContext } from '../context.ts';
import { WEBHOOK_BYTES } from '../contract/sizes.ts';
import { Problem } from '../problem.ts';
import { readBytes } from '../transports/body.ts';
import { holdBody } from '../transports/large-bodies.ts';
import { deliveryOf } from './delivery.ts';
import { signatureOf } from './signature.ts';

const PATH = /^\/v1\/hooks\/([0-9a-z]{16})$/;

/** Answers `POST /v1/hooks/:id`. The fetch that follows is queued on the host, where it survives a crash. */
export async function webhook(
  request: Request,
  pathname: string,
  { host, db }: RequestContext,
): Promise<Response> {
  const id = PATH.exec(pathname)?.[1];
  if (id === undefined || request.method !== 'POST') throw new Problem('route_not_found');
  const signature = signatureOf(request.headers);
  if (signature === null)
    throw new Problem(
      'unauthorized',
      'The delivery is not signed; give the Git host the secret of source.connect.',
    );
  const { secret } = await host.call('GET /apps/:id/connection/key', { id });
  // A forged token is refused before its body is read.
  if (!(await signature.mayBe(secret))) throw wrong();
  // Counted as the account's, which would have a share of memory for each app otherwise.
  holdBody(request, (await findApp(db, id))?.owner_id ?? '');
  const body = await readBytes(request, WEBHOOK_BYTES);
  if (!(await signature.signs(secret, body))) throw wrong();
  const delivery = await deliveryOf(request.headers, body, signature.identity);
  const answer = await host.call('POST /apps/:id/connection/deliveries', { id }, { body: delivery });
  return Response.json(answer, { status: answer.result === 'queued' ? 202 : 200 });
}

function wrong(): Problem {
  return new Problem(
    'unauthorized',
    'The signature of the delivery is wrong or too old; compare the secret at the Git host, and its clock.',
  );
}
