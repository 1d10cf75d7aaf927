// An app's storage in workerd's config: its bindings and the services behind them.
import type { Release } from '../../../bundler/release.ts';
import { BUCKET_HEADER } from '../../storage/r2/headers.ts';
import { errorBody, notRunning } from '../../vectors/errors.ts';
import { INDEX_HEADER } from '../../vectors/headers.ts';
import { d1Binding, d1Worker, kvWorker, SERVICE_DATE } from './bundled-services.ts';
import { type CapnpValue, embed, type Fields } from './capnp.ts';
import { LARGE_VALUES_SERVICE } from './cluster/cluster.ts';
import { D1_MODULES } from './entry.ts';

export function storageBindings(release: Release): CapnpValue[] {
  const { durableObjects, databases, namespaces, buckets = [], vectorIndexes = [] } = release;
  return [
    ...durableObjects.map(({ binding, className }) => ({ name: binding, durableObjectNamespace: className })),
    ...databases.map(({ binding, storageId }) =>
      d1Binding(binding, { name: 'd1-service', props: { json: JSON.stringify({ database: storageId }) } }),
    ),
    ...namespaces.map(({ binding, storageId }) => ({
      name: binding,
      kvNamespace: { name: 'kv-service', props: { json: JSON.stringify({ namespace: storageId }) } },
    })),
    ...buckets.map(({ binding, storageId }) => ({ name: binding, r2Bucket: bucketServiceName(storageId) })),
    ...vectorIndexes.map(({ binding, storageId }) => ({
      name: binding,
      wrapped: {
        moduleName: 'cloudflare-internal:vectorize-api',
        innerBindings: [
          { name: 'fetcher', service: vectorsServiceName(storageId) },
          { name: 'indexId', text: storageId },
          { name: 'indexVersion', text: 'v2' },
          { name: 'useNdJson', json: 'true' },
        ],
      },
    })),
  ];
}

/**
 * Returns the services behind the bindings.
 * @param bucketSocket this app's own socket of the host's bucket service
 * @param vectorsSocket the app's own socket of the host's vectors service; undefined where none runs
 * @param isClustered whether the app's data is in the bucket
 */
export function storageServices(
  release: Release,
  bucketSocket: string,
  vectorsSocket: string | undefined,
  isClustered: boolean,
): Fields[] {
  const { databases, namespaces, buckets = [], vectorIndexes = [] } = release;
  // Two bindings may use one bucket.
  const bucketIds = new Set(buckets.map(({ storageId }) => storageId));
  const indexIds = new Set(vectorIndexes.map(({ storageId }) => storageId));
  return [
    ...(databases.length > 0
      ? [
          {
            name: 'd1-service',
            worker: d1Worker(D1_MODULES.map(({ name }) => ({ name, esModule: embed(name) }))),
          },
        ]
      : []),
    ...(namespaces.length > 0 ? kvServices(isClustered) : []),
    ...[...bucketIds].map((storageId) => bucketService(storageId, bucketSocket)),
    ...[...indexIds].map((storageId) => vectorsService(storageId, vectorsSocket)),
  ];
}

/** Returns the service behind all KV namespaces, and in a cluster also the service for large values. */
export function kvServices(isClustered: boolean): Fields[] {
  return [
    { name: 'kv-service', worker: kvWorker(isClustered) },
    ...(isClustered ? [LARGE_VALUES_SERVICE] : []),
  ];
}

/** Returns the service of one bucket. workerd, not the Worker, writes the header that names the bucket. */
export function bucketService(storageId: string, bucketSocket: string): Fields {
  const named = { name: BUCKET_HEADER, value: storageId };
  return {
    name: bucketServiceName(storageId),
    external: { address: `unix:${bucketSocket}`, http: { injectRequestHeaders: [named] } },
  };
}

export function bucketServiceName(storageId: string): string {
  return `bucket-${storageId}`;
}

/** The Worker that answers in place of the vectors service where none runs. */
const NO_VECTORS = `export default { fetch: () => new Response(${JSON.stringify(errorBody(notRunning()))}, { status: 503 }) };`;

/** Returns the service of one vector index. workerd, not the Worker, writes the header that names the index. */
function vectorsService(storageId: string, vectorsSocket: string | undefined): Fields {
  const name = vectorsServiceName(storageId);
  if (vectorsSocket === undefined)
    return {
      name,
      worker: { modules: [{ name: 'missing.js', esModule: NO_VECTORS }], compatibilityDate: SERVICE_DATE },
    };
  const named = { name: INDEX_HEADER, value: storageId };
  return { name, external: { address: `unix:${vectorsSocket}`, http: { injectRequestHeaders: [named] } } };
}

function vectorsServiceName(storageId: string): string {
  return `vectors-${storageId}`;
}
