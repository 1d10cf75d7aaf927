// Fills an app's cache with pages from its build. Next.js reads these pages only from a bucket or a KV namespace.
import { readFileSync } from 'node:fs';
import type { Release } from '../../../bundler/release.ts';
import { SERVICE_DATE } from '../config/bundled-services.ts';
import type { Fields } from '../config/capnp.ts';
import { bucketService, bucketServiceName, kvServices } from '../config/storage.ts';
import { type TaskPlace, withTask } from '../process/task-cell.ts';

/** What to fill, and where. */
export interface PrefillOptions extends TaskPlace {
  prefill: NonNullable<Release['prefill']>;
  /** This app's own socket of the host's bucket service. */
  bucketSocket: string;
  signal: AbortSignal;
}

/** Time limit of the whole filling, in ms. */
const TIMEOUT_MS = 120_000;
const WORKER = readFileSync(new URL('./prefill-worker.js', import.meta.url), 'utf8');

/**
 * Puts each file into the bucket or KV namespace. For a namespace, nothing else may use the storage meanwhile.
 * @throws {Error} naming the binding, and the key that could not be put
 */
export async function prefill({ prefill, bucketSocket, signal, ...place }: PrefillOptions): Promise<void> {
  const { kind, binding, storageId, directory, prefix, files } = prefill;
  const isBucket = kind === 'bucket';
  const deadline = AbortSignal.timeout(TIMEOUT_MS);
  const what = `filling the cache ${binding}`;
  const task = {
    name: 'prefill',
    what,
    services: services(isBucket, storageId, bucketSocket, place.cluster !== undefined),
    disks: isBucket ? [] : ['do', 'kv'],
    signal: AbortSignal.any([deadline, signal]),
  };
  try {
    await withTask(place, task, async (ask) => {
      const { failed } = (await ask('/', JSON.stringify({ directory, prefix }))) as {
        failed?: { at: string; message: string };
      };
      if (failed) throw new Error(`${what} failed at ${failed.at}: ${failed.message}`);
    });
  } catch (error) {
    if (!deadline.aborted) throw error;
    throw new Error(`${what} did not end within ${TIMEOUT_MS / 1000} s: prerender fewer than ${files} pages`);
  }
}

function services(
  isBucket: boolean,
  storageId: string,
  bucketSocket: string,
  isClustered: boolean,
): Fields[] {
  const cache = isBucket
    ? { r2Bucket: bucketServiceName(storageId) }
    : { kvNamespace: { name: 'kv-service', props: { json: JSON.stringify({ namespace: storageId }) } } };
  return [
    ...(isBucket ? [bucketService(storageId, bucketSocket)] : kvServices(isClustered)),
    {
      name: 'app',
      worker: {
        compatibilityDate: SERVICE_DATE,
        modules: [{ name: 'prefill-worker.js', esModule: WORKER }],
        bindings: [
          { name: 'RELEASE', service: 'release' },
          { name: 'CACHE', ...cache },
        ],
      },
    },
  ];
}
