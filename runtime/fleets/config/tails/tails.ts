// Tail Workers: workerd gives the events of the app's Worker to a Worker of Cellar in the same process. Cellar's Worker
// sends the events to the apps with the tail Workers.

import type { Release } from '../../../../bundler/release.ts';
import { uuidOf } from '../../../../handlers/contract/id.ts';
import { SERVICE_DATE } from '../bundled-services.ts';
import type { CapnpValue, Fields } from '../capnp.ts';
import { externalService } from '../services.ts';
import { textOf } from '../texts.ts';

const TAILS = 'tails';
/** The socket where the host asks for the waiting events to be sent, before it ends the process. */
export const TAILS_SOCKET = 'tails';
const TAILS_WORKER = textOf('./tails/tails-worker.js');

/** Returns the field `tails` of the app's Worker; empty for an app without tail Workers. */
export function tailsField({ tailConsumers = [] }: Release): Fields {
  return tailConsumers.length === 0 ? {} : { tails: [TAILS] };
}

/** Returns the config of `TAILS_SOCKET`; empty without tail Workers. */
export function tailsSockets({ tailConsumers = [] }: Release): Fields[] {
  return tailConsumers.length === 0 ? [] : [{ name: TAILS_SOCKET, http: {}, service: TAILS }];
}

/**
 * Returns the services that send the events; empty without tail Workers.
 * @param socket path at which the host accepts calls
 */
export function tailsServices(
  { deployId, tailConsumers = [], versionMetadata }: Release,
  socket: string,
): CapnpValue[] {
  if (tailConsumers.length === 0) return [];
  const { id = deployId, tag } = versionMetadata ?? {};
  const version = { id: uuidOf(id), ...(tag && { tag }) };
  const ways = [...tailConsumers.keys()].map((index) => `tail ${index}`);
  return [
    {
      name: TAILS,
      worker: {
        modules: [{ name: 'tails.js', esModule: TAILS_WORKER }],
        compatibilityDate: SERVICE_DATE,
        bindings: [
          { name: 'CONSUMERS', json: JSON.stringify(tailConsumers) },
          { name: 'VERSION', json: JSON.stringify(version) },
          ...ways.map((way) => ({ name: way, service: `service ${way}` })),
        ],
      },
    },
    ...ways.map((way) => externalService(way, socket)),
  ];
}
