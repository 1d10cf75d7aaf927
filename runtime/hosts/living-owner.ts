// Whether another host runs a Durable Object of the control plane, according to workerd's records in the bucket.
import { isRenewed, LEASES, OBJECTS, readIfThere } from '../bucket/app-folder.ts';
import type { S3Store } from '../bucket/s3-store.ts';

/**
 * Whether a process on another host runs an object. False when nobody runs it.
 * @param store the folder of the control plane
 * @param id of the Durable Object
 * @param host the IP address of this host
 * @throws {Error} when the bucket does not answer
 */
export async function hasLivingOwner(store: S3Store, id: string, host: string): Promise<boolean> {
  for (const namespace of await store.folders(OBJECTS)) {
    const owner = await readJson(store, `${namespace}${id}/own.json`);
    if (owner === null) continue;
    const lease = await readJson(store, `${LEASES}${owner.node}.json`);
    if (lease === null || String(lease.address).startsWith(`${host}:`)) return false;
    return isRenewed(Number(lease.expires_ms));
  }
  return false;
}

async function readJson(store: S3Store, name: string): Promise<Record<string, unknown> | null> {
  const found = await readIfThere(store, name);
  return found && (JSON.parse(found.toString('utf8')) as Record<string, unknown>);
}
