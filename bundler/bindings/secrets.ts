// Which secrets of an app its release takes, and for what.
import type { Outward, Release } from '../release.ts';

/**
 * Which secrets a release's Worker gets: all but those whose names its other bindings have. A variable gives way. Those of
 * Hyperdrive bindings are in neither list: the bindings tell them.
 * @param names of all secrets of the app
 */
export function dividedSecrets(
  {
    durableObjects,
    databases,
    namespaces,
    buckets = [],
    workflows = [],
    rateLimits = [],
    services = [],
    outward = [],
    triggers,
    assets,
    versionMetadata,
  }: Release,
  names: string[],
): { given: string[]; taken: string[] } {
  const bindings = new Set(
    [
      ...durableObjects,
      ...databases,
      ...namespaces,
      ...buckets,
      ...(triggers?.producers ?? []),
      ...workflows,
      ...rateLimits,
      ...services,
      ...outward,
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

/** Values of a secret that a Hyperdrive binding can use, as messages name them. */
export const CONNECTION_STRING = 'postgres://user:password@db.example.com/name or mysql://…';
const DATABASES = ['postgres:', 'postgresql:', 'mysql:'];

/** Returns whether a Hyperdrive binding can use a text, as `hyperdrive-module.js` decides when it is used. */
export function isConnectionString(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && DATABASES.includes(url.protocol) && url.hostname !== '';
}

/** The Hyperdrive bindings: each takes its connection string from the secret of its name. */
export function hyperdriveNames(outward: Outward[] = []): string[] {
  return outward.filter(({ type }) => type === 'hyperdrive').map(({ binding }) => binding);
}
