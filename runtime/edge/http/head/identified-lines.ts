// The header lines of a request to a process, with its ids at the end. Most requests of a connection differ only in the ids.
// So the ids are overwritten in place, and the other lines are reused.
import { keptBytes } from './fields.ts';
import { isRequestId, isTraceparent, putRandomHex } from './ids.ts';

const REQUEST_ID = 'x-request-id: ';
const TRACEPARENT = '\r\ntraceparent: 00-';
/** Placeholders for generated ids. */
const NO_ID = '0'.repeat(32);
const NO_SPAN = '0'.repeat(16);
const RAY = 'cf-ray: ';
/** The flag of a sampled trace. */
const SAMPLED = 1;

/** The headers for the process, and the values in them. */
export interface ForwardedHeaders {
  /** Header lines, each with its CRLF, without those for the body's framing. Valid until the connection's next request. */
  lines: Buffer;
  /** The request's id. Also sent to the client, unless the process sets another. */
  requestId: string;
  /** `requestId` as a slice of `lines`. */
  requestIdBytes: Buffer;
  /** The request's trace: 32 hexadecimal digits. */
  traceId: string;
  /** The request's own span, which is the parent span for the process: 16 hexadecimal digits. */
  spanId: string;
  /** The caller's span; null when the trace begins here. */
  parentSpanId: string | null;
  client: string;
}

/** A buffer of lines, with the ids of one request at a time. */
export class IdentifiedLines {
  readonly #bytes: Buffer;
  readonly #requestIdBytes: Buffer;
  readonly #requestIdAt: number;
  readonly #traceIdAt: number;
  readonly #spanIdAt: number;
  /** -1 without a `CF-Ray`. */
  readonly #rayAt: number;
  /** The request id that the caller sent; null to generate one. */
  readonly #requestId: string | null;
  /** The trace id that the caller sent; null to generate one. */
  readonly #traceId: string | null;
  /** The parent of the request's span; null when there is none. */
  readonly #parentSpanId: string | null;
  /** The caller's span, when the request continues it; null to generate a span. */
  readonly #spanId: string | null;

  /**
   * @param before the header lines without ids, each with its CRLF
   * @param givenId, traceparent of the caller; ignored when malformed
   * @param isSampled whether the span is exported, whatever the caller does with its own
   * @param colo the end of a `CF-Ray` made of the span's id; null for no `CF-Ray`
   * @param isKept whether the lines are cached for many requests
   * @param continued the parent of the caller's span, when the request continues that span; null for a span of its own
   */
  constructor(
    before: string,
    givenId: string | undefined,
    traceparent: string | undefined,
    isSampled: boolean,
    colo: string | null,
    isKept = true,
    continued: { parentSpanId: string | null } | null = null,
  ) {
    const traced = traceparent !== undefined && isTraceparent(traceparent) ? traceparent : null;
    this.#requestId = givenId !== undefined && isRequestId(givenId) ? givenId : null;
    this.#traceId = traced?.slice(3, 35) ?? null;
    const callerSpanId = traced?.slice(36, 52) ?? null;
    this.#spanId = continued && callerSpanId;
    this.#parentSpanId = this.#spanId === null ? callerSpanId : continued!.parentSpanId;
    const requestId = this.#requestId ?? NO_ID;
    const traceId = this.#traceId ?? NO_ID;
    this.#requestIdAt = before.length + REQUEST_ID.length;
    this.#traceIdAt = this.#requestIdAt + requestId.length + TRACEPARENT.length;
    this.#spanIdAt = this.#traceIdAt + traceId.length + 1;
    const given = Number.parseInt(traced?.slice(53) ?? '0', 16);
    const flags = (isSampled ? given | SAMPLED : given).toString(16).padStart(2, '0');
    const lines = `${before}${REQUEST_ID}${requestId}${TRACEPARENT}${traceId}-${this.#spanId ?? NO_SPAN}-${flags}\r\n`;
    this.#rayAt = colo === null ? -1 : lines.length + RAY.length;
    const all = colo === null ? lines : `${lines}${RAY}${NO_SPAN}-${colo}\r\n`;
    this.#bytes = isKept ? keptBytes(all) : Buffer.from(all, 'latin1');
    this.#requestIdBytes = this.#bytes.subarray(this.#requestIdAt, this.#requestIdAt + requestId.length);
  }

  /** Writes the ids of the next request. If the caller sent no ids, the request and its trace get the same generated id. */
  identify(client: string): ForwardedHeaders {
    const bytes = this.#bytes;
    const id = this.#makeId();
    const spanId = this.#spanId ?? putRandomHex(8, bytes, this.#spanIdAt);
    if (this.#rayAt !== -1) copyDigits(bytes, this.#spanIdAt, this.#rayAt, spanId.length);
    return {
      lines: bytes,
      requestId: this.#requestId ?? id,
      requestIdBytes: this.#requestIdBytes,
      traceId: this.#traceId ?? id,
      spanId,
      parentSpanId: this.#parentSpanId,
      client,
    };
  }

  /** Generates an id and writes it where the caller sent none. The result is unused when the caller sent both. */
  #makeId(): string {
    const bytes = this.#bytes;
    if (this.#requestId !== null) {
      return this.#traceId === null ? putRandomHex(16, bytes, this.#traceIdAt) : NO_ID;
    }
    const id = putRandomHex(16, bytes, this.#requestIdAt);
    if (this.#traceId !== null) return id;
    copyDigits(bytes, this.#requestIdAt, this.#traceIdAt, id.length);
    return id;
  }
}

function copyDigits(bytes: Buffer, from: number, to: number, count: number): void {
  for (let i = 0; i < count; i++) bytes[to + i] = bytes[from + i]!;
}
