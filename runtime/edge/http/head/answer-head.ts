// The head of a process's answer.
import type { Framing } from '../body/body.ts';
import { connectionOptions, FIELDS_MAX, headerValue, isHopByHop, readFields, readLength } from './fields.ts';
import type { HeadPart } from './outgoing.ts';

export interface AnswerHead {
  status: number;
  /** The phrase behind the status; may be empty. */
  reason: string;
  /** Names and values in turn, as received. */
  headers: string[];
  /** The field lines that may cross, each with its end; how the body is framed is not among them. */
  lines: string;
  /** What a client gets of the head first: up to where the request's id goes, or all but its last lines when the process sent an id. */
  start: HeadPart;
  contentType: string | undefined;
  /** Whether they have an `X-Request-Id`, and a `Date`. */
  hasRequestId: boolean;
  hasDate: boolean;
  /** How the body that follows is framed; 0 when there is none, whatever the headers say. */
  framing: Framing;
  /** Whether the connection may carry another request. */
  keepsAlive: boolean;
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/;

/** Reads the head of an answer to `method`, up to its empty line; null when it is none, or can be read in two ways. */
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
  // A 204 has no length (RFC 9110, 8.6); clients have been seen to wait for the bytes. workerd's 304 states 0, not the file's.
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
