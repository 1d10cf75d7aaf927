// The service bindings of a Wrangler configuration: to the project's own Worker, to other apps of the same owner, or to
// Cellar itself. Also the apps that receive the Worker's tail events.

import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { ServiceBinding } from '../release.ts';

/** The service that Cellar itself offers. No app can have its name. */
export const CELLAR = 'cellar';

/**
 * Returns the service bindings. wrangler has checked their shapes.
 * @param file the configuration's name in messages
 * @param exports the names that the project's Worker exports; null while they are not known yet
 * @throws {BuildFailure} for an entrypoint that the project's own Worker does not export, and for bindings without a Worker
 */
export function serviceBindings(
  file: string,
  { name: own, main, services = [] }: WranglerConfig,
  exports: string[] | null,
): ServiceBinding[] {
  if (services.length > 0 && main === undefined)
    throw new BuildFailure(`${file}: services: the project has no Worker; set "main" to its file`);
  return services.map(({ binding, service, entrypoint, props }) => {
    const isOwn = service === own && service !== CELLAR;
    if (service === CELLAR && entrypoint !== undefined)
      throw new BuildFailure(
        `${file}: services: ${binding}: the service ${CELLAR} has no entrypoint ${entrypoint}; leave "entrypoint" out`,
      );
    if (isOwn && entrypoint !== undefined && exports?.includes(entrypoint) === false)
      throw new BuildFailure(`${file}: services: ${binding}: the Worker does not export ${entrypoint}`);
    return {
      binding,
      service: isOwn ? null : service,
      ...(entrypoint !== undefined && { entrypoint }),
      ...(props !== undefined && { props }),
    };
  });
}

/** Returns the apps whose `tail()` gets the Worker's events. @throws {BuildFailure} for such apps without a Worker */
export function tailConsumers(
  file: string,
  { main, tail_consumers: consumers = [] }: Pick<WranglerConfig, 'main' | 'tail_consumers'>,
): string[] {
  if (consumers.length > 0 && main === undefined)
    throw new BuildFailure(`${file}: tail_consumers: the project has no Worker; set "main" to its file`);
  return [...new Set(consumers.map(({ service }) => service))];
}
