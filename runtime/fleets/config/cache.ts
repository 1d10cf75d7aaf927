// The Cache API of an app whose code uses it: a service in the cell, and a disk of its own.
import type { CapnpValue } from './capnp.ts';
import { textOf } from './texts.ts';

const CACHE_WORKER = textOf('./workers/cache-worker.js');
const HTTP_CACHING_MODULE = textOf('./modules/http-caching-module.js');
/** The name of the service and of its disk. */
export const CACHE_SERVICE = 'cache-service';
export const CACHE_DISK = 'cache';

/** Whether a module may use the Cache API. */
export function mayUseCaches(text: string): boolean {
  return /\bcaches\b/.test(text);
}

/** Config entries of the cache. @param cacheMb limit of cached responses, in MiB; 0: no such service */
export function cacheServices(cacheMb: number): CapnpValue[] {
  if (cacheMb === 0) return [];
  return [
    { name: CACHE_DISK, disk: { writable: true } },
    {
      name: CACHE_SERVICE,
      worker: {
        modules: [
          { name: 'cache.js', esModule: CACHE_WORKER },
          { name: 'http-caching.js', esModule: HTTP_CACHING_MODULE },
        ],
        compatibilityDate: '2026-01-01',
        bindings: [
          { name: 'STORE', durableObjectNamespace: 'CacheStore' },
          { name: 'MAX_BYTES', json: String(cacheMb * 2 ** 20) },
        ],
        durableObjectNamespaces: [{ className: 'CacheStore', uniqueKey: 'CacheStore', enableSql: true }],
        durableObjectStorage: { localDisk: CACHE_DISK },
      },
    },
  ];
}
