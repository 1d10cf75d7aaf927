// Service bindings in a cell (an app's workerd process). Calls to other apps go to the host, through a socket that only the
// calling app has. workerd, not the Worker, writes the header that names the calling binding.

import { CELLAR } from '../../../bundler/bindings/services.ts';
import type { Release } from '../../../bundler/release.ts';
import { CALLING_HEADER, CF_HEADER, PROTO_HEADER } from '../../edge/http/head/service-headers.ts';
import type { OutsideBinding } from '../process/service-access.ts';
import { SERVICE_DATE } from './bundled-services.ts';
import { type CapnpValue, embed, type Fields, VOID } from './capnp.ts';
import { mainService } from './site/site.ts';
import { type CellModule, textOf } from './texts.ts';

/** The RPC library for method calls between apps. Its file lies beside Cellar's entry module. */
export const CAPNWEB: CellModule = {
  name: 'cellar-capnweb.js',
  text: textOf(new URL('index-workers.js', import.meta.resolve('capnweb')).href),
};
const CELLAR_MODULE: CellModule = {
  name: 'cellar-internal:cellar',
  text: textOf('./modules/cellar-module.js'),
};
/** The Worker behind the bindings to other apps. */
const SERVICE_WORKER = textOf('./workers/service-worker.js');
/** The module of the stand-ins for Durable Objects of other apps. */
const OBJECT_MODULE = textOf('./modules/object-module.js');
/** Compatibility flag: a Worker knows its own exports, as all do from 2025-11-17 on. */
export const KNOWS_EXPORTS = 'enable_ctx_exports';

/**
 * Returns a release's bindings to other apps: services, then classes of Durable Objects. The index is the binding's number.
 */
export function callsOf({ services = [], objectsElsewhere = [] }: Release): OutsideBinding[] {
  return [
    ...services.filter(({ service }) => service !== null && service !== CELLAR),
    ...objectsElsewhere.map(({ binding, script, className }) => ({ binding, service: script, className })),
  ];
}

/** Returns the queues that a release sends to and does not consume. The index is the number for `queueService`. */
export function queuesElsewhere({ triggers }: Pick<Release, 'triggers'>): string[] {
  const consumed = triggers?.consumers.map(({ queue }) => queue) ?? [];
  const sent = triggers?.producers.map(({ queue }) => queue) ?? [];
  return [...new Set(sent)].filter((queue) => !consumed.includes(queue));
}

/** Returns the dead letter queues of a release that it does not consume. Another app may consume them. */
function deadLettersElsewhere({ triggers }: Pick<Release, 'triggers'>): string[] {
  const consumers = triggers?.consumers ?? [];
  const consumed = consumers.map(({ queue }) => queue);
  const dead = new Set(consumers.flatMap(({ deadLetterQueue }) => deadLetterQueue || []));
  return [...dead].filter((queue) => !consumed.includes(queue));
}

/** Returns `queuesElsewhere`, then the dead letter queues not among them. The index is the number for `queueService`. */
export function calledQueues(release: Pick<Release, 'triggers'>): string[] {
  return [...new Set([...queuesElsewhere(release), ...deadLettersElsewhere(release)])];
}

/** Returns the bindings by which the service of the queues sends dead letters to other apps. */
export function deadLetterBindings(release: Pick<Release, 'triggers'>): CapnpValue[] {
  const called = calledQueues(release);
  return deadLettersElsewhere(release).map((queue) => ({
    name: `elsewhere ${queue}`,
    service: queueService(called.indexOf(queue)),
  }));
}

/** Returns the name of the service that sends to another app's queue. */
export function queueService(index: number): string {
  return `service queue ${index}`;
}

/** Whether a module may have methods that other apps can call: they need a class that extends one of the classes below. */
export function mayHaveMethods(text: string): boolean {
  return text.includes('WorkerEntrypoint') || text.includes('DurableObject');
}

export function serviceBindingsOf(release: Release): CapnpValue[] {
  const numbers = numbersOf(release);
  const objects = (release.objectsElsewhere ?? []).map(({ binding, storageId }) => ({
    name: binding,
    durableObjectNamespace: {
      className: objectClass(classKeys(release).indexOf(storageId)),
      serviceName: 'services',
    },
  }));
  const services = (release.services ?? []).map(({ binding, service, entrypoint, props }) => {
    if (service === CELLAR) return { name: binding, wrapped: { moduleName: CELLAR_MODULE.name } };
    const isPlain = entrypoint === undefined && props === undefined;
    if (service === null) {
      // The assets service answers first, as for visitors. It passes method calls on to the Worker, but not the props.
      const name = isPlain ? mainService(release) : 'app';
      const named = { name, ...(entrypoint && { entrypoint }), ...(props && { props: json(props) }) };
      return { name: binding, service: named };
    }
    return {
      name: binding,
      service: { name: 'services', props: json({ index: numbers.get(binding)!, isPlain }) },
    };
  });
  return [...services, ...objects];
}

/** Returns the numbers of the bindings to other apps, by the binding's name. */
function numbersOf(release: Release): Map<string, number> {
  return new Map(callsOf(release).map(({ binding }, index) => [binding, index]));
}

/** Returns the unique keys of other apps' classes, without duplicates: two bindings may have the same class. */
function classKeys({ objectsElsewhere = [] }: Release): string[] {
  return [...new Set(objectsElsewhere.map(({ storageId }) => storageId))];
}

/** Returns the name of the class that stands in for another app's Durable Objects. @param index of its key in `classKeys` */
function objectClass(index: number): string {
  return `Object${index}`;
}

/** Returns the modules behind bindings to Cellar itself. */
export function serviceModules({ services = [] }: Release): Fields[] {
  if (!services.some(({ service }) => service === CELLAR)) return [];
  return [{ name: CELLAR_MODULE.name, internal: true, esModule: CELLAR_MODULE.text }];
}

/** Returns the services behind bindings to other apps and to their queues; empty without such bindings. */
export function serviceServices(release: Release, socket: string): CapnpValue[] {
  const queues = [...calledQueues(release).keys()].map((index) => externalService(`queue ${index}`, socket));
  const numbers = numbersOf(release);
  if (numbers.size === 0) return queues;
  const ways = [...numbers.values()].flatMap((index) => [`fetch ${index}`, `rpc ${index}`]);
  const keys = classKeys(release);
  const classes = keys.map((key, index) => {
    const { binding } = release.objectsElsewhere!.find(({ storageId }) => storageId === key)!;
    return `export const ${objectClass(index)} = objectsOf(${numbers.get(binding)});\n`;
  });
  const imported = keys.length > 0 ? "import { objectsOf } from './cellar-object.js';\n" : '';
  const entry = `${imported}export { default } from './cellar-service.js';\n${classes.join('')}`;
  return [
    {
      name: 'services',
      worker: {
        modules: [
          { name: 'services.js', esModule: entry },
          { name: 'cellar-service.js', esModule: SERVICE_WORKER },
          ...(keys.length > 0 ? [{ name: 'cellar-object.js', esModule: OBJECT_MODULE }] : []),
          { name: CAPNWEB.name, esModule: embed(CAPNWEB.name) },
        ],
        compatibilityDate: SERVICE_DATE,
        bindings: ways.map((way) => ({ name: way, service: `service ${way}` })),
        // These objects only forward calls, and have no data. Their storage is in memory, so that they stay in the calling
        // process, even in a cluster.
        ...(keys.length > 0 && {
          durableObjectNamespaces: keys.map((uniqueKey, index) => ({
            className: objectClass(index),
            uniqueKey,
          })),
          durableObjectStorage: { inMemory: VOID },
        }),
      },
    },
    ...ways.map((way) => externalService(way, socket)),
    ...queues,
  ];
}

/**
 * Returns a service that forwards requests to a socket of the host.
 * @param way the value of `CALLING_HEADER`: the binding's kind and number
 */
export function externalService(way: string, socket: string): Fields {
  return {
    name: `service ${way}`,
    external: {
      address: `unix:${socket}`,
      http: {
        forwardedProtoHeader: PROTO_HEADER,
        cfBlobHeader: CF_HEADER,
        injectRequestHeaders: [{ name: CALLING_HEADER, value: way }],
      },
    },
  };
}

function json(value: unknown): Fields {
  return { json: JSON.stringify(value) };
}
