// Requests on their way to the thread: their numbers as numbers, and one line of text for each, which is much cheaper to hand
// over than objects.
import type { RequestRecord } from '../../edge/log/record.ts';

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
  | 'path'
> & { appId: string; host: string; userAgent: string; referrer: string };

/** Requests as they are handed over. */
export interface HandedRequests {
  /** `NUMBERS` of each. */
  numbers: Float64Array;
  /** A line of each. */
  lines: string;
}

/** Numbers of each request. */
const NUMBERS = 9;
const NUMBER_BYTES = 8;
/** `cellStart` by its number. */
const STARTS = [null, 'warm', 'cold'] as const;
/** Longest text taken over from a request, in characters. */
const TEXT_MAX = 512;
/** Neither stands in any part of a head that the gateway takes. */
const FIELD_END = '\0';
const LINE_END = '\n';

/** Collects requests to be handed over. */
export class RequestLines {
  #numbers: number[] = [];
  #lines = '';

  get isEmpty(): boolean {
    return this.#lines === '';
  }

  /** @param line of the request, as `requestLine` writes it */
  add(record: RequestRecord, line: string): void {
    this.#lines += line;
    this.#numbers.push(
      record.endedAt,
      record.status,
      Math.round(record.durationMs * 1000) / 1000,
      Math.round(record.heldMs),
      Math.round(record.wakeMs),
      record.bytesIn,
      record.bytesOut,
      STARTS.indexOf(record.cellStart),
      record.upgraded ? 1 : 0,
    );
  }

  /** Takes all of them. */
  take(): HandedRequests {
    const taken = { numbers: new Float64Array(this.#numbers), lines: this.#lines };
    this.#numbers = [];
    this.#lines = '';
    return taken;
  }
}

/** What a request takes on its way, in bytes. */
export function handedBytes(line: string): number {
  return line.length + NUMBERS * NUMBER_BYTES;
}

/** The texts of a request, with the line's end. The client's own words come last: whatever they are, the request counts. */
export function requestLine(record: RequestRecord): string {
  const { host, userAgent = '', referrer = '' } = record.clientInfo;
  return (
    `${record.site}\0${record.refused ?? ''}\0${record.release ?? ''}\0${record.traceId}\0` +
    `${record.spanId}\0${record.parentSpanId ?? ''}\0${record.method}\0` +
    `${cut(host)}\0${cut(record.path)}\0${cut(userAgent)}\0${cut(referrer)}\n`
  );
}

function cut(text: string): string {
  return text.length > TEXT_MAX ? text.slice(0, TEXT_MAX) : text;
}

/** Reads what was handed over. */
export function readRequests({ numbers, lines }: HandedRequests): CountedRequest[] {
  const texts = lines.split(LINE_END, numbers.length / NUMBERS);
  return texts.map((line, index) => readRequest(numbers, index * NUMBERS, line));
}

/** @param at where its numbers begin */
function readRequest(numbers: Float64Array, at: number, line: string): CountedRequest {
  // By their places: to take an array apart by a pattern costs as much as all the rest.
  const texts = line.split(FIELD_END);
  return {
    endedAt: numbers[at]!,
    status: numbers[at + 1]!,
    durationMs: numbers[at + 2]!,
    heldMs: numbers[at + 3]!,
    wakeMs: numbers[at + 4]!,
    bytesIn: numbers[at + 5]!,
    bytesOut: numbers[at + 6]!,
    cellStart: STARTS[numbers[at + 7]!]!,
    upgraded: numbers[at + 8] === 1,
    appId: texts[0]!,
    refused: texts[1] || null,
    release: texts[2] || null,
    traceId: texts[3]!,
    spanId: texts[4]!,
    parentSpanId: texts[5] || null,
    method: texts[6]!,
    host: texts[7]!,
    path: texts[8]!,
    userAgent: texts[9] ?? '',
    referrer: texts[10] ?? '',
  };
}
