// Decides which secrets of an app the Worker gets, and which a Hyperdrive binding uses.
import type { Outward, Release } from '../release.ts';

/**
 * Sorts the secrets of an app. `given`: the Worker gets these; each replaces a variable of the same name. `taken`: a
 * binding has the same name, so the Worker does not get these. Secrets of Hyperdrive bindings are in neither list.
 * @param names the names of all secrets of the app
 */
export function dividedSecrets(
  {
    durableObjects,
    databases,
    namespaces,
    buckets = [],
    vectorIndexes = [],
    workflows = [],
    rateLimits = [],
    services = [],
    dispatchNamespaces = [],
    storeSecrets = [],
    mtlsCertificates = [],
    outward = [],
    triggers,
    assets,
    versionMetadata,
    workerLoaders = [],
  }: Release,
  names: string[],
): { given: string[]; taken: string[] } {
  const bindings = new Set(
    [
      ...durableObjects,
      ...databases,
      ...namespaces,
      ...buckets,
      ...vectorIndexes,
      ...(triggers?.producers ?? []),
      ...workflows,
      ...rateLimits,
      ...services,
      ...dispatchNamespaces,
      ...storeSecrets,
      ...mtlsCertificates,
      ...outward,
      ...workerLoaders,
      assets,
      versionMetadata,
    ].map((each) => each?.binding),
  );
  const hyperdrives = new Set(hyperdriveNames(outward));
  return {
    given: names.filter((name) => !bindings.has(name)),
    taken: names.filter((name) => bindings.has(name) && !hyperdrives.has(name)),
  };
}

/** Examples of connection strings for a Hyperdrive binding, for messages. */
export const CONNECTION_STRING = 'postgres://user:password@db.example.com/name or mysql://…';
const DATABASES = ['postgres:', 'postgresql:', 'mysql:'];

/** Returns whether a text is a connection string for Hyperdrive, by the same rule as `hyperdrive-module.js`. */
export function isConnectionString(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && DATABASES.includes(url.protocol) && url.hostname !== '';
}

/** Returns the names of the Hyperdrive bindings. The connection string of each is the secret of the same name. */
export function hyperdriveNames(outward: Outward[] = []): string[] {
  return outward.filter(({ type }) => type === 'hyperdrive').map(({ binding }) => binding);
}
