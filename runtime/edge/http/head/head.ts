// Parses the head of a request. Everything that is not exactly HTTP/1.0 or 1.1, or is ambiguous, is refused before
// routing.
import type { ClientInfo } from '../../log/client-info.ts';
import { badRequest, NOT_HTTP, type OwnRefusal, UNKNOWN_EXPECTATION } from '../../refusals.ts';
import type { Framing } from '../body/body.ts';
import { readAuthority } from './authority.ts';
import { connectionOptions, FIELDS_MAX, readFields, readLength } from './fields.ts';
import type { IdentifiedLines } from './identified-lines.ts';
import { type RequestLine, readRequestLine } from './request-line.ts';

/** A request, as routing sees it. */
export interface RequestHead {
  method: string;
  /** Lower case, without the port. */
  host: string;
  /** The path without its query. */
  path: string;
  /** Path and query, as forwarded. Starts with a slash, except for `OPTIONS *`. */
  target: string;
  /** Alternating names and values, as received. */
  headers: string[];
  /** The `Host` value, without the dot at the end of its host. */
  authority: string;
  /** The parsed header fields. Later requests of the connection with the same fields share this object. */
  fields: HeadFields;
  /** Length of the whole head, in bytes. */
  bytes: number;
  /** 1 for HTTP/1.1; 0 for HTTP/1.0. */
  minorVersion: number;
  framing: Framing;
  hasBody: boolean;
  /** The options in the `Connection` fields, in lower case; null without any. */
  options: Set<string> | null;
  /** Whether the client waits for a 100 before it sends its body. */
  awaitsContinue: boolean;
  /** The protocol for which the client asks to upgrade; null without one, or when it is not allowed. */
  upgrade: string | null;
}

/** The fields of a head, and what they mean. */
export interface HeadFields {
  /** Alternating names and values, as received. */
  headers: string[];
  authority: string;
  host: string;
  /** The minor version of HTTP/1.x with which they were parsed. */
  minorVersion: number;
  framing: Framing;
  options: Set<string> | null;
  awaitsContinue: boolean;
  /** The protocol to which a GET with these fields may upgrade; null for none. */
  upgrade: string | null;
  /** Whether there is a `Range` or an `If-None-Match`. */
  isConditional: boolean;
  /** Cache of `forwardedHeaders`; null before its first call. */
  crossing: CrossingFields | null;
  /** Client info for the records of requests, cached by `Exchange`; null before the first record. */
  clientInfo: ClientInfo | null;
}

/** The headers for a process that depend only on the fields, the connection and the client's location. */
export interface CrossingFields {
  lines: IdentifiedLines;
  client: string;
  /** The client's location, as known when the lines were made. */
  located: string;
  /** The client's country, such as `DE`, from its location or from Cloudflare's edge; null when it is unknown. */
  country: string | null;
}

type Refused = { refusal: OwnRefusal };

/** The fields that decide how a request is parsed. */
interface Special {
  authority: string | null;
  framing: Framing | null;
  expect: string | null;
  upgrade: string | null;
  isConditional: boolean;
}

/** Removes the empty lines before a head, which some clients send after a body (RFC 9112, 2.2). */
export function withoutEmptyLines(bytes: Buffer): Buffer {
  let at = 0;
  while (bytes[at] === 13 && bytes[at + 1] === 10) at += 2;
  return at === 0 ? bytes : bytes.subarray(at);
}

/** Parses the head at the front of `bytes`. @param length of the head, its empty line included */
export function readHead(bytes: Buffer, length: number): RequestHead | Refused {
  const lineEnd = bytes.indexOf('\r\n');
  const line = readRequestLine(bytes, lineEnd);
  if ('refusal' in line) return line;
  const fields = readHeadFields(bytes.toString('latin1', lineEnd + 2, length), line.minorVersion);
  return 'refusal' in fields ? fields : headOf(line, fields, length);
}

/**
 * Parses a head whose fields were parsed before.
 * @param bytes begin with the request line, whose minor version is the one of `fields`
 * @param lineEnd where the request line ends
 * @param length of the whole head
 */
export function readHeadAgain(
  bytes: Buffer,
  lineEnd: number,
  fields: HeadFields,
  length: number,
): RequestHead | Refused {
  const line = readRequestLine(bytes, lineEnd);
  return 'refusal' in line ? line : headOf(line, fields, length);
}

/** Parses the fields of a head, its empty line included. */
function readHeadFields(text: string, minorVersion: number): HeadFields | Refused {
  const headers = readFields(text, 0, text.length - 2);
  if (headers === null) return { refusal: NOT_HTTP };
  if (headers.length > 2 * FIELDS_MAX) return TOO_MANY_FIELDS;
  const special = readSpecial(headers, minorVersion);
  if ('refusal' in special) return special;
  const { expect } = special;
  const named = special.authority === null ? null : readAuthority(special.authority);
  if (named === null) return badRequest('The request needs one valid Host header.');
  // HTTP/1.0 has no expectations.
  const expects = minorVersion > 0 && expect !== null;
  if (expects && expect.toLowerCase() !== '100-continue') return { refusal: UNKNOWN_EXPECTATION };
  const options = connectionOptions(headers);
  if (options === 'too long') return badRequest('The Connection header has too many options.');
  const framing = special.framing ?? 0;
  return {
    headers,
    ...named,
    minorVersion,
    framing,
    options,
    awaitsContinue: expects && framing !== 0,
    upgrade: mayUpgrade(minorVersion, special, options) ? special.upgrade : null,
    isConditional: special.isConditional,
    crossing: null,
    clientInfo: null,
  };
}

function headOf(line: RequestLine, fields: HeadFields, bytes: number): RequestHead | Refused {
  const { method, minorVersion } = line;
  const { authority, framing } = fields;
  const isPath = line.target.startsWith('/');
  const target = isPath ? line.target : originForm(line.target, authority, method);
  if (target === null) return badRequest('The request target is not a path of this host.');
  return {
    method,
    host: fields.host,
    path: isPath ? line.path : target.replace(/\?.*$/, ''),
    target,
    headers: fields.headers,
    authority,
    fields,
    bytes,
    minorVersion,
    framing,
    hasBody: framing !== 0,
    options: fields.options,
    awaitsContinue: fields.awaitsContinue,
    upgrade: method === 'GET' ? fields.upgrade : null,
  };
}

function readSpecial(headers: string[], minorVersion: number): Special | Refused {
  const special: Special = {
    authority: null,
    framing: null,
    expect: null,
    upgrade: null,
    isConditional: false,
  };
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!;
    const value = headers[i + 1]!;
    // Compares the length of the name first, for speed. No two of these fields have names of the same length.
    switch (name.length) {
      case 4:
        if (name.toLowerCase() !== 'host') break;
        if (special.authority !== null) return badRequest('The request has more than one Host header.');
        special.authority = value;
        break;
      case 5:
        if (name.toLowerCase() === 'range') special.isConditional = true;
        break;
      case 6:
        if (name.toLowerCase() === 'expect') special.expect = value;
        break;
      case 7:
        if (name.toLowerCase() === 'upgrade') {
          special.upgrade = special.upgrade === null ? value : `${special.upgrade}, ${value}`;
        }
        break;
      case 13:
        if (name.toLowerCase() === 'if-none-match') special.isConditional = true;
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

/** Whether an upgrade is allowed: only without a body, and not to `h2c`, whose requests would bypass the checks here. */
function mayUpgrade(
  minorVersion: number,
  { upgrade, framing }: Special,
  options: Set<string> | null,
): boolean {
  if (upgrade === null || minorVersion === 0 || (framing ?? 0) !== 0) return false;
  return options?.has('upgrade') === true && !/\bh2c\b/i.test(upgrade);
}

/** Returns path and query of an absolute target with the host of `Host`; `*` for `OPTIONS *`; null for another target. */
function originForm(target: string, authority: string, method: string): string | null {
  if (target === '*') return method === 'OPTIONS' ? target : null;
  const absolute = /^(https?:\/\/)([^/?]*)(.*)$/i.exec(target);
  const named = absolute === null ? null : readAuthority(absolute[2]!);
  if (absolute === null || named === null) return null;
  // Compares hosts of URLs, which omit a scheme's default port: `shop.example:80` is `shop.example` in HTTP.
  const hostOf = (each: string) => new URL(absolute[1]! + each).host;
  if (hostOf(named.authority) !== hostOf(authority)) return null;
  const rest = absolute[3]!;
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
    detail: 'The only supported Transfer-Encoding is chunked, without other codings.',
  },
};
