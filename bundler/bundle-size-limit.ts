// Limits the size of a release's description (`RELEASE_FILE`), because the host reads the whole file into memory.
import { BuildFailure } from './failure.ts';
import { BUNDLE_BYTES, BUNDLE_DEPTH, BUNDLE_VALUES } from './limits.ts';
import type { Bundle } from './release.ts';

/** Maximum bindings of each kind, except the kinds below. Also the maximum of class migrations and of required secrets. */
const BINDINGS = 1_000;
/** Maximum bindings to secrets of Secrets Stores: an account may have no more secrets. */
const STORE_SECRETS = 100;
/** Maximum client certificates. workerd gets each private key on a descriptor from 4 on; shells open only up to 9. */
const MTLS_CERTIFICATES = 6;
/** Maximum keys and indexes in the path that names a value in a message, such as `env.staging.vars.NAME`. */
const NAMED_KEYS = 4;
/** Maximum tail Workers, as on Cloudflare: each of them gets every event. */
const TAIL_CONSUMERS = 10;
/** Maximum characters of a send_email binding's JSON, which is sent with each e-mail. */
const MAIL_BINDING_LENGTH = 32 * 1024;

/** Checks the size of a bundle's description. @throws {BuildFailure} naming the exceeded limit */
export function requireBundleSize(bundle: Bundle): void {
  for (const [kind, list] of Object.entries({
    'Durable Object bindings': bundle.durableObjects,
    'class migrations': bundle.classMigrations,
    'D1 databases': bundle.databases,
    'KV namespaces': bundle.namespaces,
    'required secrets': bundle.requiredSecrets ?? [],
    'R2 buckets': bundle.buckets ?? [],
    'vector indexes': bundle.vectorIndexes ?? [],
    Workflows: bundle.workflows ?? [],
    containers: bundle.containers ?? [],
    'rate limits': bundle.rateLimits ?? [],
    'service bindings': bundle.services ?? [],
    'bindings to dispatch namespaces': bundle.dispatchNamespaces ?? [],
    'bindings to Durable Objects of other apps': bundle.objectsElsewhere ?? [],
    'bindings to services outside of the app': bundle.outward ?? [],
  })) {
    if (list.length > BINDINGS)
      throw new BuildFailure(`the project has ${list.length} ${kind}; at most ${BINDINGS} are allowed`);
  }
  const { storeSecrets = [], mtlsCertificates = [], tailConsumers = [] } = bundle;
  if (storeSecrets.length > STORE_SECRETS)
    throw new BuildFailure(
      `the project has ${storeSecrets.length} secrets_store_secrets; at most ${STORE_SECRETS} are allowed`,
    );
  if (mtlsCertificates.length > MTLS_CERTIFICATES)
    throw new BuildFailure(
      `the project has ${mtlsCertificates.length} mtls_certificates; at most ${MTLS_CERTIFICATES} are allowed`,
    );
  if (tailConsumers.length > TAIL_CONSUMERS)
    throw new BuildFailure(
      `the project has ${tailConsumers.length} tail Workers; at most ${TAIL_CONSUMERS} are allowed`,
    );
  for (const bound of bundle.outward ?? [])
    if (bound.type === 'send_email' && JSON.stringify(bound).length > MAIL_BINDING_LENGTH)
      throw new BuildFailure(
        `the addresses of the send_email binding ${bound.binding} have more than ${MAIL_BINDING_LENGTH} characters in all; name fewer`,
      );
  const { values, depth } = measureValues(bundle);
  refuseDepth(bundle, depth, '');
  if (values > BUNDLE_VALUES)
    throw new BuildFailure(
      `the project's modules, migrations, variables, rules and exports have ${values} names and values in all; at most ${BUNDLE_VALUES} are allowed`,
    );
  const bytes = Buffer.byteLength(JSON.stringify(bundle));
  if (bytes > BUNDLE_BYTES)
    throw new BuildFailure(
      `the project's asset rules, and the names of its modules, migrations, variables and exports, have ${Math.ceil(bytes / 1024)} KiB in all; at most ${BUNDLE_BYTES / 1024} KiB are allowed`,
    );
}

/**
 * Checks that the values of a configuration are not nested too deeply.
 * @param prefix of the message
 * @throws {BuildFailure} naming the key and the limit
 */
export function requireDepth(config: unknown, prefix = ''): void {
  refuseDepth(config, measureValues(config).depth, prefix);
}

function refuseDepth(root: unknown, depth: number, prefix: string): void {
  if (depth > BUNDLE_DEPTH)
    throw new BuildFailure(
      `${prefix}${keyOfDeepest(root, depth)}: a value is nested ${depth} levels deep; at most ${BUNDLE_DEPTH} are allowed`,
    );
}

/** Returns the keys that lead to the deepest value, such as `vars.NAME`. @param depth of `root`, more than `NAMED_KEYS` */
function keyOfDeepest(root: unknown, depth: number): string {
  const keys: string[] = [];
  for (let value = root; keys.length < NAMED_KEYS; ) {
    const below = depth - keys.length - 1;
    const [key, inside] = Object.entries(value as object).find(
      ([, each]) => measureValues(each).depth === below,
    )!;
    keys.push(key);
    value = inside;
  }
  return keys.join('.').replace(/(\.\d+)+$/, '');
}

/** Counts values and property names, at any depth, and the levels of nested values. */
function measureValues(root: unknown): { values: number; depth: number } {
  let values = 0;
  let depth = 0;
  for (let level = [root]; level.length > 0; depth++) {
    values += level.length;
    level = level.flatMap((value) => {
      if (typeof value !== 'object' || value === null) return [];
      const inside: unknown[] = Object.values(value);
      if (!Array.isArray(value)) values += inside.length;
      return inside;
    });
  }
  return { values, depth };
}
