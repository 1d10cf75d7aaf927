// The head of a process's answer.
import type { Framing } from './body.ts';
import { connectionOptions, FIELDS_MAX, readFields, readLength } from './fields.ts';

export interface AnswerHead {
  status: number;
  /** The phrase behind the status; may be empty. */
  reason: string;
  /** Names and values in turn, as received. */
  headers: string[];
  /** How the body that follows is framed; 0 when there is none, whatever the headers say. */
  framing: Framing;
  /** The value of `Content-Length`, which may stand where no body is. */
  length: number | null;
  /** Whether the connection may carry another request. */
  keepsAlive: boolean;
  /** What the `Connection` fields list, in lower case. */
  options: Set<string> | null;
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
  return { status, reason: line[3] ?? '', headers, framing, length, keepsAlive, options };
}
