// Requests on their way to the thread: one line of text for each, which is much cheaper to hand over than an object.
import type { RequestRecord } from '../edge/record.ts';

/** What telemetry needs to know of a request that is over. Fields as in `RequestRecord`. */
export type CountedRequest = Pick<
  RequestRecord,
  | 'endedAt'
  | 'status'
  | 'durationMs'
  | 'heldMs'
  | 'wakeMs'
  | 'bytesIn'
  | 'bytesOut'
  | 'cellStart'
  | 'upgraded'
  | 'refused'
  | 'release'
  | 'traceId'
  | 'spanId'
  | 'parentSpanId'
  | 'method'
  | 'host'
  | 'path'
> & { appId: string; userAgent: string; referrer: string };

/** Longest text taken over from a request, in characters. */
const TEXT_MAX = 512;
/** Neither stands in any part of a head that the gateway takes. */
const FIELD_END = '\0';
const LINE_END = '\n';

/** A request as a line, with its end. The client's own words come last: whatever they are, the request counts. */
export function requestLine(record: RequestRecord): string {
  const { cellStart, userAgent = '', referrer = '' } = record;
  const start = cellStart === null ? '' : cellStart;
  return (
    `${record.site}\0${record.endedAt}\0${record.status}\0${Math.round(record.durationMs * 1000)}\0` +
    `${Math.round(record.heldMs)}\0${Math.round(record.wakeMs)}\0${record.bytesIn}\0${record.bytesOut}\0` +
    `${start}\0${record.upgraded ? 1 : 0}\0${record.refused ?? ''}\0${record.release ?? ''}\0${record.traceId}\0` +
    `${record.spanId}\0${record.parentSpanId ?? ''}\0` +
    `${record.method}\0${cut(record.host)}\0${cut(record.path)}\0${cut(userAgent)}\0${cut(referrer)}\n`
  );
}

function cut(text: string): string {
  return text.length > TEXT_MAX ? text.slice(0, TEXT_MAX) : text;
}

/** Reads lines that `requestLine` wrote. */
export function* readRequestLines(lines: string): Generator<CountedRequest> {
  for (const line of lines.split(LINE_END)) {
    if (line === '') continue;
    const fields = line.split(FIELD_END);
    const [appId, endedAt, status, micros, heldMs, wakeMs, bytesIn, bytesOut, start, upgraded] = fields;
    const [refused, release, traceId, spanId, parentSpanId, ...words] = fields.slice(10);
    const [method, host, path, userAgent, referrer] = words;
    yield {
      appId: appId!,
      endedAt: Number(endedAt),
      status: Number(status),
      durationMs: Number(micros) / 1000,
      heldMs: Number(heldMs),
      wakeMs: Number(wakeMs),
      bytesIn: Number(bytesIn),
      bytesOut: Number(bytesOut),
      cellStart: start === '' ? null : (start as 'warm' | 'cold'),
      upgraded: upgraded === '1',
      refused: refused || null,
      release: release || null,
      traceId: traceId!,
      spanId: spanId!,
      parentSpanId: parentSpanId || null,
      method: method!,
      host: host!,
      path: path!,
      userAgent: userAgent ?? '',
      referrer: referrer ?? '',
    };
  }
}
