// One request as a line of the access log, in the field names of Caddy's, so that tools which read those read these.
import { cutText } from '../../handlers/contract/text.ts';
import type { Asker } from './asker.ts';
import { inOnePiece } from './http/fields.ts';
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
  const { asker } = record;
  asker.logged ??= inOnePiece(askerFields(asker));
  // Methods, hosts, addresses and ids have been checked: nothing in them needs escaping.
  return (
    `${seconds(record.endedAt)}${asker.logged}"method":"${record.method}","uri":${text(record.path)}},` +
    `"bytes_read":${record.bytesIn},"user_id":"","duration":${duration(record.durationMs)},` +
    `"size":${record.bytesOut},"status":${record.status},` +
    `"resp_headers":{${headerField('Content-Type', record.contentType)}},"site":"${record.site}",` +
    `"request_id":"${record.requestId}","trace_id":"${record.traceId}"}\n`
  );
}

function askerFields({ peerNetwork, clientNetwork, protocol, host, userAgent, referrer }: Asker): string {
  const headers = fields(headerField('User-Agent', userAgent), headerField('Referer', referrer));
  return (
    `,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"${peerNetwork}",` +
    `"client_ip":"${clientNetwork}","proto":"${protocol}","host":"${host}","headers":{${headers}},`
  );
}

/** 0 to 999 with three digits each. */
const DIGITS = Array.from({ length: 1_000 }, (_, n) => String(n).padStart(3, '0'));
let second = -1;
let secondText = '';

/** The beginning of a line with its time. The second is mostly that of the line before. */
function seconds(ms: number): string {
  const whole = Math.floor(ms / 1_000);
  if (whole !== second) {
    second = whole;
    secondText = inOnePiece(`{"level":"info","ts":${whole}.`);
  }
  return `${secondText}${DIGITS[Math.floor(ms - whole * 1_000)]}`;
}

/** A span in ms as seconds, to the microsecond. */
function duration(ms: number): string {
  const micros = Math.round(ms * 1_000);
  const millis = Math.floor(micros / 1_000);
  const whole = Math.floor(millis / 1_000);
  return `${whole}.${DIGITS[millis - whole * 1_000]}${DIGITS[micros - millis * 1_000]}`;
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
