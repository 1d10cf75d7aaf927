// Node's HTTP server as the gateway needs it: its limits and times.
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { HEAD_BYTES, HEAD_TIMEOUT_MS } from './refusals.ts';
import { GatewayResponse } from './reply.ts';

export type GatewayServer = Server<typeof IncomingMessage, typeof GatewayResponse>;

/** How often clients that are slow with a head are looked for, in ms. */
const CHECK_MS = 5_000;
/** How long an idle connection is kept, in ms. Longer than the 2 minutes of Caddy, so that Caddy closes first. */
const KEEP_ALIVE_MS = 125_000;
/** When a silent connection is probed, in ms, so that clients that vanished do not hold streams open. */
const PROBE_AFTER_MS = 60_000;

/** A server that nothing listens to yet. `mayUpgrade` decides whether a request may leave HTTP. */
export function gatewayServer(mayUpgrade: (request: IncomingMessage) => boolean): GatewayServer {
  const server = createServer({
    ServerResponse: GatewayResponse,
    maxHeaderSize: HEAD_BYTES,
    headersTimeout: HEAD_TIMEOUT_MS,
    // A long upload is no fault; one that stands still is cut by the exchange.
    requestTimeout: 0,
    connectionsCheckingInterval: CHECK_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAlive: true,
    keepAliveInitialDelay: PROBE_AFTER_MS,
    // The Host header is checked with the rest of the head.
    requireHostHeader: false,
    optimizeEmptyRequests: true,
    shouldUpgradeCallback: mayUpgrade,
  });
  // Node drops headers above its count silently; their size is limited above.
  server.maxHeadersCount = 0;
  return server;
}
