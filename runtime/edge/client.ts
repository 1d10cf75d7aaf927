// Who called: the peer of a connection, and the client behind it when the peer is a proxy we trust.
import { isIP } from 'node:net';
import { AddressRanges, plainAddress } from '../isolation/address-ranges.ts';

/** Proxies whose X-Forwarded-* headers are believed. */
export class TrustedProxies extends AddressRanges {
  /**
   * The client's address: walks `X-Forwarded-For` from its end past trusted proxies, because what stands before the
   * first untrusted entry is only that entry's claim.
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

  /** Whether the peer that our own proxy names last is a trusted one. */
  hasSent(forwardedFor: string | undefined): boolean {
    return this.has(plainAddress(forwardedFor?.split(',').at(-1)?.trim() ?? ''));
  }
}
