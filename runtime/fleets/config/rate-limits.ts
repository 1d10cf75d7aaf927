// Rate limits in a cell: Cellar's own module in the app's process, and a binding for each limit.
import { readFileSync } from 'node:fs';
import type { Release } from '../../../bundler/release.ts';
import type { CapnpValue, Fields } from './capnp.ts';

const MODULE = 'cellar-internal:rate-limit';
/** The module's text: part of a config that has a limit. */
export const RATE_LIMIT_MODULE = readFileSync(
  new URL('./modules/rate-limit-module.js', import.meta.url),
  'utf8',
);

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
