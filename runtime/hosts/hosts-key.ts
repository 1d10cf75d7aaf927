// The key by which the hosts of a Cellar know each other.
import { createHmac, timingSafeEqual } from 'node:crypto';

/** Derives the key from the cluster's. 64 hexadecimal characters. */
export function hostsKey(clusterKey: string): string {
  return createHmac('sha256', clusterKey).update('hosts').digest('hex');
}

/** Returns a function that checks in constant time whether a text is the key. */
export function keyCheck(key: string): (given: string | undefined) => boolean {
  const expected = Buffer.from(key, 'latin1');
  return (given) => {
    if (given?.length !== expected.length) return false;
    return timingSafeEqual(Buffer.from(given, 'latin1'), expected);
  };
}
