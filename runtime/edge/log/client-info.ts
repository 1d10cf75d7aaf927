// Who asks: what the records of a connection's requests mostly share, and is made once for them.
import { headerValue } from '../http/head/fields.ts';
import { cutAddress } from '../limits/networks.ts';

/** Who asks, and how: what the requests of one connection mostly share. */
export interface ClientInfo {
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
  /** What the access log made of it and of the site that was asked, which keeps it here. */
  logged: { site: string; bytes: Buffer } | null;
}

/**
 * What records of a request say of who asked.
 * @param connection its peer's address, and that as it is written down
 * @param client the client's address
 */
export function clientInfoOf(
  { headers, host, minorVersion }: { headers: string[]; host: string; minorVersion: number },
  connection: { peer: string; network: string },
  client: string,
): ClientInfo {
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
