// Computes workerd's ids of named objects, which are their file names.
import { createHash, createHmac } from 'node:crypto';

/** Half of an id, in bytes. */
const HALF = 16;

/** Returns the hexadecimal id of the object `name` in the namespace with this unique key. */
export function objectId(uniqueKey: string, name: string): string {
  const key = createHash('sha256').update(uniqueKey).digest();
  const sign = (data: Buffer | string) => createHmac('sha256', key).update(data).digest().subarray(0, HALF);
  const first = sign(name);
  return Buffer.concat([first, sign(first)]).toString('hex');
}

/** Whether an id is one of this namespace: the id's second half is a signature of its first half. */
export function isIdOf(uniqueKey: string, id: string): boolean {
  const key = createHash('sha256').update(uniqueKey).digest();
  const signature = createHmac('sha256', key).update(Buffer.from(id.slice(0, 2 * HALF), 'hex'));
  return signature.digest('hex').startsWith(id.slice(2 * HALF));
}
