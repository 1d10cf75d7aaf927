// Client info: the part of a request's record that later requests with the same headers on the same connection share.
import { headerValue } from '../http/head/fields.ts';
import { cutAddress } from '../limits/networks.ts';

/** The client and its headers, as the records of requests have them. */
export interface ClientInfo {
  /** Lower case, without the port. */
  host: string;
  /** Such as `HTTP/1.1`. */
  protocol: string;
  userAgent: string | undefined;
  /** Without its query. */
  referrer: string | undefined;
  /** Such as `DE`; null when it is unknown. */
  country: string | null;
  /** The client's address, truncated to its /24, or its /48 for IPv6. */
  clientNetwork: string;
  /** The peer's address, truncated like the client's. */
  peerNetwork: string;
  /** Cache of the access log: the fields that it made of this object and the site. */
  logged: { site: string; bytes: Buffer } | null;
}

/** Returns the client info of a request. @param connection the address of its peer, and that address truncated */
export function clientInfoOf(
  { headers, host, minorVersion }: { headers: string[]; host: string; minorVersion: number },
  connection: { peer: string; network: string },
  client: string,
  country: string | null,
): ClientInfo {
  const { peer, network } = connection;
  return {
    host,
    protocol: minorVersion === 1 ? 'HTTP/1.1' : 'HTTP/1.0',
    userAgent: headerValue(headers, 'user-agent'),
    referrer: withoutQuery(headerValue(headers, 'referer')),
    country,
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
