// A client of a bucket.
import { AwsClient } from 'aws4fetch';
import type { S3Place } from './place.ts';

/** @param retries of a failed or busy request. Default: those of the client */
export function s3Client(
  { accessKey, secretKey, region }: S3Place,
  options: { retries?: number } = {},
): AwsClient {
  return new AwsClient({
    accessKeyId: accessKey,
    secretAccessKey: secretKey,
    service: 's3',
    region,
    ...options,
  });
}

/** Returns the URL of a bucket, without a slash at its end. */
export function bucketUrl({ endpoint, bucket }: S3Place): string {
  return `${endpoint.replace(/\/$/, '')}/${bucket}`;
}

/** Returns the innermost cause of an error: that of `fetch` says only that it failed. A name with several addresses fails for each. */
export function innermostCause(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return innermostCause(error.errors[0]);
  return error instanceof Error && error.cause !== undefined ? innermostCause(error.cause) : error;
}
