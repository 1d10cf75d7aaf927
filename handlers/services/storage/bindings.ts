// The bindings of an app's live release.
import type { DescribedRelease, Outward } from '../../contract/host/host-releases.ts';
import type { Binding } from '../../contract/storage/bindings.ts';
import { pageOf } from '../paging.ts';
import type { Service } from '../types.ts';

const list: Service<'bindings.list'> = async (context, { id, ...page }) => {
  const release = await context.host.call('GET /apps/:id/release', { id });
  const items = release === null ? [] : bindingsOf(release);
  return pageOf(`bindings.list ${id}`, items, ({ name, type }) => `${name} ${type}`, page);
};

function bindingsOf(release: DescribedRelease): Binding[] {
  const of = <Each>(
    type: Binding['type'],
    each: readonly Each[],
    shown: (one: Each) => Omit<Binding, 'type'>,
  ): Binding[] => each.map((one) => ({ type, ...shown(one) }));
  const bare = (name: string) => ({ name, target: null });
  const kept = ({ binding: name, id: target }: { binding: string; id: string }) => ({ name, target });
  const optional = (name: string | null) => (name === null ? [] : [name]);
  return [
    ...of('assets', optional(release.assets), bare),
    ...of(
      'durable_object_namespace',
      release.durable_objects,
      ({ binding: name, class_name, script_name }) => ({
        name,
        target: script_name === undefined ? class_name : `${class_name} of ${script_name}`,
      }),
    ),
    ...of('container', release.containers, ({ class_name: name, image: target }) => ({ name, target })),
    ...of('d1', release.databases, kept),
    ...of('kv_namespace', release.namespaces, kept),
    ...of('r2_bucket', release.buckets, kept),
    ...of('vectorize', release.vector_indexes, kept),
    ...of('queue', release.producers, ({ binding: name, queue: target }) => ({ name, target })),
    ...of('queue_consumer', release.consumers, ({ queue: name }) => bare(name)),
    ...of('workflow', release.workflows, ({ binding: name, name: target }) => ({ name, target })),
    ...of('ratelimit', release.rate_limits, ({ binding: name, limit, period }) => ({
      name,
      target: `${limit} in ${period} s`,
    })),
    ...of('service', release.services, ({ binding: name, service, entrypoint }) => ({
      name,
      target: [service ?? 'itself', ...optional(entrypoint ?? null)].join(', '),
    })),
    ...of('tail_consumer', release.tail_consumers, bare),
    ...of('dispatch_namespace', release.dispatch_namespaces, ({ binding: name, namespace: target }) => ({
      name,
      target,
    })),
    ...of('secrets_store_secret', release.store_secrets, ({ binding: name, secret: target }) => ({
      name,
      target,
    })),
    ...of('mtls_certificate', release.mtls_certificates, ({ binding: name, certificate: target }) => ({
      name,
      target,
    })),
    ...release.outward.map((one) => ({ name: one.binding, type: one.type, target: targetOf(one) })),
    ...of('version_metadata', optional(release.version_metadata), bare),
    ...of('worker_loader', release.worker_loaders, bare),
  ];
}

function targetOf(outward: Outward): string | null {
  switch (outward.type) {
    case 'hyperdrive':
      return outward.id;
    case 'analytics_engine':
      return outward.dataset;
    case 'pipelines':
      return outward.pipeline;
    case 'send_email':
      return outward.destination_address ?? null;
    case 'missing':
      return outward.message;
    default:
      return null;
  }
}

export const bindingServices = { 'bindings.list': list };
