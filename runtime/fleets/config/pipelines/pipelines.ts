// Pipelines in workerd's config: the bindings, and the service that collects their records and writes them into R2.
import type { Outward, Release } from '../../../../bundler/release.ts';
import { SERVICE_DATE } from '../bundled-services.ts';
import type { CapnpValue, Fields } from '../capnp.ts';
import { bucketServiceName } from '../storage.ts';
import { textOf } from '../texts.ts';

/**
 * Unique key of the namespace of pipelines. A pipeline's alarm is its next batch. A changed key loses the records that wait.
 */
export const PIPELINE_KEY = 'CellarPipeline';
const SERVICE = 'pipeline-service';
const MODULE = textOf('./pipelines/pipeline-worker.js');

type Pipeline = Extract<Outward, { type: 'pipelines' }>;

export function pipelinesOf({ outward = [] }: Release): Pipeline[] {
  return outward.filter((bound): bound is Pipeline => bound.type === 'pipelines');
}

export function pipelineBindings(release: Release): CapnpValue[] {
  return pipelinesOf(release).map(({ binding, pipeline }) => ({
    name: binding,
    service: {
      name: SERVICE,
      entrypoint: 'PipelineEntrypoint',
      props: { json: JSON.stringify({ pipeline }) },
    },
  }));
}

/** Returns the service behind the bindings. Its binding to the bucket of a pipeline `events` is named `bucket events`. */
export function pipelineServices(release: Release): Fields[] {
  const pipelines = new Map(pipelinesOf(release).map(({ pipeline, bucket }) => [pipeline, bucket]));
  if (pipelines.size === 0) return [];
  const buckets = [...pipelines].flatMap(([name, bucket]) => {
    const found = release.buckets?.find(({ binding }) => binding === bucket);
    return found === undefined
      ? []
      : [{ name: `bucket ${name}`, r2Bucket: bucketServiceName(found.storageId) }];
  });
  const worker = {
    modules: [{ name: 'pipelines.js', esModule: MODULE }],
    compatibilityDate: SERVICE_DATE,
    bindings: [{ name: 'PIPELINES', durableObjectNamespace: PIPELINE_KEY }, ...buckets],
    durableObjectNamespaces: [{ className: PIPELINE_KEY, uniqueKey: PIPELINE_KEY, enableSql: true }],
    durableObjectStorage: { localDisk: 'do' },
  };
  return [{ name: SERVICE, worker }];
}
