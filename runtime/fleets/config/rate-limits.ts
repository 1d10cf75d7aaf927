// Rate limits in a cell: Cellar's own module in the app's process, and a binding for each limit.
import type { Release } from '../../../bundler/release.ts';
import type { CapnpValue, Fields } from './capnp.ts';
import { textOf } from './texts.ts';

const MODULE = 'cellar-internal:rate-limit';
const RATE_LIMIT_MODULE = textOf('./modules/rate-limit-module.js');

/** The modules for rate limits; empty without a limit. */
export function rateLimitModules({ rateLimits = [] }: Release): Fields[] {
  return rateLimits.length === 0 ? [] : [{ name: MODULE, internal: true, esModule: RATE_LIMIT_MODULE }];
}

/** The bindings of the app's Worker. */
export function rateLimitBindings({ rateLimits = [] }: Release): CapnpValue[] {
  return rateLimits.map(({ binding, ...settings }) => ({
    name: binding,
    wrapped: {
      moduleName: MODULE,
      innerBindings: [{ name: 'settings', json: JSON.stringify(settings) }],
    },
  }));
}
