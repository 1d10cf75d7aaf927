// `request.cf`: what the gateway knows about a request and its client, in Cloudflare's names.

/** The location of this machine. Cloudflare has an airport code here; Cellar has one location only. */
export const COLO = 'CEL';
const TLS_VERSIONS: Record<string, string> = { 'tls1.2': 'TLSv1.2', 'tls1.3': 'TLSv1.3' };

/** The client's connection, as reported by our own proxy in front. */
export interface ClientConnection {
  /** In Caddy's spelling, such as `HTTP/2.0`. */
  protocol?: string;
  /** TLS version and cipher in Caddy's spelling, separated by a blank; only a blank without TLS. */
  tls?: string;
}

/**
 * Returns `request.cf` as ASCII JSON.
 * @param located the client's location: fields of the object, without its braces
 */
export function cfJson(minorVersion: number, { protocol, tls }: ClientConnection, located: string): string {
  const spoken = protocol === undefined ? `HTTP/1.${minorVersion}` : protocolName(protocol);
  let json = `{"httpProtocol":"${spoken}","colo":"${COLO}"`;
  const [version, cipher] = tls?.split(' ') ?? [];
  const known = TLS_VERSIONS[version ?? ''];
  if (known !== undefined) json += `,"tlsVersion":"${known}"`;
  if (known !== undefined && /^\w{1,64}$/.test(cipher ?? '')) json += `,"tlsCipher":"${cipher}"`;
  return located === '' ? `${json}}` : `${json},${located}}`;
}

/** Returns the country of a `CF-IPCountry` header; null without a country, such as for `XX` (unknown) and `T1` (Tor). */
export function countryOfHeader(value: string | undefined): string | null {
  return value !== undefined && /^(?!XX)[A-Z]{2}$/.test(value) ? value : null;
}

/**
 * Returns the country, such as `DE`; null when it is unknown, or no country: some databases have `A1` for proxies.
 * @param located the client's location: fields of `request.cf`
 */
export function countryOf(located: string): string | null {
  return /"country":"([A-Z]{2})"/.exec(located)?.[1] ?? null;
}

function protocolName(given: string): string {
  const [, version] = /^HTTP\/(1\.[01]|2|3)(?:\.0)?$/.exec(given) ?? [];
  return `HTTP/${version ?? '1.1'}`;
}
