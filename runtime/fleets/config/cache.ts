// The Cache API of an app whose code uses it: a service in the cell (the app's workerd process), with a disk for the cache.
// For an app whose data is in the bucket, the cache is in memory.
import { SERVICE_DATE } from './bundled-services.ts';
import { type CapnpValue, VOID } from './capnp.ts';
import { textOf } from './texts.ts';

const CACHE_WORKER = textOf('./workers/cache-worker.js');
const HTTP_CACHING_MODULE = textOf('./modules/http-caching-module.js');
export const CACHE_SERVICE = 'cache-service';
export const CACHE_DISK = 'cache';

/** Whether a module may use the Cache API: its text has the word `caches`. */
export function mayUseCaches(text: string): boolean {
  return /\bcaches\b/.test(text);
}

/** Maximum size of a cache in memory, in MiB. */
const MEMORY_MB = 16;

/**
 * Returns the disk and the service of the cache.
 * @param cacheMb limit of cached responses, in MiB; 0: no such service
 * @param isClustered whether the app's data is in the bucket. Then the cache is in memory: workerd would write a cache on
 *   the disk to the bucket too
 */
export function cacheServices(cacheMb: number, isClustered: boolean): CapnpValue[] {
  if (cacheMb === 0) return [];
  const limitMb = isClustered ? Math.min(cacheMb, MEMORY_MB) : cacheMb;
  return [
    ...(isClustered ? [] : [{ name: CACHE_DISK, disk: { writable: true } }]),
    {
      name: CACHE_SERVICE,
      worker: {
        modules: [
          { name: 'cache.js', esModule: CACHE_WORKER },
          { name: 'http-caching.js', esModule: HTTP_CACHING_MODULE },
        ],
        compatibilityDate: SERVICE_DATE,
        bindings: [
          { name: 'STORE', durableObjectNamespace: 'CacheStore' },
          { name: 'MAX_BYTES', json: String(limitMb * 2 ** 20) },
        ],
        durableObjectNamespaces: [{ className: 'CacheStore', uniqueKey: 'CacheStore', enableSql: true }],
        durableObjectStorage: isClustered ? { inMemory: VOID } : { localDisk: CACHE_DISK },
      },
    },
  ];
}
