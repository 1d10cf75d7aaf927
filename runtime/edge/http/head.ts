// The head of a request: what is not exactly HTTP/1.1, or can be read in two ways, is refused before it is routed.
import { METHODS } from 'node:http';
import { NO_CONNECT, NOT_HTTP, type OwnRefusal, UNKNOWN_EXPECTATION } from '../refusals.ts';
import type { Framing } from './body.ts';
import { connectionOptions, FIELDS_MAX, readFields, readLength } from './fields.ts';

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
  /** Length of the whole head, in bytes. */
  bytes: number;
  /** Of HTTP/1.x. */
  minorVersion: number;
  framing: Framing;
  hasBody: boolean;
  /** What the `Connection` fields list, in lower case. */
  options: Set<string> | null;
  /** Whether the client waits for a 100 before it sends its body. */
  awaitsContinue: boolean;
  /** The protocol that the client wants on its connection instead, if that may be granted. */
  upgrade: string | null;
}

type Refused = { refusal: OwnRefusal };

/** The fields that say how a request is read. */
interface Special {
  authority: string | null;
  framing: Framing | null;
  expect: string | null;
  upgrade: string | null;
}

/** No fragment in the target, which has no place in a request. */
const REQUEST_LINE = /^([A-Z-]+) ([\x21\x22\x24-\x7e]+) HTTP\/(\d)\.(\d)$/;
const KNOWN_METHODS = new Set(METHODS);
/** A host name, an IPv4 address or a bracketed IPv6 address, with or without a port. */
const AUTHORITY = /^(?:([A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)\.?|(\[[0-9A-Fa-f:.]+\]))(?::\d{1,5})?$/;

/** Bytes without the empty lines before a head, which some clients send behind a body (RFC 9112, 2.2). */
export function withoutEmptyLines(bytes: Buffer): Buffer {
  let at = 0;
  while (bytes[at] === 13 && bytes[at + 1] === 10) at += 2;
  return at === 0 ? bytes : bytes.subarray(at);
}

/** Reads a head, which ends with its empty line. */
export function readHead(text: string): RequestHead | Refused {
  const lineEnd = text.indexOf('\r\n');
  const line = REQUEST_LINE.exec(text.slice(0, lineEnd));
  if (line === null) return { refusal: NOT_HTTP };
  const [, method = '', rawTarget = '', major, minor] = line;
  if (major !== '1' || (minor !== '0' && minor !== '1')) return UNKNOWN_VERSION;
  if (!KNOWN_METHODS.has(method)) return badRequest('The method is not known here.');
  if (method === 'CONNECT') return { refusal: NO_CONNECT };
  const minorVersion = Number(minor);
  const headers = readFields(text, lineEnd + 2, text.length - 2);
  if (headers === null) return { refusal: NOT_HTTP };
  if (headers.length > 2 * FIELDS_MAX) return TOO_MANY_FIELDS;
  const special = readSpecial(headers, minorVersion);
  if ('refusal' in special) return special;
  const { authority, expect } = special;
  const host = authority === null ? null : hostOf(authority);
  if (host === null) return badRequest('The request needs one valid Host header.');
  const target = originForm(rawTarget, authority!, method);
  if (target === null) return badRequest('The request target is not a path of this host.');
  // HTTP/1.0 knows no expectations.
  const expects = minorVersion > 0 && expect !== null;
  if (expects && expect.toLowerCase() !== '100-continue') return { refusal: UNKNOWN_EXPECTATION };
  const query = target.indexOf('?');
  const framing = special.framing ?? 0;
  const options = connectionOptions(headers);
  if (options === 'too long') return badRequest('The Connection header lists too much.');
  return {
    method,
    host,
    path: query === -1 ? target : target.slice(0, query),
    target,
    headers,
    authority: authority!,
    bytes: text.length,
    minorVersion,
    framing,
    hasBody: framing !== 0,
    options,
    awaitsContinue: expects && framing !== 0,
    upgrade: mayUpgrade(method, minorVersion, special, options) ? special.upgrade : null,
  };
}

function readSpecial(headers: string[], minorVersion: number): Special | Refused {
  const special: Special = { authority: null, framing: null, expect: null, upgrade: null };
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!;
    const value = headers[i + 1]!;
    // Only the names looked for have these lengths.
    switch (name.length) {
      case 4:
        if (name.toLowerCase() !== 'host') break;
        if (special.authority !== null) return badRequest('The request has more than one Host header.');
        special.authority = value;
        break;
      case 6:
        if (name.toLowerCase() === 'expect') special.expect = value;
        break;
      case 7:
        if (name.toLowerCase() === 'upgrade') {
          special.upgrade = special.upgrade === null ? value : `${special.upgrade}, ${value}`;
        }
        break;
      case 14:
        if (name.toLowerCase() !== 'content-length') break;
        if (special.framing !== null) return badRequest('The request says twice how long it is.');
        special.framing = readLength(value);
        if (special.framing === null) return badRequest('The Content-Length is not a number.');
        break;
      case 17:
        if (name.toLowerCase() !== 'transfer-encoding') break;
        if (special.framing !== null) return badRequest('The request says twice how long it is.');
        if (value.toLowerCase() !== 'chunked') return UNKNOWN_ENCODING;
        if (minorVersion === 0) return badRequest('An HTTP/1.0 request cannot have a Transfer-Encoding.');
        special.framing = 'chunked';
        break;
    }
  }
  return special;
}

/** Only a bare GET without a body. `h2c` would take requests past the checks here. */
function mayUpgrade(
  method: string,
  minorVersion: number,
  { upgrade, framing }: Special,
  options: Set<string> | null,
): boolean {
  if (upgrade === null || method !== 'GET' || minorVersion === 0 || framing !== null) return false;
  return options?.has('upgrade') === true && !/\bh2c\b/i.test(upgrade);
}

function hostOf(authority: string): string | null {
  const match = AUTHORITY.exec(authority);
  return match === null ? null : (match[1] ?? match[2]!).toLowerCase();
}

/** Path and query of a request target; null when it is of no use here or names another host than `Host` does. */
function originForm(target: string, authority: string, method: string): string | null {
  if (target.startsWith('/')) return target;
  if (target === '*') return method === 'OPTIONS' ? target : null;
  const absolute = /^https?:\/\/([^/?]*)(.*)$/i.exec(target);
  if (absolute === null || absolute[1]!.toLowerCase() !== authority.toLowerCase()) return null;
  const rest = absolute[2]!;
  return rest.startsWith('/') ? rest : `/${rest}`;
}

const TOO_MANY_FIELDS: Refused = {
  refusal: {
    status: 431,
    code: 'headers_too_large',
    detail: `The request has more than ${FIELDS_MAX} header fields.`,
  },
};
const UNKNOWN_ENCODING: Refused = {
  refusal: {
    status: 501,
    code: 'unknown_transfer_encoding',
    detail: 'The only Transfer-Encoding known here is chunked, once.',
  },
};
const UNKNOWN_VERSION: Refused = {
  refusal: {
    status: 505,
    code: 'unsupported_http_version',
    detail: 'Only versions 1.0 and 1.1 of HTTP are spoken here.',
  },
};

function badRequest(detail: string): Refused {
  return { refusal: { status: 400, code: 'bad_request', detail } };
}
