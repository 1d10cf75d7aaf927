// Assets: Wrangler names them by their hashes, and sends those that are not here yet.
import type { HostCalls } from '../../contract/host/host-routes.ts';
import { type CallContext, newAppCall, openCall } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';

/** How long a session lasts, in s: the host keeps it so long. */
const SESSION_S = 3_600;

export const assetCalls = [
  newAppCall({
    method: 'POST',
    path: '/accounts/:account/workers/scripts/:script/assets-upload-session',
    answer: async (context, _body, app) => {
      const from = { owner: ownerOf(context), app: app?.id };
      const { session, buckets } = await context.host.uploads.startAssets(from, requireBody(context.request));
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
      const type = request.headers.get('content-type') ?? '';
      const { complete } = await host.uploads.keepAssets(session, requireBody(request), type);
      return { jwt: complete ? sessionToken(session) : null };
    },
  }),
];

/** Whose an upload is: a session of assets is taken from the same alone. */
export function ownerOf({ account, words }: CallContext): string {
  return `${account}/${words.script}`;
}

/** @throws {CloudflareError} when there is none */
export function requireBody({ body }: Request): ReadableStream<Uint8Array> {
  if (body === null) throw new CloudflareError(400, CODES.BAD_REQUEST, 'The request has no body.');
  return body;
}

/**
 * A token for a session. Wrangler reads when it ends. What lets the assets in is the last part: the session's id, which
 * nobody guesses.
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
