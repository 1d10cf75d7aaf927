// Secrets in a cell: the config names them, and their values are in the environment of the process. The config lies on the
// disk; the environment can be read by the process's own user alone.
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
