// AWS signature version 4 for S3: to verify requests of apps, and to sign requests to the store.
import { createHmac, hash } from 'node:crypto';

export const ALGORITHM = 'AWS4-HMAC-SHA256';
export const UNSIGNED = 'UNSIGNED-PAYLOAD';

/** What a signature covers. */
export interface Signed {
  method: string;
  /** The encoded path, as it is sent. */
  path: string;
  /** The encoded query with sorted names, as `encodeQuery` returns it. */
  query: string;
  /** Signed headers in lower case, sorted by name, with the values that are sent. */
  headers: [name: string, value: string][];
  /** The SHA-256 of the body in hexadecimal, or `UNSIGNED`. */
  bodyHash: string;
  /** The time, such as `20260102T030405Z`. */
  date: string;
  region: string;
}

/** Returns the signature, 64 hexadecimal characters. */
export function signatureOf(signed: Signed, secretKey: string): string {
  const { method, path, query, headers, bodyHash, date, region } = signed;
  const lines = headers.map(([name, value]) => `${name}:${value.trim().replace(/ +/g, ' ')}\n`).join('');
  const request = [method, path, query, lines, namesOf(headers), bodyHash].join('\n');
  const scope = scopeOf(date, region);
  const day = hmac(`AWS4${secretKey}`, date.slice(0, 8));
  const key = ['s3', 'aws4_request'].reduce(hmac, hmac(day, region));
  return hmac(key, [ALGORITHM, date, scope, hash('sha256', request)].join('\n')).toString('hex');
}

/** Returns the header `authorization`. */
export function authorizationOf(signed: Signed, keys: { accessKey: string; secretKey: string }): string {
  const credential = `${keys.accessKey}/${scopeOf(signed.date, signed.region)}`;
  const signature = signatureOf(signed, keys.secretKey);
  return `${ALGORITHM} Credential=${credential}, SignedHeaders=${namesOf(signed.headers)}, Signature=${signature}`;
}

/** Percent-encodes text as signatures need it: all but letters, digits and `-._~`. */
export function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

export function encodePath(path: string): string {
  return path.split('/').map(encode).join('/');
}

export function encodeQuery(query: ReadonlyMap<string, string>): string {
  return [...query]
    .map(([name, value]) => [encode(name), encode(value)] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

/** Returns the time as signatures have it: `20260102T030405Z`. */
export function signatureDate(time: Date): string {
  return time.toISOString().replace(/[-:]|\.\d+/g, '');
}

function scopeOf(date: string, region: string): string {
  return `${date.slice(0, 8)}/${region}/s3/aws4_request`;
}

function namesOf(headers: Signed['headers']): string {
  return headers.map(([name]) => name).join(';');
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
