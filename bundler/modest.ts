// How large the description of a release may be: the host reads it whole.
import { BuildFailure } from './failure.ts';
import { BUNDLE_BYTES } from './limits.ts';
import type { Bundle } from './release.ts';

/** Bindings of each kind. */
const BINDINGS = 1_000;

/** Refuses a bundle whose description is too large to be read whole by the host. */
export function requireModest(bundle: Bundle): void {
  for (const [kind, list] of Object.entries({
    'Durable Object bindings': bundle.durableObjects,
    'class migrations': bundle.classMigrations,
    'D1 databases': bundle.databases,
    'KV namespaces': bundle.namespaces,
    'required secrets': bundle.requiredSecrets ?? [],
    'R2 buckets': bundle.buckets ?? [],
    Workflows: bundle.workflows ?? [],
    'rate limits': bundle.rateLimits ?? [],
    'service bindings': bundle.services ?? [],
    'bindings to what lies outside': bundle.outward ?? [],
  })) {
    if (list.length > BINDINGS)
      throw new BuildFailure(`the project has ${list.length} ${kind}, more than the ${BINDINGS} it may have`);
  }
  const bytes = Buffer.byteLength(JSON.stringify(bundle));
  if (bytes > BUNDLE_BYTES)
    throw new BuildFailure(
      `the names of the project's modules, migrations, variables and exports take ${Math.ceil(bytes / 1024)} KiB, more than the ${BUNDLE_BYTES / 1024} KiB they may`,
    );
}
