// One request as a line of the access log, in the field names of Caddy's, so that tools which read those read these.
import { cutText } from '../../handlers/contract/text.ts';
import type { RequestRecord } from './record.ts';

/** Longest text taken over from a request, in characters: a line stays a line. */
const TEXT_MAX = 1_024;
/** A text of which nothing is cut or escaped. */
const PLAIN = /^[ !#-[\]-~]{0,1024}$/;

/**
 * The line, with its end. What could name a person or let someone in is left out: addresses are cut to /24 and /48,
 * query strings are dropped from the path and the referrer, and no other header is taken over.
 */
export function accessLine(record: RequestRecord): string {
  const headers = fields(
    headerField('User-Agent', record.userAgent),
    headerField('Referer', record.referrer),
  );
  // Methods, hosts, addresses and ids have been checked: nothing in them needs escaping.
  return (
    `{"level":"info","ts":${decimal(record.endedAt, 3)},"logger":"http.log.access","msg":"handled request",` +
    `"request":{"remote_ip":"${record.peerNetwork}","client_ip":"${record.clientNetwork}",` +
    `"proto":"${record.protocol}","method":"${record.method}","host":"${record.host}",` +
    `"uri":${text(record.path)},"headers":{${headers}}},"bytes_read":${record.bytesIn},"user_id":"",` +
    `"duration":${decimal(Math.round(record.durationMs * 1000), 6)},"size":${record.bytesOut},"status":${record.status},` +
    `"resp_headers":{${headerField('Content-Type', record.contentType)}},"site":"${record.site}",` +
    `"request_id":"${record.requestId}","trace_id":"${record.traceId}"}\n`
  );
}

/** A whole number of the `digits`th decimal place, written with a point: much faster than `toFixed`. */
function decimal(number: number, digits: 3 | 6): string {
  const one = digits === 3 ? 1_000 : 1_000_000;
  const whole = Math.floor(number / one);
  return `${whole}.${String(number - whole * one).padStart(digits, '0')}`;
}

function headerField(name: string, value: string | undefined): string {
  return value === undefined ? '' : `"${name}":[${text(value)}]`;
}

function fields(one: string, other: string): string {
  return one === '' || other === '' ? one + other : `${one},${other}`;
}

function text(value: string): string {
  if (PLAIN.test(value)) return `"${value}"`;
  const kept = JSON.stringify(cutText(value, TEXT_MAX));
  // A terminal obeys some of these, and some readers take one for a line's end.
  return kept.replace(/[\x80-\x9f]/g, (control) => `\\u00${control.charCodeAt(0).toString(16)}`);
}
