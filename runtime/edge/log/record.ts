// The flat record of a finished request, for the access log and other observers.
import { log, reason as messageOf } from '../../log.ts';
import type { ClientInfo } from './client-info.ts';

/** A finished request. Its strings keep the request's head in memory, so keep a record only briefly. */
export interface RequestRecord {
  /** When it ended, in ms since 1970. */
  endedAt: number;
  /** The app's id, or the name of another site; empty when no site was found. */
  site: string;
  method: string;
  /** Without the query. May be as long as a request's head. */
  path: string;
  clientInfo: ClientInfo;
  /** 499 when the client left before a response began. */
  status: number;
  /** Time from the request's head to the end of the response, in ms. */
  durationMs: number;
  /** The part of `durationMs` in which the request was queued. */
  heldMs: number;
  /** `cold` if the request waited for its process to start, else `warm`; null if it was sent to no process or other host. */
  cellStart: 'warm' | 'cold' | null;
  /** How long the start of the request's process took, in ms; 0 unless `cellStart` is `cold`. */
  wakeMs: number;
  /** The release of the app that the request's process runs; null without a process, and for another host. */
  release: string | null;
  /** Bytes of the request's body; for an upgraded connection, all bytes from the client. */
  bytesIn: number;
  /** Bytes of the response's body; for an upgraded connection, all bytes to the client. */
  bytesOut: number;
  /** Of the response; undefined when it has none. */
  contentType: string | undefined;
  /** 32 hexadecimal digits. */
  traceId: string;
  /** The request's own span: 16 hexadecimal digits. */
  spanId: string;
  /** The caller's span; null when the trace begins here. */
  parentSpanId: string | null;
  requestId: string;
  /** Why the gateway refused the request, such as `rate_limited` or `shed`; null when it did not. */
  refused: string | null;
  /** Whether the connection was upgraded to another protocol, such as WebSocket. */
  upgraded: boolean;
  /** The name of the other host to which the request was sent; null when it was sent to none. */
  home: string | null;
}

/** Called for each finished request, on the gateway's thread. Must return quickly, however large the bodies were. */
export type RequestObserver = (record: RequestRecord) => void;

/** Time between two log lines about failing observers, in ms. */
const LOG_EVERY_MS = 60_000;

/** The observers of finished requests. An observer that throws affects no other. */
export class Observers {
  #all: RequestObserver[] = [];
  #loggedAt = -LOG_EVERY_MS;

  get any(): boolean {
    return this.#all.length > 0;
  }

  /** Adds an observer. Returns a function that removes it. */
  add(observer: RequestObserver): () => void {
    this.#all.push(observer);
    return () => {
      this.#all = this.#all.filter((other) => other !== observer);
    };
  }

  notify(record: RequestRecord): void {
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
    if (now - this.#loggedAt < LOG_EVERY_MS) return;
    this.#loggedAt = now;
    log('error', 'an observer of requests failed', { error: messageOf(error) });
  }
}
