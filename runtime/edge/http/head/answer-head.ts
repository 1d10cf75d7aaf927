// Parses the head of a process's response.
import type { Framing } from '../body/body.ts';
import { connectionOptions, FIELDS_MAX, headerValue, isHopByHop, readFields, readLength } from './fields.ts';
import type { HeadPart } from './outgoing.ts';

export interface AnswerHead {
  status: number;
  /** The reason phrase; may be empty. */
  reason: string;
  /** Alternating names and values, as received. */
  headers: string[];
  /** The header lines that are passed on, each with its CRLF: without hop-by-hop fields and `Content-Length`. */
  lines: string;
  /**
   * The first part of the head for the client. It ends with `x-request-id: `, after which the gateway writes the id,
   * unless the process has sent that header.
   */
  start: HeadPart;
  contentType: string | undefined;
  /** Whether `lines` contain an `X-Request-Id`. */
  hasRequestId: boolean;
  /** Whether `lines` contain a `Date`. */
  hasDate: boolean;
  /** The framing of the body; 0 when there is no body, whatever the headers say. */
  framing: Framing;
  /** Whether the connection may carry another request. */
  keepsAlive: boolean;
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/;

/**
 * Parses the head of a response. Returns null when it is invalid or ambiguous, or has too many fields.
 * @param text the head with its empty line @param method of the request
 */
export function readAnswerHead(text: string, method: string): AnswerHead | null {
  const lineEnd = text.indexOf('\r\n');
  const line = STATUS_LINE.exec(text.slice(0, lineEnd));
  const headers = readFields(text, lineEnd + 2, text.length - 2);
  if (line === null || headers === null || headers.length > 2 * FIELDS_MAX) return null;
  const status = Number(line[2]);
  let length: number | null = null;
  let framing: Framing = 'close';
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!;
    if (name.length === 14 && name.toLowerCase() === 'content-length') {
      length = readLength(headers[i + 1]!);
      if (length === null || framing !== 'close') return null;
      framing = length;
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      const known = line[1] === '1' && headers[i + 1]!.toLowerCase() === 'chunked';
      if (!known || framing !== 'close') return null;
      framing = 'chunked';
    }
  }
  const options = connectionOptions(headers);
  if (options === 'too long') return null;
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) framing = 0;
  const keepsAlive = line[1] === '1' && framing !== 'close' && !options?.has('close');
  const reason = line[3] ?? '';
  const contentType = headerValue(headers, 'content-type');
  const crossed = crossing(headers, options);
  // A 204 has no length (RFC 9110, 8.6): some clients would wait for the bytes. workerd's 304 has length 0, not the file's.
  const lengthLine =
    length === null || status === 204 || status === 304 ? '' : `content-length: ${length}\r\n`;
  const idLine = crossed.hasRequestId ? '' : 'x-request-id: ';
  return {
    status,
    reason,
    headers,
    ...crossed,
    start: `HTTP/1.1 ${status} ${reason}\r\n${crossed.lines}${lengthLine}${idLine}`,
    contentType,
    framing,
    keepsAlive,
  };
}

function crossing(
  headers: string[],
  options: Set<string> | null,
): Pick<AnswerHead, 'lines' | 'hasRequestId' | 'hasDate'> {
  let lines = '';
  let hasRequestId = false;
  let hasDate = false;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!.toLowerCase();
    if (name === 'content-length' || isHopByHop(name) || options?.has(name)) continue;
    if (name === 'x-request-id') hasRequestId = true;
    else if (name === 'date') hasDate = true;
    lines += `${headers[i]}: ${headers[i + 1]}\r\n`;
  }
  return { lines, hasRequestId, hasDate };
}
