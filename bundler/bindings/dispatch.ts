// Bindings to dispatch namespaces. Through such a binding a Worker calls the scripts in the namespace.
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { DispatchBinding } from '../release.ts';

/** A valid name of a dispatch namespace, as in `handlers/contract/apps/slug.ts`. */
export const DISPATCH_NAME = /^[A-Za-z0-9_-]{1,63}$/;
export const DISPATCH_NAME_RULE = 'must have 1 to 63 letters, digits, underscores and hyphens';
/** Maximum parameters of an outbound Worker. */
export const OUTBOUND_PARAMETERS_MAX = 100;
const OUTBOUND_RULE = `"outbound" must have the name of an app as "service", and a list of up to ${OUTBOUND_PARAMETERS_MAX} names as "parameters"`;

/**
 * Returns the bindings to dispatch namespaces.
 * @param file the configuration's name in messages
 * @throws {BuildFailure} for an invalid name of a namespace, an invalid outbound Worker, and bindings without a Worker
 */
export function dispatchBindings(
  file: string,
  { main, dispatch_namespaces: namespaces = [] }: Pick<WranglerConfig, 'main' | 'dispatch_namespaces'>,
): DispatchBinding[] {
  if (namespaces.length > 0 && main === undefined)
    throw new BuildFailure(`${file}: dispatch_namespaces: the project has no Worker; set "main" to its file`);
  return namespaces.map(({ binding, namespace, outbound }) => {
    const refuse = (why: string) => new BuildFailure(`${file}: dispatch_namespaces: ${binding}: ${why}`);
    if (!DISPATCH_NAME.test(namespace)) throw refuse(`"namespace" ${DISPATCH_NAME_RULE}`);
    if (outbound === undefined) return { binding, namespace };
    const { service, parameters = [] } = outbound;
    if (typeof service !== 'string' || !isNames(parameters)) throw refuse(OUTBOUND_RULE);
    return { binding, namespace, outbound: { service, parameters } };
  });
}

function isNames(parameters: unknown): boolean {
  return (
    Array.isArray(parameters) &&
    parameters.length <= OUTBOUND_PARAMETERS_MAX &&
    parameters.every((name) => typeof name === 'string')
  );
}
