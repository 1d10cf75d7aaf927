// Static files of the UI: its page, scripts and styles.
import { ENCODINGS, type Encoding } from '../contract/host/ui-files.ts';
import type { Env } from './env.ts';

/** One year, in seconds. */
const IMMUTABLE = 'public, max-age=31536000, immutable';

/** Allows only our own scripts, no frames, and no other origins. */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "worker-src 'self'",
  "manifest-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Returns a response with the file at a path; null without such a file, and for methods other than GET and HEAD. */
export async function file(request: Request, path: string, env: Env): Promise<Response | null> {
  if (request.method !== 'GET' && request.method !== 'HEAD') return null;
  const found = Object.hasOwn(env.FILES, path) ? env.FILES[path]! : null;
  if (found === null) return null;
  const encoding = bestEncoding(request.headers.get('accept-encoding') ?? '', found.encodings);
  const headers = new Headers({
    'content-type': found.type,
    etag: found.etag,
    vary: 'accept-encoding',
    'cache-control': found.immutable ? IMMUTABLE : 'no-cache',
    ...(found.type.startsWith('text/html') && { 'content-security-policy': PAGE_POLICY }),
  });
  // Ignores `W/`: all encodings of a file have the same etag.
  const known = (request.headers.get('if-none-match') ?? '')
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''));
  if (known.includes(found.etag)) return new Response(null, { status: 304, headers });
  if (encoding !== null) headers.set('content-encoding', encoding);
  const name = encoding === null ? path : path + ENCODINGS[encoding];
  const { ok, body, headers: of } = await env.DISK.fetch(`http://disk${name}`, { method: request.method });
  if (!ok) throw new Error(`the file ${name} is missing`);
  const length = of.get('content-length');
  if (length !== null) headers.set('content-length', length);
  return new Response(body, { headers, encodeBody: 'manual' });
}

/** Returns whether a request is a browser's request for a page. */
export function wantsPage({ method, headers }: Request): boolean {
  return (method === 'GET' || method === 'HEAD') && (headers.get('accept') ?? '').includes('text/html');
}

function bestEncoding(accepted: string, there: Encoding[]): Encoding | null {
  const names = accepted
    .split(',')
    .filter((each) => !/;\s*q=0(\.0*)?\s*$/.test(each))
    .map((each) => each.split(';', 1)[0]!.trim().toLowerCase());
  return there.find((encoding) => names.includes(encoding)) ?? null;
}
