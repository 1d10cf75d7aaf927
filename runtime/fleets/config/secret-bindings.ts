// Secrets of an app: workerd's config has their names, and the process's environment their values. The config is on disk;
// only the process's own user can read the environment.
import type { Fields } from './capnp.ts';

/**
 * Returns the environment of a process with these secrets. Its variables are numbered, because the name of a secret could be
 * that of a variable with a meaning, such as `PATH`.
 */
export function secretEnvironment(secrets: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.values(secrets).map((value, n) => [variable(n), value]));
}

/**
 * Returns the bindings of secrets.
 * @param given the names of the secrets to bind
 * @param names the names of all secrets, ordered as in the environment
 */
export function secretBindings(given: string[], names: string[]): Fields[] {
  return given.map((name) => ({ name, ...fromSecret(name, names) }));
}

/** Returns a binding's value that reads a secret from the environment. @param names as in `secretBindings` */
export function fromSecret(name: string, names: string[]): Fields {
  return { fromEnvironment: variable(names.indexOf(name)) };
}

function variable(n: number): string {
  return `SECRET_${n}`;
}
