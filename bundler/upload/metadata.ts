// Parses the metadata that Wrangler sends with an upload, in Cloudflare's format.
import * as z from 'zod';
import { DISPATCH_NAME, DISPATCH_NAME_RULE, OUTBOUND_PARAMETERS_MAX } from '../bindings/dispatch.ts';
import { missing, workflowOfOtherScript } from '../bindings/missing-bindings.ts';
import { CERTIFICATE_ID, CERTIFICATE_ID_RULE } from '../bindings/mtls-certificates.ts';
import { RATE_LIMIT_PERIODS } from '../bindings/rate-limits.ts';
import { STORE_SECRET_NAME, STORE_SECRET_NAME_RULE } from '../bindings/secrets-store.ts';
import { WORKFLOW_NAME } from '../bindings/workflows.ts';
import { requireDepth } from '../bundle-size-limit.ts';
import { keyOfType, nestedKeys, notAvailable, topLevelKeys } from '../configuration/wrangler-keys.ts';
import { BuildFailure } from '../failure.ts';
import { SentBundle } from './bundle.ts';

const name = z.string().min(1).max(256);
const dispatchName = z.string().regex(DISPATCH_NAME, DISPATCH_NAME_RULE);
const outbound = z.object({
  worker: z.object({ service: name }),
  params: z.array(z.object({ name })).max(OUTBOUND_PARAMETERS_MAX).default([]),
});

/** The bindings that Cellar supports, by Cloudflare's type names. `missing` replaces a binding that it does not support. */
const Binding = z.discriminatedUnion('type', [
  z.object({ type: z.literal('plain_text'), name, text: z.string() }),
  z.object({ type: z.literal('json'), name, json: z.json() }),
  z.object({ type: z.literal('secret_text'), name, text: z.string() }),
  z.object({ type: z.literal('kv_namespace'), name, namespace_id: name }),
  z.object({ type: z.literal('r2_bucket'), name, bucket_name: name }),
  z.object({ type: z.literal('vectorize'), name, index_name: name }),
  z.object({ type: z.literal('d1'), name, id: name }),
  z.object({
    type: z.literal('durable_object_namespace'),
    name,
    class_name: name,
    script_name: name.optional(),
    environment: z.string().optional(),
  }),
  z.object({ type: z.literal('queue'), name, queue_name: name }),
  z.object({
    type: z.literal('workflow'),
    name,
    workflow_name: z.string().regex(WORKFLOW_NAME),
    class_name: name,
  }),
  z.object({ type: z.literal('assets'), name }),
  z.object({ type: z.literal('version_metadata'), name }),
  z.object({ type: z.literal('worker_loader'), name }),
  z.object({
    type: z.literal('service'),
    name,
    service: name,
    environment: z.string().optional(),
    entrypoint: name.optional(),
    props: z.record(z.string(), z.json()).optional(),
  }),
  z.object({
    type: z.literal('ratelimit'),
    name,
    namespace_id: name,
    simple: z.object({ limit: z.int().min(0), period: z.literal(RATE_LIMIT_PERIODS) }),
  }),
  z.object({
    type: z.literal('dispatch_namespace'),
    name,
    namespace: dispatchName,
    outbound: outbound.optional(),
  }),
  z.object({
    type: z.literal('secrets_store_secret'),
    name,
    store_id: name,
    secret_name: z.string().regex(STORE_SECRET_NAME, STORE_SECRET_NAME_RULE),
  }),
  z.object({
    type: z.literal('mtls_certificate'),
    name,
    certificate_id: z.string().regex(CERTIFICATE_ID, CERTIFICATE_ID_RULE),
  }),
  z.object({ type: z.literal('ai'), name }),
  z.object({ type: z.literal('images'), name }),
  z.object({ type: z.literal('browser'), name }),
  z.object({ type: z.literal('hyperdrive'), name, id: name }),
  z.object({ type: z.literal('analytics_engine'), name, dataset: name }),
  z.object({ type: z.literal('pipelines'), name, pipeline: name.optional(), stream: name.optional() }),
  z.object({
    type: z.literal('send_email'),
    name,
    destination_address: name.optional(),
    allowed_destination_addresses: z.array(name).optional(),
    allowed_sender_addresses: z.array(name).optional(),
  }),
  z.object({ type: z.literal('missing'), name, message: z.string() }),
  z.object({ type: z.literal('inherit'), name }),
]);
export type Binding = z.output<typeof Binding>;

const MigrationStep = z.object({
  new_classes: z.array(name).optional(),
  new_sqlite_classes: z.array(name).optional(),
  renamed_classes: z.array(z.object({ from: name, to: name })).optional(),
  deleted_classes: z.array(name).optional(),
  transferred_classes: z
    .array(z.unknown())
    .max(0, 'classes of another Worker cannot be transferred')
    .optional(),
});

const Metadata = z.object({
  /** Set by Cellar's own bundler; then the fields of Wrangler's uploads have no meaning. */
  cellar_bundle: SentBundle.optional(),
  main_module: name.optional(),
  body_part: name.optional(),
  compatibility_date: z.iso.date().optional(),
  compatibility_flags: z.array(name).default([]),
  bindings: z.array(z.looseObject({ type: name, name })).default([]),
  keep_bindings: z.array(z.string()).default([]),
  migrations: z
    .object({
      new_tag: name,
      old_tag: name.optional(),
      steps: z.array(MigrationStep),
    })
    .optional(),
  exports: z
    .record(
      name,
      z.object({
        type: z.string(),
        state: z.string().optional(),
        storage: z.string().optional(),
        renamed_to: name.optional(),
      }),
    )
    .default({}),
  assets: z
    .object({
      jwt: z.string().optional(),
      config: z
        .object({
          html_handling: z
            .enum(['auto-trailing-slash', 'force-trailing-slash', 'drop-trailing-slash', 'none'])
            .optional(),
          not_found_handling: z.enum(['none', '404-page', 'single-page-application']).optional(),
          run_worker_first: z.union([z.boolean(), z.array(z.string())]).optional(),
          base_path: z.string().optional(),
          _headers: z.string().optional(),
          _redirects: z.string().optional(),
        })
        .default({}),
    })
    .optional(),
  tail_consumers: z.array(z.object({ service: name, environment: z.string().optional() })).default([]),
  streaming_tail_consumers: z.array(z.unknown()).default([]),
  limits: z.object({ cpu_ms: z.int().min(1).optional() }).optional(),
  annotations: z
    .object({
      'workers/message': z.string().optional(),
      'workers/tag': z.string().optional(),
      'workers/alias': z.string().optional(),
    })
    .default({}),
});

/** The checked metadata of an upload. */
export type Metadata = Omit<z.output<typeof Metadata>, 'bindings'> & { bindings: Binding[] };

/**
 * Parses the part `metadata` of an upload.
 * @throws {BuildFailure} naming the field
 */
export function readMetadata(text: string): Metadata {
  const parsed = parse(text);
  requireDepth(parsed, 'metadata: ');
  const metadata = check(Metadata, parsed, 'metadata');
  const bindings = (metadata.bindings as { type: string; name: string }[]).map(readBinding);
  const names = bindings.map((binding) => binding.name);
  const twice = names.find((each, at) => names.indexOf(each) !== at);
  if (twice !== undefined) throw new BuildFailure(`metadata: the binding ${twice} occurs twice; rename one`);
  return { ...metadata, bindings };
}

/** Returns the warnings that a push would give for unsupported keys of the configuration that Wrangler passes on. */
export function warningsOf({ bindings, tail_consumers, streaming_tail_consumers }: Metadata): string[] {
  const places = {
    'durable_objects.bindings': bindings.filter(({ type }) => type === 'durable_object_namespace'),
    services: bindings.filter(({ type }) => type === 'service'),
    tail_consumers,
  };
  const warnings = Object.entries(places)
    .filter(([, items]) => items.some((item) => 'environment' in item))
    .map(([place]) => notAvailable(`${place}.environment`, nestedKeys[`${place}[]`]!.environment));
  const streaming = 'streaming_tail_consumers';
  if (streaming_tail_consumers.length > 0) warnings.push(notAvailable(streaming, topLevelKeys[streaming]));
  return warnings;
}

function readBinding(binding: { type: string; name: string; script_name?: unknown }): Binding {
  const { type, name, script_name: script } = binding;
  const types: readonly string[] = Binding.options.map(({ shape }) => shape.type.value);
  if (!types.includes(type))
    return { type: 'missing', name, message: missing(name, keyOfType(type)).message };
  if (type === 'workflow' && script !== undefined)
    return { type: 'missing', name, message: workflowOfOtherScript(name, String(script)).message };
  return check(Binding, binding, `the binding ${name}`);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new BuildFailure(`metadata is not JSON: ${(error as Error).message}`);
  }
}

function check<Schema extends z.ZodType>(schema: Schema, value: unknown, what: string): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0]!;
  throw new BuildFailure(`${what}: ${path.map(String).join('.') || 'the whole'}: ${message}`);
}
