// Sends signed requests to a bucket, and explains failures.
import { AwsClient } from 'aws4fetch';
import { reason } from '../log.ts';
import type { S3Place } from './place.ts';

/** Sends a signed request to a path of the bucket, such as `/name` or `?list-type=2`. Rejects once the signal is aborted. */
export type BucketFetch = (path: string, init: RequestInit, signal: AbortSignal) => Promise<Response>;

/** Returns a function that signs requests with the place's keys and sends them. A redirect is an error. */
export function bucketFetch(place: S3Place): BucketFetch {
  const { accessKey, secretKey, region } = place;
  const client = new AwsClient({ accessKeyId: accessKey, secretAccessKey: secretKey, service: 's3', region });
  const base = bucketUrl(place);
  return async (path, init, signal) => {
    const request = await client.sign(base + path, { ...init, redirect: 'error' });
    // The signal is not in the request: after the request is garbage-collected, its signal no longer aborts the `fetch`.
    return await fetch(request, { signal });
  };
}

/** Returns the URL of a bucket, without a slash at its end. */
export function bucketUrl({ endpoint, bucket }: S3Place): string {
  return `${endpoint.replace(/\/$/, '')}/${bucket}`;
}

/**
 * Returns the innermost cause of an error, because `fetch` itself throws only `fetch failed`. An `AggregateError`, as of a
 * hostname with several addresses, counts as its first error.
 */
export function innermostCause(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return innermostCause(error.errors[0]);
  return error instanceof Error && error.cause !== undefined ? innermostCause(error.cause) : error;
}

/** Codes of errors for a certificate whose authority is unknown. */
const UNKNOWN_AUTHORITY = [
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
];

/** Returns how to trust a certificate of an unknown authority, if an error with this code reports one; else null. */
export function unknownAuthority(code: unknown): string | null {
  return UNKNOWN_AUTHORITY.includes(String(code))
    ? 'its certificate is from an unknown authority: set NODE_EXTRA_CA_CERTS to the file with the certificate of that authority'
    : null;
}

/** Returns why a request to a store failed. */
export function storeFailure(error: unknown): string {
  const cause = innermostCause(error);
  const { code } = (cause ?? {}) as { code?: unknown };
  return unknownAuthority(code) ?? reason(cause);
}

/** Returns the first `length` characters of a store's text as one line, for messages. */
export function shownText(text: string, length: number): string {
  return text.slice(0, length).replace(/\p{Cc}+/gu, ' ');
}
