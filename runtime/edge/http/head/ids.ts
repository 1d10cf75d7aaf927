// Ids that join what is known about one request: `x-request-id` and `traceparent` (W3C Trace Context).
import { randomFillSync } from 'node:crypto';

/** Bytes of randomness drawn at once: one call into the kernel for hundreds of ids. */
const pool = Buffer.allocUnsafe(4 * 1024);
/** The same in hexadecimal: to take a part of a text is much faster than to write one. */
let digits = '';
/** The same as bytes, for who writes them somewhere. */
const digitBytes = Buffer.allocUnsafeSlow(2 * pool.length);
let used = 0;

/** `bytes` random bytes in lower-case hexadecimal. */
export function randomHex(bytes: number): string {
  if (used + 2 * bytes > digits.length) {
    randomFillSync(pool);
    digits = pool.toString('hex');
    digitBytes.write(digits, 'latin1');
    used = 0;
  }
  used += 2 * bytes;
  return digits.slice(used - 2 * bytes, used);
}

/** The same, which it also writes to a place in `into`. */
export function putRandomHex(bytes: number, into: Buffer, at: number): string {
  const hex = randomHex(bytes);
  const from = used - hex.length;
  // By itself, each of so few costs less than a call that would take them all.
  for (let i = 0; i < hex.length; i++) into[at + i] = digitBytes[from + i]!;
  return hex;
}

/** Whether a caller's `x-request-id` may be kept: short, and safe in a log line. */
export function isRequestId(value: string): boolean {
  return /^[A-Za-z0-9._-]{1,128}$/.test(value);
}

/** Whether a caller's `traceparent` is well formed, version 00, with ids that are not all zero. */
export function isTraceparent(value: string): boolean {
  return /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/.test(value);
}
