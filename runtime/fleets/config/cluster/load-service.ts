// For an app whose data is in the bucket: the workerd service that loads Durable Objects of the app when the host asks for
// them. workerd then has the files of these objects on this disk, where the host can read them.
import type { Release } from '../../../../bundler/release.ts';
import { QUEUE_KEY, SERVICE_DATE } from '../bundled-services.ts';
import type { CapnpValue, Fields } from '../capnp.ts';
import { textOf } from '../texts.ts';
import { workflowKey } from '../workflows.ts';

/** The socket where the host asks for objects. */
export const LOAD_SOCKET = 'load';
const MODULE = textOf('./workers/load-worker.js');

/**
 * Returns the service behind `LOAD_SOCKET`. It has a binding to each namespace whose objects it can load, named by the
 * namespace's unique key. When the release has no D1 or no KV, the service declares that namespace itself: earlier releases
 * may have stored data in it.
 */
export function loadService(release: Release): Fields {
  const { classes, databases, namespaces, triggers, workflows = [] } = release;
  const services = {
    D1Database: databases.length > 0 ? 'd1-service' : null,
    KVNamespace: namespaces.length > 0 ? 'kv-service' : null,
  };
  const own = Object.keys(services).filter((key) => services[key as keyof typeof services] === null);
  const bindings: CapnpValue[] = [
    ...classes.map(({ className, storageId }) => bindingTo(storageId, className, 'app')),
    ...workflows.map(({ name }) => bindingTo(workflowKey(name), workflowKey(name), 'app')),
    ...Object.entries(services).map(([key, service]) => bindingTo(key, key, service ?? 'load')),
    ...(triggers && triggers.consumers.length > 0 ? [bindingTo(QUEUE_KEY, QUEUE_KEY, 'queue-service')] : []),
    ...[...new Set(namespaces.map(({ storageId }) => storageId))].map((storageId) => ({
      name: `kv:${storageId}`,
      kvNamespace: { name: 'kv-service', props: { json: JSON.stringify({ namespace: storageId }) } },
    })),
  ];
  return {
    name: 'load',
    worker: {
      modules: [{ name: 'load.js', esModule: MODULE }],
      compatibilityDate: SERVICE_DATE,
      bindings,
      durableObjectNamespaces: own.map((key) => ({ className: key, uniqueKey: key, enableSql: true })),
      durableObjectStorage: { localDisk: 'do' },
    },
  };
}

function bindingTo(uniqueKey: string, className: string, serviceName: string): Fields {
  return { name: uniqueKey, durableObjectNamespace: { className, serviceName } };
}
