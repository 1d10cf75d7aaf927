// One request as a line of the access log, in the field names of Caddy's, so that tools which read those read these.
import { cutText } from '../../handlers/contract/text.ts';
import { headerValue } from './http/fields.ts';
import { cutAddress } from './limits/networks.ts';
import type { FinishedRequest } from './tally.ts';

/** Longest text taken over from a request, in characters: a line stays a line. */
const TEXT_MAX = 1_024;

/**
 * The line, with its end. What could name a person or let someone in is left out: addresses are cut to /24 and /48,
 * query strings are dropped from the path and the referrer, and no other header is taken over.
 * @param at when the request was over, in ms since 1970
 */
export function accessLine(request: FinishedRequest, at: number): string {
  const { head, tally } = request;
  const headers = fields(
    headerField('User-Agent', headerValue(head.headers, 'user-agent')),
    headerField('Referer', withoutQuery(headerValue(head.headers, 'referer'))),
  );
  const answerHeaders = headerField('Content-Type', headerValue(tally.headers, 'content-type'));
  // Methods, hosts, addresses and ids have been checked: nothing in them needs escaping.
  return (
    `{"level":"info","ts":${at / 1000},"logger":"http.log.access","msg":"handled request",` +
    `"request":{"remote_ip":"${cutAddress(request.peer)}","client_ip":"${cutAddress(request.client)}",` +
    `"proto":"${request.protocol}","method":"${head.method}","host":"${head.host}","uri":${text(head.path)},` +
    `"headers":{${headers}}},"bytes_read":${tally.bytesRead},"user_id":"",` +
    `"duration":${tally.seconds.toFixed(6)},"size":${tally.size},"status":${tally.status},` +
    `"resp_headers":{${answerHeaders}},"site":"${request.site}","request_id":"${request.requestId}",` +
    `"trace_id":"${request.traceId}"}\n`
  );
}

function headerField(name: string, value: string | undefined): string {
  return value === undefined ? '' : `"${name}":[${text(value)}]`;
}

function fields(one: string, other: string): string {
  return one === '' || other === '' ? one + other : `${one},${other}`;
}

function text(value: string): string {
  const kept = JSON.stringify(cutText(value, TEXT_MAX));
  // A terminal obeys some of these, and some readers take one for a line's end.
  return kept.replace(/[\x80-\x9f]/g, (control) => `\\u00${control.charCodeAt(0).toString(16)}`);
}

function withoutQuery(url: string | undefined): string | undefined {
  if (url === undefined) return undefined;
  const end = url.search(/[?#]/);
  return end === -1 ? url : url.slice(0, end);
}
