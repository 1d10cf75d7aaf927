// Checks a request head that Node's parser has read.
import type { IncomingMessage } from 'node:http';

/** Head of a valid request. */
export interface RequestHead {
  method: string;
  /** Path and query. Starts with a slash, except in `OPTIONS *`. */
  target: string;
  /** Alternating names and values, as received. */
  headers: string[];
  /** The `Host` value as received. */
  authority: string;
  hasBody: boolean;
}

/** A host name, an IPv4 address or a bracketed IPv6 address, with or without a port. */
const AUTHORITY = /^(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/;

/** Returns a request's head, or the error status for a head that Node's parser accepts and a proxy must refuse. */
export function readHead(request: IncomingMessage): RequestHead | number {
  const headers = request.rawHeaders;
  let authority: string | null = null;
  let encoded = false;
  let hasBody = false;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!;
    // Compares lengths first: most names have another length.
    if (name.length === 4) {
      if (name.toLowerCase() !== 'host') continue;
      if (authority !== null) return 400;
      authority = headers[i + 1]!;
    } else if (name.length === 14) {
      if (name.toLowerCase() === 'content-length' && Number(headers[i + 1]) > 0) hasBody = true;
    } else if (name.length === 17) {
      if (name.toLowerCase() !== 'transfer-encoding') continue;
      if (encoded || headers[i + 1]!.trim().toLowerCase() !== 'chunked') return 501;
      encoded = true;
      hasBody = true;
    }
  }
  if (request.httpVersionMajor !== 1) return 505;
  if (encoded && request.httpVersionMinor === 0) {
    return 400;
  }
  if (authority === null || !AUTHORITY.test(authority)) return 400;
  const target = originForm(percentEncoded(request.url!), authority, request.method!);
  if (target === null) return 400;
  return { method: request.method!, target, headers, authority, hasBody };
}

/** Percent-encodes a target as the URL Standard does. Node's parser returns its bytes as latin1. */
function percentEncoded(target: string): string {
  const [path = '', ...query] = target.split('?');
  return [path.replaceAll(/[\^`{}]/g, encodeURIComponent), ...query]
    .join('?')
    .replaceAll(/["<>]/g, encodeURIComponent)
    .replaceAll(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Returns path and query of a request target; null for an unsupported form, or another host than in `Host`. */
function originForm(target: string, authority: string, method: string): string | null {
  if (target.startsWith('/')) return target;
  if (target === '*') return method === 'OPTIONS' ? target : null;
  const absolute = /^https?:\/\/([^/?#]*)(.*)$/i.exec(target);
  if (absolute === null || absolute[1]!.toLowerCase() !== authority.toLowerCase()) return null;
  const rest = absolute[2]!;
  return rest.startsWith('/') ? rest : `/${rest}`;
}
