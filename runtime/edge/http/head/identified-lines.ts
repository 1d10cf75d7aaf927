// The header lines by which a process is told of a request, which end with its ids. The lines of a connection's requests are
// mostly the same but for the ids, which are written into them: nothing else has to be put together again.
import { keptBytes } from './fields.ts';
import { isRequestId, isTraceparent, putRandomHex } from './ids.ts';

const REQUEST_ID = 'x-request-id: ';
const TRACEPARENT = '\r\ntraceparent: 00-';
/** Places of ids that are made. */
const NO_ID = '0'.repeat(32);
const NO_SPAN = '0'.repeat(16);
const RAY = 'cf-ray: ';
/** The flag of a trace whose spans are recorded. */
const SAMPLED = 1;

/** What goes to the process, and what it says of the request. */
export interface ForwardedHeaders {
  /** Field lines, each with its end, until the next request of the connection. How the body is framed is not among them. */
  lines: Buffer;
  /** Goes back to the client too. */
  requestId: string;
  /** The same as bytes, which are those of `lines`. */
  requestIdBytes: Buffer;
  /** The trace that the request belongs to: 32 hexadecimal digits. */
  traceId: string;
  /** The request's own span in it, which the process is told as its parent: 16 hexadecimal digits. */
  spanId: string;
  /** The caller's span; null when the trace begins here. */
  parentSpanId: string | null;
  /** The client's address. */
  client: string;
}

/** Lines in which the ids of one request stand at a time. */
export class IdentifiedLines {
  readonly #bytes: Buffer;
  readonly #requestIdBytes: Buffer;
  readonly #requestIdAt: number;
  readonly #traceIdAt: number;
  readonly #spanIdAt: number;
  /** -1 when there is none. */
  readonly #rayAt: number;
  /** Those that the caller gave. */
  readonly #requestId: string | null;
  readonly #traceId: string | null;
  readonly #parentSpanId: string | null;

  /**
   * @param before the lines before those of the ids
   * @param givenId, traceparent what the caller said; what is not well formed counts for nothing
   * @param isSampled whether the span is exported, whatever the caller does with its own
   * @param colo what a `CF-Ray` made of the span's id ends with; null for none
   */
  constructor(
    before: string,
    givenId: string | undefined,
    traceparent: string | undefined,
    isSampled: boolean,
    colo: string | null,
  ) {
    const traced = traceparent !== undefined && isTraceparent(traceparent) ? traceparent : null;
    this.#requestId = givenId !== undefined && isRequestId(givenId) ? givenId : null;
    this.#traceId = traced?.slice(3, 35) ?? null;
    this.#parentSpanId = traced?.slice(36, 52) ?? null;
    const requestId = this.#requestId ?? NO_ID;
    const traceId = this.#traceId ?? NO_ID;
    this.#requestIdAt = before.length + REQUEST_ID.length;
    this.#traceIdAt = this.#requestIdAt + requestId.length + TRACEPARENT.length;
    this.#spanIdAt = this.#traceIdAt + traceId.length + 1;
    const given = Number.parseInt(traced?.slice(53) ?? '0', 16);
    const flags = (isSampled ? given | SAMPLED : given).toString(16).padStart(2, '0');
    const lines = `${before}${REQUEST_ID}${requestId}${TRACEPARENT}${traceId}-${NO_SPAN}-${flags}\r\n`;
    this.#rayAt = colo === null ? -1 : lines.length + RAY.length;
    this.#bytes = keptBytes(colo === null ? lines : `${lines}${RAY}${NO_SPAN}-${colo}\r\n`);
    this.#requestIdBytes = this.#bytes.subarray(this.#requestIdAt, this.#requestIdAt + requestId.length);
  }

  /** Gives the next request its ids. One id names its trace and the request itself unless the caller brought either. */
  identify(client: string): ForwardedHeaders {
    const bytes = this.#bytes;
    const id = this.#makeId();
    const spanId = putRandomHex(8, bytes, this.#spanIdAt);
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

  /** Makes one, and writes it where the caller gave none. Nobody uses it where the caller gave both. */
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
