// What is known of a request that is over: the access log and whoever else wants to know get one flat record of it.
import { log, reason as messageOf } from '../../log.ts';
import type { ClientInfo } from './client-info.ts';

/** A request that is over. Its texts hold on to the request's head in memory: keep a record only for a moment. */
export interface RequestRecord {
  /** When it was over, in ms since 1970. */
  endedAt: number;
  /** The app's id, or the name of another site; empty when no site was found. */
  site: string;
  method: string;
  /** Without the query; as long as the client made it. */
  path: string;
  clientInfo: ClientInfo;
  /** 499 when the client left before an answer began. */
  status: number;
  /** From the head to the end of the answer. */
  durationMs: number;
  /** The part of it in which the request was held. */
  heldMs: number;
  /** Whether it waited for the start of the process that took it (`cold`); null when it reached no process. */
  cellStart: 'warm' | 'cold' | null;
  /** What the start of that process took; 0 unless it was cold. */
  wakeMs: number;
  /** Which release of the app that process runs; null when it reached none, or that has no releases. */
  release: string | null;
  /** Bytes of the request's body; of an upgraded connection all that the client sent. */
  bytesIn: number;
  /** Bytes of the answer's body; of an upgraded connection all of them. */
  bytesOut: number;
  /** Of the answer. */
  contentType: string | undefined;
  /** 32 hexadecimal digits. */
  traceId: string;
  /** The request's own span: 16 hexadecimal digits. */
  spanId: string;
  /** The caller's span; null when the trace begins here. */
  parentSpanId: string | null;
  requestId: string;
  /** Why the gateway answered by itself, such as `rate_limited` or `shed`; null when it did not refuse. */
  refused: string | null;
  /** Whether the connection became another protocol's, such as WebSocket. */
  upgraded: boolean;
}

/** Is told of a request that is over, on the gateway's thread: it must return soon, and take no longer for more bytes. */
export type RequestObserver = (record: RequestRecord) => void;

/** Time between two lines about observers that fail, in ms. */
const TOLD_EVERY_MS = 60_000;

/** Those who are told of requests that are over. One that throws harms nobody. */
export class Observers {
  #all: RequestObserver[] = [];
  #toldAt = -TOLD_EVERY_MS;

  get any(): boolean {
    return this.#all.length > 0;
  }

  /** Adds one. Call what it returns to remove it. */
  add(observer: RequestObserver): () => void {
    this.#all.push(observer);
    return () => {
      this.#all = this.#all.filter((other) => other !== observer);
    };
  }

  tell(record: RequestRecord): void {
    for (const observer of this.#all) {
      try {
        observer(record);
      } catch (error) {
        this.#failed(error);
      }
    }
  }

  #failed(error: unknown): void {
    const now = performance.now();
    if (now - this.#toldAt < TOLD_EVERY_MS) return;
    this.#toldAt = now;
    log('error', 'an observer of requests failed', { error: messageOf(error) });
  }
}
