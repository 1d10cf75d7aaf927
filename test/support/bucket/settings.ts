// The settings of a Cellar whose bucket is a store of the test.
import type { S3Place } from '../../../runtime/bucket/place.ts';

export function bucketSettings({ endpoint, region, bucket, prefix, accessKey, secretKey }: S3Place) {
  return {
    RUNNER_BUCKET: `s3://${bucket}/${prefix.replace(/\/$/, '')}`,
    RUNNER_BUCKET_ENDPOINT: endpoint,
    RUNNER_BUCKET_REGION: region,
    RUNNER_BUCKET_ACCESS_KEY: accessKey,
    RUNNER_BUCKET_SECRET_KEY: secretKey,
    RUNNER_CLUSTER_KEY: 'c'.repeat(64),
    RUNNER_SNAPSHOT_EVERY_H: '0',
  };
}
