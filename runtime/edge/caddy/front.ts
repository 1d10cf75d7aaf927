// Runs Caddy in front of the gateway, for TLS, HTTP/2 and HTTP/3.
import { mkdirSync } from 'node:fs';
import { type Config, isLocal } from '../../config.ts';
import { log } from '../../log.ts';
import type { Gateway } from '../gateway.ts';
import { type Caddy, freePort } from './caddy.ts';
import { caddyConfig, gatewaySocket, rootCertificate } from './config.ts';

/**
 * Makes the gateway listen at a unix socket for Caddy, then starts Caddy.
 * @param parts `directory` is Caddy's own; `api` is the port of the API, which Caddy asks before it requests a certificate
 * @returns the HTTPS port
 * @throws {Error} when Caddy does not start or rejects the config
 */
export async function startCaddyProxy(
  caddy: Caddy,
  { config, directory, edge, api }: { config: Config; directory: string; edge: Gateway; api: number },
): Promise<number> {
  const internalAuthority = isLocal(config.RUNNER_BASE_DOMAIN);
  const host = internalAuthority ? '127.0.0.1' : '';
  const port = config.RUNNER_EDGE_PORT || (await freePort(host));
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  await edge.listenUnix(gatewaySocket(directory));
  await caddy.start(
    caddyConfig({
      directory,
      host,
      port,
      httpPort: config.RUNNER_EDGE_HTTP_PORT,
      ask: `http://127.0.0.1:${api}/v1/edge/tls-ask`,
      internalAuthority,
      trustedProxies: config.RUNNER_TRUSTED_PROXIES,
    }),
  );
  if (internalAuthority) {
    const certificate = rootCertificate(directory);
    log('info', 'Caddy issues the certificates itself: clients must trust its certificate authority', {
      certificate,
    });
  }
  return port;
}
