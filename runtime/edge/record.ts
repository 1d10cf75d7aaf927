// What is known of a request that is over: the access log and whoever else wants to know get one flat record of it.
import { log, reason as messageOf } from '../log.ts';
import { headerValue } from './http/fields.ts';
import type { RequestHead } from './http/head.ts';
import { cutAddress } from './limits/networks.ts';

/** Who asks, and how: what the requests of one connection mostly share. */
export interface Asker {
  /** Lower case, without the port. */
  host: string;
  /** Such as `HTTP/1.1`. */
  protocol: string;
  userAgent: string | undefined;
  /** Without its query. */
  referrer: string | undefined;
  /** The client's address, cut to its /24, or its /48 for IPv6. */
  clientNetwork: string;
  /** The same of the address that the connection came from. */
  peerNetwork: string;
  /** What `accessLine` made of it, which keeps it here. */
  logged: string | null;
}

/** A request that is over. Its texts hold on to the request's head in memory: keep a record only for a moment. */
export interface RequestRecord {
  /** When it was over, in ms since 1970. */
  endedAt: number;
  /** The app's id, or the name of another site; empty when no site was found. */
  site: string;
  method: string;
  /** Without the query; as long as the client made it. */
  path: string;
  asker: Asker;
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

/**
 * What records of a request say of who asked.
 * @param connection its peer's address, and that as it is written down
 * @param client the client's address
 */
export function askerOf(
  { headers, host, minorVersion }: RequestHead,
  connection: { peer: string; network: string },
  client: string,
): Asker {
  const { peer, network } = connection;
  return {
    host,
    protocol: minorVersion === 1 ? 'HTTP/1.1' : 'HTTP/1.0',
    userAgent: headerValue(headers, 'user-agent'),
    referrer: withoutQuery(headerValue(headers, 'referer')),
    clientNetwork: client === peer ? network : cutAddress(client),
    peerNetwork: network,
    logged: null,
  };
}

function withoutQuery(url: string | undefined): string | undefined {
  if (url === undefined) return undefined;
  const end = url.search(/[?#]/);
  return end === -1 ? url : url.slice(0, end);
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
