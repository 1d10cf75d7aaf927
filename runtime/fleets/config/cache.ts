// The Cache API of an app whose code uses it: a service in the cell (the app's workerd process), and a disk of its own. An app
// whose data is in the bucket has no such disk.
import { SERVICE_DATE } from './bundled-services.ts';
import { type CapnpValue, VOID } from './capnp.ts';
import { textOf } from './texts.ts';

const CACHE_WORKER = textOf('./workers/cache-worker.js');
const HTTP_CACHING_MODULE = textOf('./modules/http-caching-module.js');
export const CACHE_SERVICE = 'cache-service';
export const CACHE_DISK = 'cache';

/** Whether a module may use the Cache API. */
export function mayUseCaches(text: string): boolean {
  return /\bcaches\b/.test(text);
}

/** Most MiB of a cache in memory. */
const MEMORY_MB = 16;

/**
 * Config entries of the cache.
 * @param cacheMb limit of cached responses, in MiB; 0: no such service
 * @param isClustered if true, the cache is in memory, because workerd would also write a cache on the disk to the bucket
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
