// Bindings to dispatch namespaces in a cell. Calls of scripts go to the host, through a socket of the calling app alone.

import type { Release } from '../../../../bundler/release.ts';
import type { CapnpValue, Fields } from '../capnp.ts';
import { externalService } from '../services.ts';
import { type CellModule, textOf } from '../texts.ts';

/** By this the host knows what a script fetches. */
const OUTBOUND = 'outbound';
/** The name of that service. */
export const OUTBOUND_SERVICE = `service ${OUTBOUND}`;
const MODULE: CellModule = {
  name: 'cellar-internal:dispatch',
  text: textOf('./dispatch/dispatch-module.js'),
};

/** The bindings of the app's Worker. */
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

/** The module behind the bindings. */
export function dispatchModules({ dispatchNamespaces = [] }: Release): Fields[] {
  return dispatchNamespaces.length === 0
    ? []
    : [{ name: MODULE.name, internal: true, esModule: MODULE.text }];
}

/** The services behind the bindings. @param socket where the host takes the app's calls */
export function dispatchServices({ dispatchNamespaces = [] }: Release, socket: string): CapnpValue[] {
  return dispatchNamespaces.map((_, index) => externalService(wayOf(index), socket));
}

/** The service that takes what a script fetches, for its outbound Worker. It refuses `connect()`. @param socket as above */
export function outboundService(socket: string): CapnpValue {
  return externalService(OUTBOUND, socket);
}

/** By this the host knows the binding. @param index its number */
function wayOf(index: number): string {
  return `dispatch ${index}`;
}
