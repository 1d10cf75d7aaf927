// Secrets in a cell: the config names them, and their values are in the environment of the process. The config lies on the
// disk; the environment can be read by the process's own user alone.
import type { Outward, Release } from '../../../bundler/release.ts';
import type { Fields } from './capnp.ts';

/** The environment of a process whose Worker has these secrets. Names of theirs could mean something to programs. */
export function secretEnvironment(secrets: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.values(secrets).map((value, n) => [variable(n), value]));
}

/** The bindings of those of the secrets that the Worker gets, by name. @param names of all of them, in their order */
export function secretBindings(given: string[], names: string[]): Fields[] {
  return given.map((name) => ({ name, ...fromSecret(name, names) }));
}

/** The environment variable that has a secret, as a binding of a config. @param names of all of them, in their order */
export function fromSecret(name: string, names: string[]): Fields {
  return { fromEnvironment: variable(names.indexOf(name)) };
}

function variable(n: number): string {
  return `SECRET_${n}`;
}

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
