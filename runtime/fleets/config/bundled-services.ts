// The services built into workerd: D1 databases, KV namespaces, queues, crons. Class names and unique keys decide where
// their data is stored: changing one loses access to existing data.
import type { QueueConsumer } from '../../../bundler/release.ts';
import type { CapnpValue, Fields } from './capnp.ts';
import { LARGE_VALUES } from './cluster/cluster.ts';
import { textOf } from './texts.ts';

/** Compatibility date of workerd's and Cellar's services. RPC needs 2024-04-03 or later. */
export const SERVICE_DATE = '2026-01-01';
/** Compatibility flag: lets these services call a Worker's `queue()` and `scheduled()`. */
export const CALLS_HANDLERS = 'service_binding_extra_handlers';

/** Unique key of the namespace of queues. A queue's alarm is the time of its next batch, retry or dead letter. */
export const QUEUE_KEY = 'QueueShard';
/** Unique key of the namespace of crons. A cron's object is named by its expression, and its alarm is the next run. */
export const CRON_KEY = 'Schedule';
/** Unique key of the namespace of crons with a field for seconds. */
export const CRON_SECONDS_KEY = 'CellarScheduleOfSeconds';

/**
 * Returns D1's service: each database is a Durable Object.
 * @param own modules to load first; they import workerd's `d1.js`
 */
export function d1Worker(own: Fields[] = []): Fields {
  const bindings = [{ name: 'DATABASE', durableObjectNamespace: 'D1Database' }];
  const worker = bundledWorker('d1.js', 'D1Database', bindings);
  return { ...worker, modules: [...own, ...(worker.modules as Fields[])] };
}

/** Returns a binding to a database. @param service names the service of a `d1Worker`, and the database */
export function d1Binding(name: string, service: CapnpValue): Fields {
  return {
    name,
    wrapped: {
      moduleName: 'cloudflare-internal:d1-api',
      innerBindings: [{ name: 'fetcher', service }],
    },
  };
}

/** Returns KV's service. Large values are on the disk `kv`; if `isClustered`, in the bucket, and the disk is a cache. */
export function kvWorker(isClustered: boolean): Fields {
  const values = isClustered
    ? [
        { name: 'BLOBS', service: LARGE_VALUES },
        { name: 'BLOB_CACHE', service: 'kv' },
        { name: 'CLUSTERED', json: 'true' },
      ]
    : [{ name: 'BLOBS', service: 'kv' }];
  return bundledWorker('kv.js', 'KVNamespace', [
    { name: 'SHARD', durableObjectNamespace: 'KVNamespace' },
    ...values,
  ]);
}

/** Batches that workerd delivers at once from a queue without `maxConcurrency`. With any `maxConcurrency`, it delivers one. */
const BATCHES_AT_ONCE = 8;

/** The entrypoint through which other apps send to the queues that this app consumes. */
export const QUEUE_ENTRYPOINT = 'QueueEntrypoint';
const QUEUE_ENTRYPOINT_MODULE = textOf('./workers/queue-entrypoint.js');

/**
 * Returns the service of the queues that an app consumes.
 * @param target the service that consumes the messages
 * @param deadLetters the bindings for dead letters that other apps consume
 */
export function queueWorker(consumers: QueueConsumer[], target: string, deadLetters: CapnpValue[]): Fields {
  const settings = consumers.map(({ queue, maxConcurrency = BATCHES_AT_ONCE, ...limits }) => [
    queue,
    { consumer: 'CONSUMER', ...limits, ...(maxConcurrency < BATCHES_AT_ONCE && { maxConcurrency }) },
  ]);
  const bindings = [
    { name: 'SHARD', durableObjectNamespace: QUEUE_KEY },
    { name: 'CONSUMER', service: target },
    { name: 'CONSUMERS', json: JSON.stringify(Object.fromEntries(settings)) },
    ...deadLetters,
  ];
  const worker = bundledWorker('queues.js', QUEUE_KEY, bindings, [CALLS_HANDLERS]);
  return {
    ...worker,
    modules: [{ name: 'entrypoint.js', esModule: QUEUE_ENTRYPOINT_MODULE }, ...(worker.modules as Fields[])],
  };
}

/** Returns one of workerd's own services. @param module its name in workerd, such as `d1.js` */
export function bundledWorker(
  module: string,
  className: string,
  bindings: CapnpValue[],
  compatibilityFlags: string[] = [],
): Fields {
  return {
    modules: [{ name: module, bundled: `/workerd/${module}` }],
    compatibilityDate: SERVICE_DATE,
    ...(compatibilityFlags.length > 0 && { compatibilityFlags }),
    bindings,
    durableObjectNamespaces: [{ className, uniqueKey: className, enableSql: true }],
    durableObjectStorage: { localDisk: 'do' },
  };
}
