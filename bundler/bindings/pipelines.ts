// Bindings of a Wrangler configuration to pipelines.
import { BuildFailure } from '../failure.ts';
import type { Outward } from '../release.ts';

/**
 * Returns the bindings to pipelines. A pipeline writes into the bucket that has its name, or into the only bucket.
 * @param buckets the buckets of the same configuration; `key` is the name of the bucket
 * @throws {BuildFailure} for an invalid name of a pipeline, and for a pipeline without a bucket
 */
export function pipelineBindings(
  pipelines: readonly { binding: string; pipeline?: string; stream?: string }[],
  buckets: readonly { binding: string; key: string }[],
): Extract<Outward, { type: 'pipelines' }>[] {
  return pipelines.map(({ binding, pipeline: name, stream }) => {
    const pipeline = name ?? stream ?? '';
    if (!/^[\w-]{1,128}$/.test(pipeline))
      throw new BuildFailure(
        `pipelines: ${binding}: the name of a pipeline has 1 to 128 letters, digits, "-" and "_"; rename ${JSON.stringify(pipeline)}`,
      );
    const keys = new Set(buckets.map(({ key }) => key));
    const bucket = buckets.find(({ key }) => key === pipeline) ?? (keys.size === 1 ? buckets[0] : undefined);
    if (bucket === undefined)
      throw new BuildFailure(
        `pipelines: ${binding}: add a bucket to "r2_buckets" with the "bucket_name" ${JSON.stringify(pipeline)}, into which the pipeline writes`,
      );
    return { type: 'pipelines', binding, pipeline, bucket: bucket.binding };
  });
}
