// Encodes requests for the telemetry thread: numeric fields in an array, and the other fields of a request as a line.
// Both are much cheaper to transfer than objects.
import type { RequestRecord } from '../../edge/log/record.ts';

/** The fields of a finished request that telemetry needs, as in `RequestRecord`. */
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
> & { appId: string; host: string; userAgent: string; referrer: string; country: string | null };

/** Whether a request is an error. The 503 of a maintenance page is not, because the owner asked for it. */
export function isError({ status, refused }: Pick<CountedRequest, 'status' | 'refused'>): boolean {
  return status >= 500 && refused !== 'maintenance';
}

export interface EncodedRequests {
  /** `NUMBERS` numbers for each request. */
  numbers: Float64Array;
  /** One line for each request. */
  lines: string;
}

/** How many numbers a request has: `add` writes them, and `readRequest` reads them. */
const NUMBERS = 9;
const NUMBER_BYTES = 8;
/** Values of `cellStart`. The index of a value is its encoded number. */
const STARTS = [null, 'warm', 'cold'] as const;
/** Longest host, path, user agent and referrer, in characters. */
const TEXT_MAX = 512;
/** Ends a field. The gateway accepts no method, path or header with this character. */
const FIELD_END = '\0';
/** Ends a request. The gateway accepts no method, path or header with this character. */
const LINE_END = '\n';

/** Collects requests until a batch of them goes to the telemetry thread. */
export class RequestLines {
  #numbers: number[] = [];
  #lines = '';

  get isEmpty(): boolean {
    return this.#lines === '';
  }

  /** @param line the record as text, from `requestLine` */
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

  /** Returns and removes the collected requests. */
  take(): EncodedRequests {
    const taken = { numbers: new Float64Array(this.#numbers), lines: this.#lines };
    this.#numbers = [];
    this.#lines = '';
    return taken;
  }
}

/** Returns the approximate size of an encoded request, in bytes. Each character of its line counts as one byte. */
export function encodedBytes(line: string): number {
  return line.length + NUMBERS * NUMBER_BYTES;
}

/** Returns the texts of a request as a line. The client's texts come last, so that they cannot shift other fields. */
export function requestLine(record: RequestRecord): string {
  const { host, userAgent = '', referrer = '', country } = record.clientInfo;
  return (
    `${record.site}\0${record.refused ?? ''}\0${record.release ?? ''}\0${record.traceId}\0` +
    `${record.spanId}\0${record.parentSpanId ?? ''}\0${record.method}\0${country ?? ''}\0` +
    `${cut(host)}\0${cut(record.path)}\0${cut(userAgent)}\0${cut(referrer)}\n`
  );
}

function cut(text: string): string {
  return text.length > TEXT_MAX ? text.slice(0, TEXT_MAX) : text;
}

export function readRequests({ numbers, lines }: EncodedRequests): CountedRequest[] {
  const texts = lines.split(LINE_END, numbers.length / NUMBERS);
  return texts.map((line, index) => readRequest(numbers, index * NUMBERS, line));
}

/** @param at the index of the request's first number */
function readRequest(numbers: Float64Array, at: number, line: string): CountedRequest {
  // Reads by index, because array destructuring would double the time of this function.
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
    country: texts[7] || null,
    host: texts[8]!,
    path: texts[9]!,
    userAgent: texts[10] ?? '',
    referrer: texts[11] ?? '',
  };
}
