// Client addresses: the peer of a connection, or the client behind it when the peer is a trusted proxy.
import { isIP } from 'node:net';
import { AddressRanges, plainAddress } from '../isolation/address-ranges.ts';

/** Proxies whose X-Forwarded-* headers are trusted. */
export class TrustedProxies extends AddressRanges {
  /**
   * Returns the client's address: the last one in `X-Forwarded-For` that is not a trusted proxy. The client may have
   * forged the entries before that address. If all are trusted proxies, returns the first. An entry that is not an IP
   * address ends the search.
   * @param peer address of the connection's other end; returned when there is no `X-Forwarded-For`
   */
  client(forwardedFor: string | undefined, peer: string): string {
    if (forwardedFor === undefined) return peer;
    let client = peer;
    for (const entry of forwardedFor.split(',').reverse()) {
      const address = plainAddress(entry.trim());
      if (isIP(address) === 0) return client;
      client = address;
      if (!this.has(address)) return client;
    }
    return client;
  }

  /** Whether the last address in `X-Forwarded-For`, which our own proxy (Caddy) added, is a trusted proxy. */
  hasSent(forwardedFor: string | undefined): boolean {
    return this.has(plainAddress(forwardedFor?.split(',').at(-1)?.trim() ?? ''));
  }
}
