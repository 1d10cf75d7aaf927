// The bindings of an app's live release.
import * as z from 'zod';
import { listOf, page, reference } from '../fields.ts';
import { operation } from '../operation.ts';

/**
 * Types of bindings, mostly by Cloudflare's names. `missing`: a binding that is not available here. `container`,
 * `queue_consumer` and `tail_consumer` are not in `env`.
 */
export const BINDING_TYPES = [
  'ai',
  'analytics_engine',
  'assets',
  'browser',
  'container',
  'd1',
  'dispatch_namespace',
  'durable_object_namespace',
  'hyperdrive',
  'images',
  'kv_namespace',
  'missing',
  'mtls_certificate',
  'pipelines',
  'queue',
  'queue_consumer',
  'r2_bucket',
  'ratelimit',
  'secrets_store_secret',
  'send_email',
  'service',
  'tail_consumer',
  'vectorize',
  'version_metadata',
  'worker_loader',
  'workflow',
] as const;

export const Binding = z.strictObject({
  /** The name in `env`. For a `container` its class, for a `queue_consumer` its queue, for a `tail_consumer` its app. */
  name: z.string(),
  type: z.enum(BINDING_TYPES),
  /** The name of the bound resource; null when it has none. For `missing`: why the binding is not available here. */
  target: z.string().nullable(),
});
export type Binding = z.output<typeof Binding>;

export const bindings = [
  operation({
    name: 'bindings.list',
    summary: "Lists the bindings of an app's live release, without variables and secrets",
    method: 'GET',
    path: '/v1/apps/:id/bindings',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Binding),
  }),
] as const;
