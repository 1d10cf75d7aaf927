// What Caddy is told: terminate TLS, speak HTTP/1.1, 2 and 3, compress, and send everything to the gateway. It names no
// site, so that it never changes: a reload would close the WebSockets of every site.
import { join } from 'node:path';
import { CLIENT_PROTOCOL, CLIENT_TLS } from '../http/head/headers.ts';

/** What Caddy's config depends on. */
export interface CaddySettings {
  /** Its directory: sockets, certificates. */
  directory: string;
  /** Where it listens for HTTPS and HTTP/3. */
  host: string;
  port: number;
  /** Port of plain HTTP, which is redirected; 0 for none. */
  httpPort: number;
  /** URL that answers 200 for a `?domain=` that may have a certificate. */
  ask: string;
  /** Whether certificates come from an authority of Caddy's own instead of a public one. */
  internalAuthority: boolean;
  /** Proxies in front of it whose X-Forwarded-* headers are passed on. */
  trustedProxies: readonly string[];
}

/** The name that requests to the admin API carry; Caddy refuses others. */
export const ADMIN_HOST = 'cellar';
/** Time that Caddy gives requests in flight when it ends. */
const GRACE = '10s';

/** Path of the admin API's socket. */
export function adminSocket(directory: string): string {
  return join(directory, 'admin.sock');
}

/** Path of the socket on which the gateway listens for Caddy. */
export function gatewaySocket(directory: string): string {
  return join(directory, 'gateway.sock');
}

/** Path of the internal authority's certificate, for clients that shall trust it. */
export function rootCertificate(directory: string): string {
  return join(directory, 'storage/pki/authorities/local/root.crt');
}

/** The config that Caddy starts with: its admin API and nothing else. */
export function bootConfig(directory: string): object {
  return {
    admin: {
      listen: `unix/${adminSocket(directory)}`,
      origins: [ADMIN_HOST],
      config: { persist: false },
    },
    logging: { logs: { default: { level: 'ERROR' } } },
    storage: { module: 'file_system', root: join(directory, 'storage') },
  };
}

/** The whole config. */
export function caddyConfig(settings: CaddySettings): object {
  return {
    ...bootConfig(settings.directory),
    apps: {
      http: {
        http_port: settings.httpPort || undefined,
        https_port: settings.port,
        grace_period: GRACE,
        servers: servers(settings),
      },
      tls: {
        automation: {
          on_demand: { ask: settings.ask },
          policies: [{ on_demand: true, issuers: [issuer(settings)] }],
        },
      },
      // Otherwise Caddy tries to become root to install its authority for the whole machine.
      pki: { certificate_authorities: { local: { install_trust: false } } },
    },
  };
}

function servers({ directory, host, port, httpPort, trustedProxies }: CaddySettings): object {
  // The certificates are on demand, so there are no names that Caddy could set up by itself.
  const byHand = { automatic_https: { disable: true } };
  const proxy = {
    handler: 'reverse_proxy',
    upstreams: [{ dial: `unix/${gatewaySocket(directory)}` }],
    // Told to apps as `request.cf`.
    headers: {
      request: {
        set: {
          [CLIENT_PROTOCOL]: ['{http.request.proto}'],
          [CLIENT_TLS]: ['{http.request.tls.version} {http.request.tls.cipher_suite}'],
        },
      },
    },
    trusted_proxies: trustedProxies.length === 0 ? undefined : trustedProxies,
    // Else every app would be asked for gzip, whatever its client takes.
    transport: { protocol: 'http', compression: false },
  };
  const encode = { handler: 'encode', encodings: { zstd: {}, gzip: {} }, prefer: ['zstd', 'gzip'] };
  const edge = {
    ...byHand,
    listen: [`${host}:${port}`],
    tls_connection_policies: [{}],
    routes: [{ handle: [encode, proxy] }],
  };
  if (httpPort === 0) return { edge };
  const suffix = port === 443 ? '' : `:${port}`;
  const redirect = {
    handler: 'static_response',
    status_code: 308,
    headers: { Location: [`https://{http.request.host}${suffix}{http.request.uri}`] },
  };
  return { edge, plain: { ...byHand, listen: [`${host}:${httpPort}`], routes: [{ handle: [redirect] }] } };
}

function issuer({ internalAuthority, port, httpPort }: CaddySettings): object {
  if (internalAuthority) return { module: 'internal' };
  const http = httpPort === 0 ? { disabled: true } : { alternate_port: httpPort };
  return { module: 'acme', challenges: { http, 'tls-alpn': { alternate_port: port } } };
}
