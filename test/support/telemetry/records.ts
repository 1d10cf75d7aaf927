// Records of finished requests, for tests of telemetry.
import type { ClientInfo } from '../../../runtime/edge/log/client-info.ts';
import type { RequestRecord } from '../../../runtime/edge/log/record.ts';

/** Returns the record of a successful request that has just ended. `given` overrides its fields. */
export function record(given: Partial<RequestRecord & ClientInfo> = {}): RequestRecord {
  const { host, protocol, userAgent, referrer, country, clientNetwork, peerNetwork, ...rest } = given;
  return {
    endedAt: Date.now(),
    site: '0123456789abcdef',
    method: 'GET',
    path: '/',
    clientInfo: {
      host: host ?? 'app.localhost',
      protocol: protocol ?? 'HTTP/1.1',
      userAgent: userAgent ?? 'test',
      referrer,
      country: country ?? null,
      clientNetwork: clientNetwork ?? '127.0.0.0/24',
      peerNetwork: peerNetwork ?? '127.0.0.0/24',
      logged: null,
    },
    status: 200,
    durationMs: 5,
    heldMs: 0,
    cellStart: 'warm',
    wakeMs: 0,
    release: 'release0000000000',
    bytesIn: 0,
    bytesOut: 100,
    contentType: 'text/plain',
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: 'b7ad6b7169203331',
    parentSpanId: null,
    requestId: 'request',
    refused: null,
    upgraded: false,
    home: null,
    ...rest,
  };
}
