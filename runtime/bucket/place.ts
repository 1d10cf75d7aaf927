// The bucket that the settings name.
import type { Config } from '../config.ts';

/** Address and credentials of a bucket. */
export interface S3Place {
  endpoint: string;
  region: string;
  bucket: string;
  /** Prefix of every name; empty, or ending with `/`. */
  prefix: string;
  accessKey: string;
  secretKey: string;
}

type Settings = Pick<
  Config,
  | 'RUNNER_BUCKET'
  | 'RUNNER_BUCKET_ENDPOINT'
  | 'RUNNER_BUCKET_REGION'
  | 'RUNNER_BUCKET_ACCESS_KEY'
  | 'RUNNER_BUCKET_SECRET_KEY'
>;

/** Returns the bucket in the settings; null without one. */
export function bucketPlace(settings: Settings): S3Place | null {
  if (settings.RUNNER_BUCKET === '') return null;
  return s3Place(settings.RUNNER_BUCKET, {
    endpoint: settings.RUNNER_BUCKET_ENDPOINT,
    region: settings.RUNNER_BUCKET_REGION,
    accessKey: settings.RUNNER_BUCKET_ACCESS_KEY,
    secretKey: settings.RUNNER_BUCKET_SECRET_KEY,
  });
}

/**
 * Returns the place that a URL names.
 * @param url `s3://bucket/prefix`
 * @param access.endpoint empty for Amazon S3
 */
export function s3Place(url: string, access: Omit<S3Place, 'bucket' | 'prefix'>): S3Place {
  const [bucket = '', ...folders] = url.slice('s3://'.length).split('/').filter(Boolean);
  const endpoint = access.endpoint || `https://s3.${access.region}.amazonaws.com`;
  return { ...access, endpoint, bucket, prefix: folders.map((folder) => `${folder}/`).join('') };
}
