// Requests that are over, for tests of telemetry.
import type { RequestRecord } from '../../../runtime/edge/record.ts';

/** A request that went well just now, but for what `given` says. */
export function record(given: Partial<RequestRecord> = {}): RequestRecord {
  return {
    endedAt: Date.now(),
    site: '0123456789abcdef',
    method: 'GET',
    host: 'app.localhost',
    path: '/',
    protocol: 'HTTP/1.1',
    status: 200,
    durationMs: 5,
    heldMs: 0,
    cellStart: 'warm',
    wakeMs: 0,
    release: 'release0000000000',
    bytesIn: 0,
    bytesOut: 100,
    userAgent: 'test',
    referrer: undefined,
    contentType: 'text/plain',
    clientNetwork: '127.0.0.0/24',
    peerNetwork: '127.0.0.0/24',
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: 'b7ad6b7169203331',
    parentSpanId: null,
    requestId: 'request',
    refused: null,
    upgraded: false,
    ...given,
  };
}
