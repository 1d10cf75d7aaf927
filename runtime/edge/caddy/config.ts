// Caddy's config: terminate TLS, speak HTTP/1.1, 2 and 3, compress, and proxy everything to the gateway. It names no
// site, so a new site needs no reload of the config. A reload would close the WebSockets of every site.
import { join } from 'node:path';
import { CLIENT_PROTOCOL, CLIENT_TLS } from '../http/head/headers.ts';

export interface CaddySettings {
  /** Caddy's directory: sockets, certificates. */
  directory: string;
  /** Address to listen at; empty for all addresses. */
  host: string;
  port: number;
  /** Port for plain HTTP, which is redirected to HTTPS; 0 for none. */
  httpPort: number;
  /** URL that Caddy asks before it requests a certificate. It answers 200 if the hostname in `?domain=` may have one. */
  ask: string;
  /** Whether Caddy's internal certificate authority issues the certificates, instead of a public one. */
  internalAuthority: boolean;
  /** Proxies in front of Caddy whose X-Forwarded-* headers are passed on. */
  trustedProxies: readonly string[];
}

/** The `Host` of requests to the admin API; Caddy rejects others. */
export const ADMIN_HOST = 'cellar';
/** Grace period for requests in flight when Caddy stops. */
const GRACE = '10s';
/** Types that Caddy 2.6 compresses by default. They are listed here because `match` replaces the default. */
const TEXT_TYPES = [
  'text/*',
  'application/json*',
  'application/javascript*',
  'application/xhtml+xml*',
  'application/atom+xml*',
  'application/rss+xml*',
  'image/svg+xml*',
];

export function adminSocket(directory: string): string {
  return join(directory, 'admin.sock');
}

/** Returns the path of the socket on which the gateway listens for Caddy. */
export function gatewaySocket(directory: string): string {
  return join(directory, 'gateway.sock');
}

/** Returns the path of the internal authority's root certificate, which clients can trust. */
export function rootCertificate(directory: string): string {
  return join(directory, 'storage/pki/authorities/local/root.crt');
}

/** Returns the config that Caddy starts with: the admin API only. */
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
      // Otherwise Caddy tries to become root, to install its authority for the whole machine.
      pki: { certificate_authorities: { local: { install_trust: false } } },
    },
  };
}

function servers({ directory, host, port, httpPort, trustedProxies }: CaddySettings): object {
  // Certificates are issued on demand, so Caddy knows no names for automatic HTTPS.
  const byHand = { automatic_https: { disable: true } };
  const proxy = {
    handler: 'reverse_proxy',
    upstreams: [{ dial: `unix/${gatewaySocket(directory)}` }],
    // Apps see these values in `request.cf`.
    headers: {
      request: {
        set: {
          [CLIENT_PROTOCOL]: ['{http.request.proto}'],
          [CLIENT_TLS]: ['{http.request.tls.version} {http.request.tls.cipher_suite}'],
        },
      },
      // Otherwise Caddy 2.6 would compress responses with `no-transform`. It skips those with a `Content-Encoding`.
      response: {
        require: { headers: { 'Cache-Control': ['*no-transform*'], 'Content-Encoding': null } },
        set: { 'Content-Encoding': ['identity'] },
      },
    },
    trusted_proxies: trustedProxies.length === 0 ? undefined : trustedProxies,
    // Otherwise Caddy would ask every app for gzip, even for clients that do not accept it.
    transport: { protocol: 'http', compression: false },
  };
  const encode = {
    handler: 'encode',
    encodings: { zstd: {}, gzip: {} },
    prefer: ['zstd', 'gzip'],
    // Only responses of a known length. Caddy 2.6 does not flush its encoder, so a stream would reach clients only when it ends.
    match: { status_code: [200], headers: { 'Content-Type': TEXT_TYPES, 'Content-Length': ['*'] } },
  };
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
