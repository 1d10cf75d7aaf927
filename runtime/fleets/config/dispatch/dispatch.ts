// Bindings to dispatch namespaces in a cell (an app's workerd process). Calls of scripts go to the host, through a socket
// that only the calling app has.

import type { Release } from '../../../../bundler/release.ts';
import type { CapnpValue, Fields } from '../capnp.ts';
import { externalService } from '../services.ts';
import { type CellModule, textOf } from '../texts.ts';

/** The header value of `externalService` by which the host recognises a script's outgoing requests. */
const OUTBOUND = 'outbound';
/** The name of the service that takes a script's outgoing requests. */
export const OUTBOUND_SERVICE = `service ${OUTBOUND}`;
const MODULE: CellModule = {
  name: 'cellar-internal:dispatch',
  text: textOf('./dispatch/dispatch-module.js'),
};

export function dispatchBindingsOf({ dispatchNamespaces = [] }: Release): CapnpValue[] {
  return dispatchNamespaces.map(({ binding, outbound }, index) => ({
    name: binding,
    wrapped: {
      moduleName: MODULE.name,
      innerBindings: [
        { name: 'scripts', service: `service ${wayOf(index)}` },
        { name: 'parameters', json: JSON.stringify(outbound?.parameters ?? null) },
      ],
    },
  }));
}

export function dispatchModules({ dispatchNamespaces = [] }: Release): Fields[] {
  return dispatchNamespaces.length === 0
    ? []
    : [{ name: MODULE.name, internal: true, esModule: MODULE.text }];
}

/** Returns the services behind the bindings. @param socket path at which the host accepts the app's calls */
export function dispatchServices({ dispatchNamespaces = [] }: Release, socket: string): CapnpValue[] {
  return dispatchNamespaces.map((_, index) => externalService(wayOf(index), socket));
}

/**
 * Returns the service that takes a script's outgoing requests. It refuses `connect()`.
 * @param socket as in `dispatchServices`
 */
export function outboundService(socket: string): CapnpValue {
  return externalService(OUTBOUND, socket);
}

/**
 * Returns the header value of `externalService` by which the host recognises a binding.
 * @param index the binding's number
 */
function wayOf(index: number): string {
  return `dispatch ${index}`;
}
