// An upload from Cellar's own bundler, by `cellar deploy --upload`. Its metadata contain the whole `Bundle`, with the crons,
// queue consumers and D1 migrations that Wrangler sends in separate calls.
import * as z from 'zod';
import { DISPATCH_NAME, DISPATCH_NAME_RULE, OUTBOUND_PARAMETERS_MAX } from '../bindings/dispatch.ts';
import { CERTIFICATE_ID, CERTIFICATE_ID_RULE } from '../bindings/mtls-certificates.ts';
import { RATE_LIMIT_PERIODS } from '../bindings/rate-limits.ts';
import { STORE_SECRET_NAME, STORE_SECRET_NAME_RULE } from '../bindings/secrets-store.ts';
import { CONSUMER_RANGES } from '../bindings/triggers.ts';
import { refuseSharing, WORKFLOW_NAME } from '../bindings/workflows.ts';
import { BuildFailure } from '../failure.ts';
import { MAX_ENTRIES, RULES_BYTES } from '../limits.ts';
import { type Bundle, PREFILL } from '../release.ts';
import { SITE_MANIFEST } from '../workers-site/manifest.ts';

const name = z.string().min(1).max(256);
const path = z.string().min(1).max(1024);
const rule = z.string().max(RULES_BYTES).optional();
const renamed = z.strictObject({ from: name, to: name });
const retention = z.union([z.number(), z.string().max(100)]).optional();
const count = z.int().min(0).optional();
const within = (setting: keyof typeof CONSUMER_RANGES) => {
  const [least, most] = CONSUMER_RANGES[setting];
  return z.int().min(least).max(most).optional();
};

const Worker = z.strictObject({
  modules: z
    .array(
      z.strictObject({
        name: path,
        type: z.enum(['esm', 'commonjs', 'text', 'data', 'wasm', 'json']),
        path: path.startsWith('modules/'),
      }),
    )
    .min(1),
  compatibilityDate: z.iso.date(),
  compatibilityFlags: z.array(name),
  main: path.optional(),
});

/**
 * A bundle as `cellar deploy --upload` sends it. Its files are parts of the upload, named by path; its assets are in a
 * session.
 */
export const SentBundle = z.strictObject({
  worker: Worker.nullable(),
  exports: z.array(name),
  vars: z.record(name, z.json()),
  assets: z
    .strictObject({
      directory: z.literal('assets'),
      binding: name.nullable(),
      notFoundHandling: z.enum(['none', '404-page', 'single-page-application']),
      htmlHandling: z.enum(['auto-trailing-slash', 'force-trailing-slash', 'drop-trailing-slash', 'none']),
      runWorkerFirst: z.union([z.boolean(), z.array(z.string())]),
      basePath: z.string().max(1024).optional(),
      rules: z.strictObject({ headers: rule, redirects: rule, ignore: rule }).optional(),
      siteManifest: z.literal(`modules/${SITE_MANIFEST}`).optional(),
    })
    .nullable(),
  durableObjects: z.array(z.strictObject({ binding: name, className: name })),
  objectsElsewhere: z.array(z.strictObject({ binding: name, script: name, className: name })).optional(),
  classMigrations: z.array(
    z.strictObject({
      tag: name.nullable(),
      newClasses: z.array(name),
      newSqliteClasses: z.array(name),
      renamedClasses: z.array(renamed),
      deletedClasses: z.array(name),
    }),
  ),
  databases: z.array(
    z.strictObject({
      binding: name,
      key: name,
      name: name.optional(),
      migrations: z.array(z.strictObject({ name: path, path: path.startsWith('migrations/') })),
      migrationsTable: name.optional(),
    }),
  ),
  namespaces: z.array(z.strictObject({ binding: name, key: name })),
  buckets: z.array(z.strictObject({ binding: name, key: name })).optional(),
  vectorIndexes: z.array(z.strictObject({ binding: name, key: name })).optional(),
  workflows: z
    .array(
      z.strictObject({
        binding: name,
        name: z.string().regex(WORKFLOW_NAME),
        className: name,
        steps: count,
        retention: z.strictObject({ success: retention, error: retention }).optional(),
      }),
    )
    .optional(),
  rateLimits: z
    .array(
      z.strictObject({
        binding: name,
        namespace: name,
        limit: z.int().min(0),
        period: z.literal(RATE_LIMIT_PERIODS),
      }),
    )
    .optional(),
  services: z
    .array(
      z.strictObject({
        binding: name,
        service: name.nullable(),
        entrypoint: name.optional(),
        props: z.record(z.string(), z.json()).optional(),
      }),
    )
    .optional(),
  dispatchNamespaces: z
    .array(
      z.strictObject({
        binding: name,
        namespace: z.string().regex(DISPATCH_NAME, DISPATCH_NAME_RULE),
        outbound: z
          .strictObject({ service: name, parameters: z.array(name).max(OUTBOUND_PARAMETERS_MAX) })
          .optional(),
      }),
    )
    .optional(),
  storeSecrets: z
    .array(
      z.strictObject({
        binding: name,
        store: name,
        secret: z.string().regex(STORE_SECRET_NAME, STORE_SECRET_NAME_RULE),
      }),
    )
    .optional(),
  mtlsCertificates: z
    .array(
      z.strictObject({ binding: name, certificate: z.string().regex(CERTIFICATE_ID, CERTIFICATE_ID_RULE) }),
    )
    .optional(),
  tailConsumers: z.array(name).optional(),
  outward: z
    .array(
      z.discriminatedUnion('type', [
        z.strictObject({ type: z.literal('ai'), binding: name }),
        z.strictObject({ type: z.literal('images'), binding: name }),
        z.strictObject({ type: z.literal('browser'), binding: name }),
        z.strictObject({ type: z.literal('hyperdrive'), binding: name, id: name }),
        z.strictObject({ type: z.literal('analytics_engine'), binding: name, dataset: name }),
        z.strictObject({ type: z.literal('pipelines'), binding: name, pipeline: name, bucket: name }),
        z.strictObject({
          type: z.literal('send_email'),
          binding: name,
          destination_address: name.optional(),
          allowed_destination_addresses: z.array(name).optional(),
          allowed_sender_addresses: z.array(name).optional(),
        }),
        z.strictObject({ type: z.literal('missing'), binding: name, message: z.string() }),
      ]),
    )
    .optional(),
  versionMetadata: z.strictObject({ binding: name, tag: z.string().max(256) }).optional(),
  workerLoaders: z.array(z.strictObject({ binding: name })).optional(),
  containers: z
    .array(
      z.strictObject({
        className: name,
        image: name,
        memoryMb: z.int().min(1),
        cpu: z.int().min(1),
        instances: z.int().min(1),
      }),
    )
    .optional(),
  cpuMs: z.int().min(1).optional(),
  triggers: z
    .strictObject({
      crons: z.array(name),
      producers: z.array(z.strictObject({ binding: name, queue: name })),
      consumers: z.array(
        z.strictObject({
          queue: name,
          maxBatchSize: within('max_batch_size'),
          maxBatchTimeout: within('max_batch_timeout'),
          maxRetries: within('max_retries'),
          retryDelay: within('retry_delay'),
          maxConcurrency: within('max_concurrency'),
          deadLetterQueue: name.optional(),
        }),
      ),
    })
    .optional(),
  requiredSecrets: z.array(name).optional(),
  prefill: z
    .strictObject({
      kind: z.enum(['bucket', 'namespace']),
      binding: name,
      directory: z.literal(PREFILL),
      prefix: z.string().max(1024),
      files: z.int().min(1).max(MAX_ENTRIES),
    })
    .optional(),
  warnings: z.array(z.string()).optional(),
});

/**
 * Checks a bundle that was sent with files.
 * @param sentPaths paths of the upload's files
 * @throws {BuildFailure} naming a missing file or class, a misplaced module, a missing manifest of Workers Sites, a cache
 * without its binding or files, or Workflows that share a name or a class
 */
export function checkSentBundle(sent: z.output<typeof SentBundle>, sentPaths: ReadonlySet<string>): Bundle {
  const { worker, databases, durableObjects, workflows = [], exports } = sent;
  const paths = [...(worker?.modules ?? []), ...databases.flatMap(({ migrations }) => migrations)];
  const missing = paths.find((file) => !sentPaths.has(file.path));
  if (missing !== undefined)
    throw new BuildFailure(
      `the bundle names ${JSON.stringify(missing.path)}, but the upload has no part of that name`,
    );
  const elsewhere = worker?.modules.find(({ name, path }) => path !== `modules/${name}`);
  if (elsewhere !== undefined)
    throw new BuildFailure(`the module ${JSON.stringify(elsewhere.name)} must lie at modules/ and its name`);
  const { siteManifest } = sent.assets ?? {};
  if (siteManifest !== undefined && !worker?.modules.some(({ path }) => path === siteManifest))
    throw new BuildFailure(`the Worker has no module ${SITE_MANIFEST} with the keys of its site`);
  const unknown = [...durableObjects, ...workflows].find(({ className }) => !exports.includes(className));
  if (unknown !== undefined)
    throw new BuildFailure(
      `the binding ${unknown.binding}: the Worker does not export a class ${unknown.className}`,
    );
  checkPrefill(sent, [...sentPaths].filter((path) => path.startsWith(`${PREFILL}/`)).length);
  // Removes fields with the value `undefined`.
  const bundle = JSON.parse(JSON.stringify(sent)) as Bundle;
  refuseSharing('the bundle', bundle.workflows ?? []);
  return bundle;
}

function checkPrefill(
  { prefill, namespaces, buckets = [] }: z.output<typeof SentBundle>,
  sentFiles: number,
): void {
  const { files = 0, kind, binding } = prefill ?? {};
  if (sentFiles !== files)
    throw new BuildFailure(
      `the upload has ${sentFiles} of the files in ${PREFILL}/, and the bundle names ${files}: deploy again`,
    );
  const kinds = { namespace: namespaces, bucket: buckets };
  const found = Object.entries(kinds).filter(([, all]) => all.some((each) => each.binding === binding));
  if (prefill !== undefined && (found.length !== 1 || found[0]![0] !== kind))
    throw new BuildFailure(
      `the cache needs a ${kind} with the binding ${binding}, and no other binding of that name`,
    );
}
