// Decides which secrets of an app its release uses, and for what.
import type { Outward, Release } from '../release.ts';

/**
 * Returns two lists: the secrets that a release's Worker gets, and the secrets whose name another binding has. A secret
 * replaces a variable. Secrets of Hyperdrive bindings are in neither list: the bindings use them.
 * @param names of all secrets of the app
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

/** Connection strings that a Hyperdrive binding can use, for messages. */
export const CONNECTION_STRING = 'postgres://user:password@db.example.com/name or mysql://…';
const DATABASES = ['postgres:', 'postgresql:', 'mysql:'];

/** Returns whether a text is a connection string for Hyperdrive, by the same rule as `hyperdrive-module.js`. */
export function isConnectionString(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && DATABASES.includes(url.protocol) && url.hostname !== '';
}

/** Returns the Hyperdrive bindings: each takes its connection string from the secret of its name. */
export function hyperdriveNames(outward: Outward[] = []): string[] {
  return outward.filter(({ type }) => type === 'hyperdrive').map(({ binding }) => binding);
}
