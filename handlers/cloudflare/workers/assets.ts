// Assets: Wrangler lists them by hash, and uploads those that the host does not have.
import type { HostCalls } from '../../contract/host/host-routes.ts';
import { type CallContext, newAppCall, openCall } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';

/** Lifetime of an upload session in s, the same as on the host. */
const SESSION_S = 3_600;

export const assetCalls = [
  newAppCall({
    method: 'POST',
    path: '/accounts/:account/workers/scripts/:script/assets-upload-session',
    answer: async (context, _body, app) => {
      const given = { query: { owner: ownerOf(context), app: app?.id }, body: requireBody(context.request) };
      const { session, buckets } = await context.host.call('POST /uploads/assets', {}, given);
      return { jwt: sessionToken(session), buckets };
    },
  }),
  openCall({
    method: 'POST',
    path: '/accounts/:account/workers/assets/upload',
    answer: async ({ host, request, url }) => {
      const session = sessionOf(request.headers.get('authorization') ?? '');
      if (url.searchParams.get('base64') !== 'true')
        throw new CloudflareError(
          400,
          CODES.BAD_REQUEST,
          'Assets are taken in base64 here: say ?base64=true.',
        );
      const given = { body: requireBody(request), contentType: request.headers.get('content-type') ?? '' };
      const { complete } = await host.call('POST /uploads/assets/:session', { session }, given);
      return { jwt: complete ? sessionToken(session) : null };
    },
  }),
];

/** Returns the owner of an upload. Only the same owner can use its asset session. */
export function ownerOf({ account, words }: CallContext): string {
  return `${account}/${words.script}`;
}

/** @throws {CloudflareError} when there is no body */
export function requireBody({ body }: Request): ReadableStream<Uint8Array> {
  if (body === null) throw new CloudflareError(400, CODES.BAD_REQUEST, 'The request has no body.');
  return body;
}

/**
 * Returns a token for a session. Wrangler reads its expiry. The last part is the unguessable session id, which authorizes the
 * upload.
 */
function sessionToken(session: HostCalls['POST /uploads/assets']['answer']['session']): string {
  const exp = Math.floor(Date.now() / 1000) + SESSION_S;
  return [{ alg: 'none', typ: 'JWT' }, { exp }]
    .map((part) => base64Url(JSON.stringify(part)))
    .concat(session)
    .join('.');
}

function sessionOf(authorization: string): string {
  const session = /^Bearer +[\w-]+\.[\w-]+\.([a-z2-7]{52})$/i.exec(authorization)?.[1];
  if (session !== undefined) return session;
  throw new CloudflareError(401, CODES.AUTHENTICATION, 'This needs the token of a session of assets.');
}

function base64Url(text: string): string {
  return btoa(text).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}
