// Parses an authority, such as the value of a `Host` field.

/** A host name, an IPv4 address or a bracketed IPv6 address; the dot that ends a full name; a port. */
const AUTHORITY = /^(?:([A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)\.?|(\[[0-9A-Fa-f:.]+\]))(:\d*)?$/;

export interface Authority {
  /** As written, but without the dot at the end of its host: `shop.example.:80` is `shop.example:80`. */
  authority: string;
  /** In lower case, without the port. */
  host: string;
}

/**
 * Parses an authority; returns null for a malformed one, and for one that no URL can have, such as with the port 65536: a
 * Worker's `request.url` contains the authority.
 */
export function readAuthority(written: string): Authority | null {
  const [, name, address, port = ''] = AUTHORITY.exec(written) ?? [];
  const host = name ?? address;
  if (host === undefined) return null;
  const authority = host + port;
  return URL.canParse(`http://${authority}`) ? { authority, host: host.toLowerCase() } : null;
}
