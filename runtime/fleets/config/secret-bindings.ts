// Secrets of an app: workerd's config has their names, and the process's environment their values. The config is on disk;
// only the process's own user can read the environment.
import type { Fields } from './capnp.ts';

/**
 * The environment of a process with these secrets. Its variables are numbered, because the name of a secret could mean
 * something to programs.
 */
export function secretEnvironment(secrets: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.values(secrets).map((value, n) => [variable(n), value]));
}

/** The bindings of the Worker's secrets. @param names of all secrets of the app, in order */
export function secretBindings(given: string[], names: string[]): Fields[] {
  return given.map((name) => ({ name, ...fromSecret(name, names) }));
}

/** A config's binding to the environment variable of a secret. @param names of all secrets of the app, in order */
export function fromSecret(name: string, names: string[]): Fields {
  return { fromEnvironment: variable(names.indexOf(name)) };
}

function variable(n: number): string {
  return `SECRET_${n}`;
}
