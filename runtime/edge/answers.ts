// Responses that the gateway makes itself: JSON-RPC errors, problem details, HTML pages, and plain text for git.
import { STATUS_CODES } from 'node:http';
import { PAGE_HEADERS } from '../../handlers/contract/pages.ts';
import { headerValue } from './http/head/fields.ts';
import { dateLine } from './http/head/headers.ts';
import { refusalPage } from './page.ts';
import type { Refusal } from './refusals.ts';

/** Longest part of `Accept` that is parsed, in characters. No browser sends more, and parsing costs time. */
const ACCEPT_MAX = 1_024;

/** Headers of an error page that the app's owner wrote. No Content-Security-Policy: the page may load anything. */
const OWN_PAGE_HEADERS = { 'content-type': 'text/html; charset=utf-8', 'x-content-type-options': 'nosniff' };

/** The `code` of a JSON-RPC error that reports a refusal. */
const RPC_REFUSED = -32000;

/** A whole response. `content-length` and `x-request-id` are added when it is sent. */
export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** The response of a site that the host serves itself. A refusal is sent in the form that the client prefers. */
export type LocalAnswer = Answer | { refusal: Refusal };

/**
 * Returns a refusal in the form that the client can show. Programs get `application/problem+json` (RFC 9457), and
 * clients whose `Accept` prefers HTML get a page. git gets plain text, because it shows its user nothing else.
 * @param request the request's headers: alternating names and values @param isRpc whether the client expects JSON-RPC
 */
export function refusalAnswer(
  refusal: Refusal,
  request: readonly string[],
  requestId: string,
  isRpc = false,
): Answer {
  const { status, code, detail, retryAfterS } = refusal;
  const headers: Record<string, string> = { ...refusal.headers, 'cache-control': 'no-store' };
  if (retryAfterS !== undefined) headers['retry-after'] = String(Math.max(1, Math.ceil(retryAfterS)));
  const problem = { type: 'about:blank', title: STATUS_CODES[status] ?? 'Error', status, detail, code };
  if (isRpc) {
    headers['content-type'] = 'application/json';
    const error = { code: RPC_REFUSED, message: detail, data: problem };
    return { status, headers, body: `${JSON.stringify({ jsonrpc: '2.0', id: null, error })}\n` };
  }
  if (headerValue(request, 'user-agent')?.startsWith('git/')) {
    headers['content-type'] = 'text/plain; charset=utf-8';
    return { status, headers, body: `${detail}\n` };
  }
  if (prefersHtml(headerValue(request, 'accept'))) {
    if (refusal.page) return { status, headers: { ...headers, ...OWN_PAGE_HEADERS }, body: refusal.page };
    return { status, headers: { ...headers, ...PAGE_HEADERS }, body: refusalPage(refusal, requestId) };
  }
  headers['content-type'] = 'application/problem+json';
  return { status, headers, body: `${JSON.stringify(problem)}\n` };
}

/** Returns a refusal as the text of a whole response, when no request was parsed. The caller must close the connection. */
export function rawRefusal(refusal: Refusal, requestId: string): string {
  const { status, headers, body } = refusalAnswer(refusal, [], requestId);
  let head = statusLine(status) + dateLine();
  for (const [name, value] of Object.entries(headers)) head += `${name}: ${value}\r\n`;
  return `${head}x-request-id: ${requestId}\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`;
}

/** Returns the status line of a response, with its CRLF. */
export function statusLine(status: number): string {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}\r\n`;
}

/** Whether `Accept` gives HTML a higher weight than JSON. Wildcards are ignored. */
function prefersHtml(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  const known = accept.slice(0, ACCEPT_MAX);
  if (!known.includes('text/html')) return false;
  let html = 0;
  let json = 0;
  for (const part of known.split(',')) {
    const [type = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    const q = parameters.find((parameter) => parameter.startsWith('q='));
    const weight = q === undefined ? 1 : Number(q.slice(2)) || 0;
    if (type === 'text/html') html = weight;
    if (type === 'application/json' || type === 'application/problem+json') json = Math.max(json, weight);
  }
  return html > json;
}
