// The secret by which the hosts of a Cellar authenticate each other.
import { createHmac, timingSafeEqual } from 'node:crypto';

/** Derives the hosts' key, 64 hexadecimal characters, from the cluster's key. */
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
