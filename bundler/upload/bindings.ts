// Reads the bindings of an upload. An upload defines bindings, or inherits them from the live release.
import { pipelineBindings } from '../bindings/pipelines.ts';
import { refuseSharing } from '../bindings/workflows.ts';
import { BuildFailure } from '../failure.ts';
import type { Bundle, Release, Triggers } from '../release.ts';
import { type Binding, type Metadata, warningsOf } from './metadata.ts';

/** The live release and the app's secrets, from which an upload may inherit bindings. */
export interface LiveBindings {
  /** The live release; `null` without one. */
  live: Release | null;
  /** Names of the app's secrets. */
  secrets: string[];
  /** The project's name for each storage, by storage id. */
  keys: Record<string, string>;
  /** The Worker's own name. */
  script: string;
}

type Bound = Pick<
  Bundle,
  | 'vars'
  | 'durableObjects'
  | 'objectsElsewhere'
  | 'databases'
  | 'namespaces'
  | 'buckets'
  | 'vectorIndexes'
  | 'workflows'
  | 'rateLimits'
  | 'services'
  | 'dispatchNamespaces'
  | 'storeSecrets'
  | 'mtlsCertificates'
  | 'tailConsumers'
  | 'outward'
  | 'warnings'
  | 'versionMetadata'
  | 'workerLoaders'
  | 'cpuMs'
  | 'triggers'
> & {
  /** Values of secrets, by name. */
  secrets: Record<string, string>;
};

/**
 * Returns the bindings of an upload. Crons and queue consumers are copied from the live release: Wrangler sets them
 * afterwards.
 * @throws {BuildFailure} for a binding that cannot be inherited, a class that the Worker does not export, Workflows that
 * share a name or a class, and a pipeline without a bucket
 */
export function bindingsOf(metadata: Metadata, from: LiveBindings, exports: string[]): Bound {
  const { live } = from;
  const given = new Set(metadata.bindings.map(({ name }) => name));
  const bindings = [...metadata.bindings, ...keptVars(metadata, live, given)].flatMap((binding) =>
    binding.type === 'inherit' ? inherited(binding.name, from) : [binding],
  );
  const all = <Type extends Binding['type']>(type: Type) =>
    bindings.filter((binding): binding is Extract<Binding, { type: Type }> => binding.type === type);
  const vars = [
    ...all('plain_text').map(({ name, text }) => [name, text]),
    ...all('json').map(({ name, json }) => [name, json]),
  ];
  const buckets = all('r2_bucket').map(({ name, bucket_name: key }) => ({ binding: name, key }));
  const vectorIndexes = all('vectorize').map(({ name, index_name: key }) => ({ binding: name, key }));
  const producers = all('queue').map(({ name, queue_name: queue }) => ({ binding: name, queue }));
  const rateLimits = all('ratelimit').map(({ name, namespace_id: namespace, simple }) => ({
    binding: name,
    namespace,
    ...simple,
  }));
  const services = all('service').map(({ name, service, entrypoint, props }) => ({
    binding: name,
    service,
    ...(entrypoint !== undefined && { entrypoint }),
    ...(props !== undefined && { props }),
  }));
  const dispatchNamespaces = all('dispatch_namespace').map(({ name: binding, namespace, outbound }) => ({
    binding,
    namespace,
    ...(outbound && {
      outbound: { service: outbound.worker.service, parameters: outbound.params.map(({ name: of }) => of) },
    }),
  }));
  const storeSecrets = all('secrets_store_secret').map(
    ({ name: binding, store_id: store, secret_name: secret }) => ({ binding, store, secret }),
  );
  const mtlsCertificates = all('mtls_certificate').map(({ name: binding, certificate_id: certificate }) => ({
    binding,
    certificate,
  }));
  const tailConsumers = [...new Set(metadata.tail_consumers.map(({ service }) => service))];
  const objects = all('durable_object_namespace');
  const elsewhere = objects.flatMap(({ name, class_name: className, script_name: script = from.script }) =>
    script === from.script ? [] : { binding: name, script, className },
  );
  const others = [
    ...all('ai'),
    ...all('images'),
    ...all('browser'),
    ...all('hyperdrive'),
    ...all('analytics_engine'),
    ...all('send_email'),
    ...all('missing'),
  ].map(({ name, ...rest }) => ({ binding: name, ...rest }));
  const pipelines = pipelineBindings(
    all('pipelines').map(({ name, pipeline, stream }) => ({
      binding: name,
      ...(pipeline !== undefined && { pipeline }),
      ...(stream !== undefined && { stream }),
    })),
    buckets,
  );
  const outward = [...others, ...pipelines];
  const warnings = [...all('missing').map(({ message }) => message), ...warningsOf(metadata)];
  const workflows = all('workflow').map((binding) => workflowOf(binding, live, exports));
  refuseSharing('the bindings', workflows);
  const [versionMetadata] = all('version_metadata');
  const workerLoaders = all('worker_loader').map(({ name: binding }) => ({ binding }));
  const triggers: Triggers = {
    crons: live?.triggers?.crons ?? [],
    producers,
    consumers: live?.triggers?.consumers ?? [],
  };
  return {
    vars: Object.fromEntries(vars),
    secrets: Object.fromEntries(all('secret_text').map(({ name, text }) => [name, text])),
    databases: all('d1').map(({ name, id: key }) => ({ binding: name, key, migrations: [] })),
    namespaces: all('kv_namespace').map(({ name, namespace_id: key }) => ({ binding: name, key })),
    durableObjects: objects
      .filter(({ script_name = from.script }) => script_name === from.script)
      .map((binding) => classOf(binding, exports)),
    ...(elsewhere.length > 0 && { objectsElsewhere: elsewhere }),
    ...(buckets.length > 0 && { buckets }),
    ...(vectorIndexes.length > 0 && { vectorIndexes }),
    ...(workflows.length > 0 && { workflows }),
    ...(rateLimits.length > 0 && { rateLimits }),
    ...(services.length > 0 && { services }),
    ...(dispatchNamespaces.length > 0 && { dispatchNamespaces }),
    ...(storeSecrets.length > 0 && { storeSecrets }),
    ...(mtlsCertificates.length > 0 && { mtlsCertificates }),
    ...(tailConsumers.length > 0 && { tailConsumers }),
    ...(outward.length > 0 && { outward }),
    ...(warnings.length > 0 && { warnings }),
    ...(versionMetadata && {
      versionMetadata: {
        binding: versionMetadata.name,
        tag: metadata.annotations['workers/tag'] ?? '',
      },
    }),
    ...(workerLoaders.length > 0 && { workerLoaders }),
    ...(metadata.limits?.cpu_ms !== undefined && { cpuMs: metadata.limits.cpu_ms }),
    ...(Object.values(triggers).some((list) => list.length > 0) && { triggers }),
  };
}

/** Returns the variables that `--keep-vars` keeps: the live release has them, and the upload does not name them. */
function keptVars({ keep_bindings }: Metadata, live: Release | null, given: Set<string>): Binding[] {
  if (live === null) return [];
  return Object.entries(live.vars)
    .filter(([name]) => !given.has(name))
    .map(([name, value]) => varOf(name, value))
    .filter(({ type }) => keep_bindings.includes(type));
}

function varOf(name: string, value: unknown): Binding {
  return typeof value === 'string'
    ? { type: 'plain_text', name, text: value }
    : { type: 'json', name, json: value as Extract<Binding, { type: 'json' }>['json'] };
}

/** Resolves an `inherit` binding. A secret needs no binding: every release has the app's secrets. */
function inherited(name: string, { live, secrets, keys }: LiveBindings): Binding[] {
  if (secrets.includes(name)) return [];
  const found = live && liveBinding(name, live, keys);
  if (!found)
    throw new BuildFailure(
      `the upload inherits the binding ${name}, but the app has no such secret or binding`,
    );
  return [found];
}

function liveBinding(name: string, live: Release, keys: Record<string, string>): Binding | null {
  if (Object.hasOwn(live.vars, name)) return varOf(name, live.vars[name]);
  if (live.assets?.binding === name) return { type: 'assets', name };
  if (live.versionMetadata?.binding === name) return { type: 'version_metadata', name };
  const named = <Each extends { binding: string }>(list: Each[] = []) =>
    list.find(({ binding }) => binding === name);
  if (named(live.workerLoaders)) return { type: 'worker_loader', name };
  const object = named(live.durableObjects);
  if (object) return { type: 'durable_object_namespace', name, class_name: object.className };
  const elsewhere = named(live.objectsElsewhere);
  if (elsewhere) {
    const { className: class_name, script: script_name } = elsewhere;
    return { type: 'durable_object_namespace', name, class_name, script_name };
  }
  const producer = named(live.triggers?.producers);
  if (producer) return { type: 'queue', name, queue_name: producer.queue };
  const workflow = named(live.workflows);
  if (workflow)
    return { type: 'workflow', name, workflow_name: workflow.name, class_name: workflow.className };
  const rateLimit = named(live.rateLimits);
  if (rateLimit) {
    const { namespace: namespace_id, limit, period } = rateLimit;
    return { type: 'ratelimit', name, namespace_id, simple: { limit, period } };
  }
  const service = named(live.services);
  if (service?.service) {
    const { service: of, entrypoint, props } = service;
    return {
      type: 'service',
      name,
      service: of,
      ...(entrypoint && { entrypoint }),
      ...(props && { props: props as never }),
    };
  }
  const dispatched = named(live.dispatchNamespaces);
  if (dispatched) {
    const { namespace: of, outbound } = dispatched;
    const params = outbound?.parameters.map((parameter) => ({ name: parameter })) ?? [];
    return {
      type: 'dispatch_namespace',
      name,
      namespace: of,
      ...(outbound && { outbound: { worker: { service: outbound.service }, params } }),
    };
  }
  const storeSecret = named(live.storeSecrets);
  if (storeSecret) {
    const { store: store_id, secret: secret_name } = storeSecret;
    return { type: 'secrets_store_secret', name, store_id, secret_name };
  }
  const mtls = named(live.mtlsCertificates);
  if (mtls) return { type: 'mtls_certificate', name, certificate_id: mtls.certificate };
  const outward = named(live.outward);
  if (outward) {
    const { binding: _, ...rest } = outward;
    return { name, ...rest };
  }
  const key = (storage: { storageId: string } | undefined) => storage && keys[storage.storageId];
  const database = key(named(live.databases));
  if (database) return { type: 'd1', name, id: database };
  const namespace = key(named(live.namespaces));
  if (namespace) return { type: 'kv_namespace', name, namespace_id: namespace };
  const bucket = key(named(live.buckets));
  if (bucket) return { type: 'r2_bucket', name, bucket_name: bucket };
  const index = key(named(live.vectorIndexes));
  return index ? { type: 'vectorize', name, index_name: index } : null;
}

function classOf(
  { name, class_name: className }: Extract<Binding, { type: 'durable_object_namespace' }>,
  exports: string[],
): Bundle['durableObjects'][number] {
  if (!exports.includes(className))
    throw new BuildFailure(`the binding ${name}: the Worker does not export a class ${className}`);
  return { binding: name, className };
}

/**
 * Returns a Workflow with the limits and retention of the live release: Wrangler sets them afterwards, in a separate call.
 */
function workflowOf(
  { name: binding, workflow_name: name, class_name: className }: Extract<Binding, { type: 'workflow' }>,
  live: Release | null,
  exports: string[],
): NonNullable<Bundle['workflows']>[number] {
  if (!exports.includes(className))
    throw new BuildFailure(`the binding ${binding}: the Worker does not export a class ${className}`);
  const { steps, retention } = live?.workflows?.find((workflow) => workflow.name === name) ?? {};
  return {
    binding,
    name,
    className,
    ...(steps !== undefined && { steps }),
    ...(retention && { retention }),
  };
}
