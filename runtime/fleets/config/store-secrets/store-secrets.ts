// Bindings to secrets of the account's Secrets Store. The values come from the host, through a socket that only the app has.
import type { Release } from '../../../../bundler/release.ts';
import type { CapnpValue, Fields } from '../capnp.ts';
import { externalService } from '../services.ts';
import { type CellModule, textOf } from '../texts.ts';

const MODULE: CellModule = {
  name: 'cellar-internal:store-secret',
  text: textOf('./store-secrets/store-secret-module.js'),
};

export function storeSecretBindingsOf({ storeSecrets = [] }: Release): CapnpValue[] {
  return storeSecrets.map(({ binding, secret }, index) => ({
    name: binding,
    wrapped: {
      moduleName: MODULE.name,
      innerBindings: [
        { name: 'host', service: `service ${wayOf(index)}` },
        { name: 'name', text: secret },
      ],
    },
  }));
}

export function storeSecretModules({ storeSecrets = [] }: Release): Fields[] {
  return storeSecrets.length === 0 ? [] : [{ name: MODULE.name, internal: true, esModule: MODULE.text }];
}

/** Returns the services behind the bindings. @param socket path at which the host accepts the app's calls */
export function storeSecretServices({ storeSecrets = [] }: Release, socket: string): CapnpValue[] {
  return storeSecrets.map((_, index) => externalService(wayOf(index), socket));
}

/**
 * Returns the header value of `externalService` by which the host recognises a binding.
 * @param index the binding's number
 */
function wayOf(index: number): string {
  return `secret ${index}`;
}
