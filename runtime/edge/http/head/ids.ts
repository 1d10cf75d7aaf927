// Ids of a request: `x-request-id` and `traceparent` (W3C Trace Context).
import { randomFillSync } from 'node:crypto';

/** Random bytes, drawn in one system call for hundreds of ids. */
const pool = Buffer.allocUnsafe(4 * 1024);
/** `pool` in hexadecimal: slicing a string is much faster than formatting one. */
let digits = '';
/** `digits` as bytes, for `putRandomHex`. */
const digitBytes = Buffer.allocUnsafeSlow(2 * pool.length);
let used = 0;

/** Returns `bytes` random bytes in lower-case hexadecimal. */
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

/** Like `randomHex`, and also writes the digits to `into` at `at`. */
export function putRandomHex(bytes: number, into: Buffer, at: number): string {
  const hex = randomHex(bytes);
  const from = used - hex.length;
  // For so few bytes, a loop is faster than one call of `set`.
  for (let i = 0; i < hex.length; i++) into[at + i] = digitBytes[from + i]!;
  return hex;
}

/** Whether a caller's `x-request-id` is accepted: short, and safe in a log line. */
export function isRequestId(value: string): boolean {
  return /^[A-Za-z0-9._-]{1,128}$/.test(value);
}

/** Whether a caller's `traceparent` is well formed, version 00, with ids that are not all zero. */
export function isTraceparent(value: string): boolean {
  return /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/.test(value);
}
