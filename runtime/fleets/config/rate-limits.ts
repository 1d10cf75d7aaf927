// Rate limits in workerd's config: Cellar's own module in the app's process, and a binding for each limit.
import type { Release } from '../../../bundler/release.ts';
import type { CapnpValue, Fields } from './capnp.ts';
import { textOf } from './texts.ts';

const MODULE = 'cellar-internal:rate-limit';
const RATE_LIMIT_MODULE = textOf('./modules/rate-limit-module.js');

export function rateLimitModules({ rateLimits = [] }: Release): Fields[] {
  return rateLimits.length === 0 ? [] : [{ name: MODULE, internal: true, esModule: RATE_LIMIT_MODULE }];
}

export function rateLimitBindings({ rateLimits = [] }: Release): CapnpValue[] {
  return rateLimits.map(({ binding, ...settings }) => ({
    name: binding,
    wrapped: {
      moduleName: MODULE,
      innerBindings: [{ name: 'settings', json: JSON.stringify(settings) }],
    },
  }));
}
