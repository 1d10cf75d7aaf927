// Bindings to dispatch namespaces, by which a Worker calls the scripts in them.
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { DispatchBinding } from '../release.ts';

/** The name of a dispatch namespace, as in `handlers/contract/apps/slug.ts`. */
export const DISPATCH_NAME = /^[A-Za-z0-9_-]{1,63}$/;
export const DISPATCH_NAME_RULE = 'must have 1 to 63 letters, digits, underscores and hyphens';
/** Why a binding with an outbound Worker is refused. */
export const NO_OUTBOUND =
  '"outbound" is not available on this Cellar: the scripts reach the internet themselves; leave it out';

/**
 * Returns the bindings to dispatch namespaces.
 * @param file the configuration's name in messages
 * @throws {BuildFailure} for a name that no namespace has, for an outbound Worker, and where there is no Worker
 */
export function dispatchBindings(
  file: string,
  { main, dispatch_namespaces: namespaces = [] }: Pick<WranglerConfig, 'main' | 'dispatch_namespaces'>,
): DispatchBinding[] {
  if (namespaces.length > 0 && main === undefined)
    throw new BuildFailure(`${file}: dispatch_namespaces: there is no Worker; set "main" to one`);
  return namespaces.map(({ binding, namespace, outbound }) => {
    const refuse = (why: string) => new BuildFailure(`${file}: dispatch_namespaces: ${binding}: ${why}`);
    if (!DISPATCH_NAME.test(namespace)) throw refuse(`"namespace" ${DISPATCH_NAME_RULE}`);
    if (outbound !== undefined) throw refuse(NO_OUTBOUND);
    return { binding, namespace };
  });
}
