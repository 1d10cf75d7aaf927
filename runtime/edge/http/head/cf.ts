// `request.cf`: what the gateway knows of a request and its client, by Cloudflare's names.

/** Where this machine stands, where Cloudflare names an airport: there is one place only. */
export const COLO = 'CEL';
const TLS_VERSIONS: Record<string, string> = { 'tls1.2': 'TLSv1.2', 'tls1.3': 'TLSv1.3' };

/** What our own proxy in front says of the connection that it has to the client. */
export interface ClientConnection {
  /** As Caddy has it, such as `HTTP/2.0`. */
  protocol?: string;
  /** The version and the cipher of TLS as Caddy has them, with a blank between; only a blank without TLS. */
  tls?: string;
}

/**
 * The object as JSON, in ASCII.
 * @param located what is known of the client's address: fields of the object, without its braces
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

/** Returns the country in `located`, such as `DE`; null when it is not known. */
export function countryOf(located: string): string | null {
  return /"country":"([A-Z0-9]{2})"/.exec(located)?.[1] ?? null;
}

function protocolName(given: string): string {
  const [, version] = /^HTTP\/(1\.[01]|2|3)(?:\.0)?$/.exec(given) ?? [];
  return `HTTP/${version ?? '1.1'}`;
}
