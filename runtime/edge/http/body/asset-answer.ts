// What workerd's asset service lacks for static files. It ignores `Range`, without which Safari plays no video. It knows only
// one tag in `If-None-Match`, and the types of few file extensions.
import mime from 'mime';
import { type AnswerHead, readAnswerHead } from '../head/answer-head.ts';
import { FIELDS_MAX, headerValue } from '../head/fields.ts';
import type { RequestHead } from '../head/head.ts';

/** The ETag that workerd gives a file: its second number is the file's size in hexadecimal. */
const ASSET_TAG = /^(?:W\/)?("[0-9a-f]+-([0-9a-f]+)-[0-9a-f]+")$/;
/** A `Range` of one range. A request for several ranges is answered with the whole file (allowed by RFC 9110, 14.2). */
const RANGE = /^bytes=(?:(\d{1,15})-(\d{0,15})|-(\d{1,15}))$/i;
/** Maximum fields that the type, or afterwards a range, adds to a response. */
const FIELDS_ADDED = 2;

/** A response made from a full response: its head, and the part of the full body that is sent to the client. */
export class PartialAnswer {
  readonly head: AnswerHead;
  #skipped: number;
  #left: number;

  /** @param skipped bytes of the full body before the part @param length bytes of the part */
  constructor(head: AnswerHead, skipped: number, length: number) {
    this.head = head;
    this.#skipped = skipped;
    this.#left = length;
  }

  /** Whether the whole part has been taken, so that the rest of the full body is not needed. */
  get done(): boolean {
    return this.#left === 0;
  }

  /** Takes the next pieces of the full body and returns the bytes that belong to the part. */
  take(pieces: Buffer[]): Buffer[] {
    const taken: Buffer[] = [];
    for (const piece of pieces) {
      const from = Math.min(this.#skipped, piece.length);
      const part = piece.subarray(from, from + this.#left);
      this.#skipped -= from;
      this.#left -= part.length;
      if (part.length > 0) taken.push(part);
    }
    return taken;
  }
}

/**
 * Adds a `Content-Type` to the response of a static file that lacks one, by the extension of the request's path, as Wrangler
 * does. Any other response is returned unchanged.
 */
export function typedAnswer({ path }: RequestHead, answer: AnswerHead): AnswerHead {
  if (answer.contentType !== undefined) return answer;
  const asset = assetOf(answer);
  const type = asset === null ? null : mime.getType(path);
  if (type === null) return answer;
  const charset = type.startsWith('text/') ? '; charset=utf-8' : '';
  const lines = `content-type: ${type}${charset}\r\ncontent-length: ${asset!.length}\r\n`;
  return changed(answer, '200 OK', lines);
}

/** Applies `Range` or `If-None-Match` to the full response of a static file. Returns null when neither applies. */
export function partialAnswer(request: RequestHead, answer: AnswerHead): PartialAnswer | null {
  const { method, headers } = request;
  const asset = assetOf(answer);
  if (asset === null || (method !== 'GET' && method !== 'HEAD')) return null;
  const { tag, length } = asset;
  const known = headerValue(headers, 'if-none-match');
  if (known === '*' || known?.includes(tag)) {
    return new PartialAnswer(changed(answer, '304 Not Modified', ''), 0, 0);
  }
  const range = RANGE.exec(headerValue(headers, 'range') ?? '');
  const condition = headerValue(headers, 'if-range');
  if (method === 'HEAD' || range === null || (condition !== undefined && condition !== tag)) return null;
  const [, first, last, suffix] = range;
  const from = suffix === undefined ? Number(first) : Math.max(0, length - Number(suffix));
  const to = suffix === undefined && last !== '' ? Math.min(Number(last), length - 1) : length - 1;
  if (suffix === undefined && last !== '' && Number(last) < from) return null;
  if (from >= length) {
    const lines = `content-range: bytes */${length}\r\ncontent-length: 0\r\n`;
    return new PartialAnswer(changed(answer, '416 Range Not Satisfiable', lines), 0, 0);
  }
  const part = to - from + 1;
  const lines = `accept-ranges: bytes\r\ncontent-range: bytes ${from}-${to}/${length}\r\ncontent-length: ${part}\r\n`;
  return new PartialAnswer(changed(answer, '206 Partial Content', lines), from, part);
}

/** Returns the ETag and the size in bytes of a static file that was sent whole; null for any other response. */
function assetOf({ status, headers }: AnswerHead): { tag: string; length: number } | null {
  if (status !== 200 || headers.length > 2 * (FIELDS_MAX - FIELDS_ADDED)) return null;
  const [, tag, size] = ASSET_TAG.exec(headerValue(headers, 'etag') ?? '') ?? [];
  const length = Number(headerValue(headers, 'content-length') ?? Number.NaN);
  // If the length is missing, or differs from the size in the tag, a Worker has changed the body.
  return tag === undefined || Number.parseInt(size!, 16) !== length ? null : { tag, length };
}

function changed({ lines }: AnswerHead, status: string, more: string): AnswerHead {
  return readAnswerHead(`HTTP/1.1 ${status}\r\n${lines}${more}\r\n`, 'GET')!;
}
