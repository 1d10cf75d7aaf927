// Service bindings in a cell. Those to other apps lead to the host, by a socket that is the calling app's alone; the header
// that says which of its bindings calls is workerd's to write, and no Worker's.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Release, ServiceBinding } from '../../../bundler/release.ts';
import { CALLING_HEADER, CF_HEADER, PROTO_HEADER } from '../../edge/http/head/service-headers.ts';
import { type CapnpValue, embed, type Fields } from './capnp.ts';

/** The name of the module that carries calls of methods, beside the entry. */
export const CAPNWEB = 'cellar-capnweb.js';
/** The text of `CAPNWEB`. */
export const CAPNWEB_MODULE = readFileSync(
  new URL('index-workers.js', import.meta.resolve('capnweb')),
  'utf8',
);
/** The text of the Worker that the bindings lead to. */
export const SERVICE_WORKER = readFileSync(new URL('./workers/service-worker.js', import.meta.url), 'utf8');

/** Names both texts: the files of a cell depend on them. */
export const SERVICE_TEXTS_HASH = createHash('sha256')
  .update(CAPNWEB_MODULE)
  .update(SERVICE_WORKER)
  .digest('hex');

const SERVICE_DATE = '2026-01-01';
/** Has a Worker know its own exports, as all do from 2025-11-17 on. */
export const KNOWS_EXPORTS = 'enable_ctx_exports';

/** The bindings of a release that lead to other apps, in the order of their numbers. */
export function callsOf({ services = [] }: Release): ServiceBinding[] {
  return services.filter(({ service }) => service !== null);
}

/** The queues that a release sends to and does not consume, in the order of their numbers: other apps do. */
export function queuesElsewhere({ triggers }: Pick<Release, 'triggers'>): string[] {
  const consumed = triggers?.consumers.map(({ queue }) => queue) ?? [];
  const sent = triggers?.producers.map(({ queue }) => queue) ?? [];
  return [...new Set(sent)].filter((queue) => !consumed.includes(queue));
}

/** The service that leads to a queue of another app. */
export function queueService(index: number): string {
  return `service queue ${index}`;
}

/** Whether a Worker may have methods that others can call: then its classes extend workerd's. */
export function mayHaveMethods(text: string): boolean {
  return text.includes('WorkerEntrypoint');
}

/** The bindings of the app's Worker. */
export function serviceBindingsOf(release: Release): CapnpValue[] {
  const calls = callsOf(release);
  return (release.services ?? []).map((each) => {
    const { binding, service, entrypoint, props } = each;
    if (service === null) {
      const named = { name: 'app', ...(entrypoint && { entrypoint }), ...(props && { props: json(props) }) };
      return { name: binding, service: named };
    }
    return { name: binding, service: { name: 'services', props: json({ index: calls.indexOf(each) }) } };
  });
}

/** What a config has besides, for bindings that lead to other apps, and queues that are theirs: none without them. */
export function serviceServices(release: Release, socket: string): CapnpValue[] {
  const queues = [...queuesElsewhere(release).keys()].map((index) =>
    externalService(`queue ${index}`, socket),
  );
  const numbers = [...callsOf(release).keys()];
  if (numbers.length === 0) return queues;
  const ways = numbers.flatMap((index) => [`fetch ${index}`, `rpc ${index}`]);
  return [
    {
      name: 'services',
      worker: {
        modules: [
          { name: 'services.js', esModule: SERVICE_WORKER },
          { name: CAPNWEB, esModule: embed(CAPNWEB) },
        ],
        compatibilityDate: SERVICE_DATE,
        bindings: ways.map((way) => ({ name: way, service: `service ${way}` })),
      },
    },
    ...ways.map((way) => externalService(way, socket)),
    ...queues,
  ];
}

function externalService(way: string, socket: string): Fields {
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
