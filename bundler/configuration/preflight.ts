// Finds faults of a Wrangler configuration before any command of the project has run.
import { classMigrations, objectsElsewhere } from '../bindings/classes.ts';
import { dispatchBindings } from '../bindings/dispatch.ts';
import { mtlsBindings } from '../bindings/mtls-certificates.ts';
import { rateLimits } from '../bindings/rate-limits.ts';
import { storeSecretBindings } from '../bindings/secrets-store.ts';
import { serviceBindings, tailConsumers } from '../bindings/services.ts';
import { triggers } from '../bindings/triggers.ts';
import { workflows } from '../bindings/workflows.ts';
import { BuildFailure } from '../failure.ts';
import { entryPath } from '../modules/entry.ts';
import { insidePath, show } from '../project/path-containment.ts';
import type { Bundle } from '../release.ts';
import { supportedDate } from './compatibility-date.ts';
import type { ReadConfig } from './wrangler-config.ts';
import { NO_PYTHON } from './wrangler-words.ts';

/**
 * A configuration's references to other apps of the owner: services, classes of Durable Objects, outbound Workers, tail
 * Workers, and queues.
 */
export type NamedOutside = Pick<
  Bundle,
  'services' | 'objectsElsewhere' | 'dispatchNamespaces' | 'tailConsumers' | 'triggers'
>;

/**
 * Refuses a configuration with which no build can succeed, so that the deploy fails before the install. Returns the
 * references to other apps.
 * @param root real path of the project
 * @param isWhole whether no command of the project can still write files or the configuration
 * @throws {BuildFailure} as bundling would
 */
export function preflight(root: string, { config, file, base }: ReadConfig, isWhole: boolean): NamedOutside {
  const { main, assets, site, compatibility_date: date } = config;
  if (date !== undefined) supportedDate(date, `${file}: `, []);
  if (main !== undefined) refusePython(root, main);
  classMigrations(file, config);
  rateLimits(file, config);
  workflows(file, config, null);
  // A framework's build may still add a Worker, so a missing `main` is no fault yet.
  const meant = isWhole ? config : { ...config, main: main ?? '' };
  storeSecretBindings(file, meant);
  mtlsBindings(file, meant);
  const calls = triggers(file, meant, []);
  const named = {
    services: serviceBindings(file, meant, null),
    objectsElsewhere: objectsElsewhere(file, meant),
    dispatchNamespaces: dispatchBindings(file, meant),
    tailConsumers: tailConsumers(file, meant),
    ...(calls !== null && { triggers: calls }),
  };
  if (!isWhole) return named;
  if (main === undefined && assets?.directory === undefined) throw emptyConfiguration(file);
  // Files in packages exist only after the install.
  const isInstalled = (path: string) => path.split('/').includes('node_modules');
  if (main !== undefined && !isInstalled(main)) entryPath(root, base, main, `${file}: main`);
  if (assets?.directory !== undefined && !isInstalled(assets.directory))
    insidePath(root, base, assets.directory, `${file}: assets.directory`);
  if (site !== undefined && !isInstalled(site.bucket))
    insidePath(root, base, site.bucket, `${file}: site.bucket`);
  return named;
}

/** Refuses a Worker in Python. @param main absolute path of the Worker's entry @throws {BuildFailure} */
export function refusePython(root: string, main: string): void {
  if (main.endsWith('.py')) throw new BuildFailure(`${show(root, main)}: ${NO_PYTHON}`);
}

/** Returns the failure of a configuration that names neither a Worker nor assets. */
export function emptyConfiguration(file: string): BuildFailure {
  return new BuildFailure(
    `${file}: nothing to deploy: set "main" to a Worker or "assets.directory" to static files`,
  );
}
