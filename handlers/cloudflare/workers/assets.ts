// Calls about assets. Wrangler sends a list of all assets with their hashes, then the assets that the host does not have.
import type { HostCalls } from '../../contract/host/host-routes.ts';
import { type CallContext, newAppCall, openCall } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { homeOfUpload } from './upload-home.ts';

/** Lifetime of an upload session in s. The host has the same limit. */
const SESSION_S = 3_600;

export const assetCalls = [
  newAppCall({
    method: 'POST',
    path: '/accounts/:account/workers/scripts/:script/assets-upload-session',
    answer: async (context, _body, app) => {
      const home = await homeOfUpload(context, app);
      const query = { owner: ownerOf(context), app: app?.id, home };
      const given = { query, body: requireBody(context.request) };
      const { session, buckets } = await context.host.call('POST /uploads/assets', {}, given);
      return { jwt: sessionToken({ session, home }), buckets };
    },
  }),
  openCall({
    method: 'POST',
    path: '/accounts/:account/workers/assets/upload',
    answer: async ({ host, request, url }) => {
      const { session, home } = sessionOf(request.headers.get('authorization') ?? '');
      if (url.searchParams.get('base64') !== 'true')
        throw new CloudflareError(
          400,
          CODES.BAD_REQUEST,
          'Cellar accepts assets only in base64: add ?base64=true to the address.',
        );
      const contentType = request.headers.get('content-type') ?? '';
      const given = { query: { home }, body: requireBody(request), contentType };
      const { complete } = await host.call('POST /uploads/assets/:session', { session }, given);
      return { jwt: complete ? sessionToken({ session, home }) : null };
    },
  }),
];

/** Returns the owner of an upload: account and script. Only the owner that started an asset session can use it. */
export function ownerOf({ account, words }: CallContext): string {
  return `${account}/${words.script}`;
}

/** Returns a request's body. @throws {CloudflareError} when the request has no body */
export function requireBody({ body }: Request): ReadableStream<Uint8Array> {
  if (body === null) throw new CloudflareError(400, CODES.BAD_REQUEST, 'The request has no body.');
  return body;
}

interface Session {
  /** An unguessable id, which authorizes the upload. */
  session: HostCalls['POST /uploads/assets']['answer']['session'];
  /** The host that has the session; undefined in a Cellar of one host. */
  home: string | undefined;
}

/**
 * Returns a session's token. It has a JWT's form, because Wrangler reads the expiry in it. Its last part is the session's
 * id.
 */
function sessionToken({ session, home }: Session): string {
  const exp = Math.floor(Date.now() / 1000) + SESSION_S;
  return [
    { alg: 'none', typ: 'JWT' },
    { exp, home },
  ]
    .map((part) => base64Url(JSON.stringify(part)))
    .concat(session)
    .join('.');
}

function sessionOf(authorization: string): Session {
  const [, payload = '', session] = /^Bearer +[\w-]+\.([\w-]+)\.([a-z2-7]{52})$/i.exec(authorization) ?? [];
  if (session !== undefined) return { session, home: homeIn(payload) };
  throw new CloudflareError(
    401,
    CODES.AUTHENTICATION,
    'The request needs the token (`jwt`) of an upload session of assets.',
  );
}

/** Returns the host that a token's payload names. Nothing else in the payload is used. */
function homeIn(payload: string): string | undefined {
  try {
    const { home } = JSON.parse(atob(payload.replace(/-/g, '+').replace(/_/g, '/'))) as { home?: unknown };
    return typeof home === 'string' ? home : undefined;
  } catch {
    return undefined;
  }
}

function base64Url(text: string): string {
  return btoa(text).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}
