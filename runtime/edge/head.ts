// The head of a request, checked: what can be read in two ways is refused before anything is routed.
import type { IncomingMessage } from 'node:http';
import type { OwnRefusal } from './refusals.ts';

/** What a request asks for, as routing sees it. */
export interface RequestHead {
  method: string;
  /** Lower case, without the port. */
  host: string;
  /** The path without its query. */
  path: string;
  /** Path and query, as sent on. Starts with a slash, but for `OPTIONS *`. */
  target: string;
  /** Names and values in turn, as received. */
  headers: string[];
  /** The `Host` value as received. */
  authority: string;
  hasBody: boolean;
}

/** A host name, an IPv4 address or a bracketed IPv6 address, with or without a port. */
const AUTHORITY = /^(?:([A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)\.?|(\[[0-9A-Fa-f:.]+\]))(?::\d{1,5})?$/;

/** Reads a request's head. What Node's parser lets pass and a proxy must not is refused. */
export function readHead(request: IncomingMessage): RequestHead | { refusal: OwnRefusal } {
  const headers = request.rawHeaders;
  let authority: string | null = null;
  let encoded = false;
  let hasBody = false;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!;
    // Only the names looked for have these lengths.
    if (name.length === 4) {
      if (name.toLowerCase() !== 'host') continue;
      if (authority !== null) return badRequest('The request has more than one Host header.');
      authority = headers[i + 1]!;
    } else if (name.length === 14) {
      if (name.toLowerCase() === 'content-length' && Number(headers[i + 1]) > 0) hasBody = true;
    } else if (name.length === 17) {
      if (name.toLowerCase() !== 'transfer-encoding') continue;
      if (encoded || headers[i + 1]!.trim().toLowerCase() !== 'chunked') return UNKNOWN_ENCODING;
      encoded = true;
      hasBody = true;
    }
  }
  if (request.httpVersionMajor !== 1) return UNKNOWN_VERSION;
  if (encoded && request.httpVersionMinor === 0) {
    return badRequest('An HTTP/1.0 request cannot have a Transfer-Encoding.');
  }
  const host = authority === null ? null : hostOf(authority);
  if (host === null) return badRequest('The request needs one valid Host header.');
  const target = originForm(request.url!, authority!, request.method!);
  if (target === null) return badRequest('The request target is not a path of this host.');
  const query = target.indexOf('?');
  return {
    method: request.method!,
    host,
    path: query === -1 ? target : target.slice(0, query),
    target,
    headers,
    authority: authority!,
    hasBody,
  };
}

/** The first value of a header in a flat list. `name` is lower case. */
export function headerValue(headers: readonly string[], name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.length === name.length && headers[i]!.toLowerCase() === name) return headers[i + 1];
  }
  return undefined;
}

function hostOf(authority: string): string | null {
  const match = AUTHORITY.exec(authority);
  return match === null ? null : (match[1] ?? match[2]!).toLowerCase();
}

/** Path and query of a request target; null when it is of no use here or names another host than `Host` does. */
function originForm(target: string, authority: string, method: string): string | null {
  if (target.startsWith('/')) return target;
  if (target === '*') return method === 'OPTIONS' ? target : null;
  const absolute = /^https?:\/\/([^/?#]*)(.*)$/i.exec(target);
  if (absolute === null || absolute[1]!.toLowerCase() !== authority.toLowerCase()) return null;
  const rest = absolute[2]!;
  return rest.startsWith('/') ? rest : `/${rest}`;
}

const UNKNOWN_ENCODING: { refusal: OwnRefusal } = {
  refusal: {
    status: 501,
    code: 'unknown_transfer_encoding',
    detail: 'The only Transfer-Encoding known here is chunked, once.',
  },
};
const UNKNOWN_VERSION: { refusal: OwnRefusal } = {
  refusal: {
    status: 505,
    code: 'unsupported_http_version',
    detail: 'Only versions 1.0 and 1.1 of HTTP are spoken here.',
  },
};

function badRequest(detail: string): { refusal: OwnRefusal } {
  return { refusal: { status: 400, code: 'bad_request', detail } };
}
