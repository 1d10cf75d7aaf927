// Is imported in place of `cloudflare:workers` by modules that use the `waitUntil` of that: the entry learns of their work.

import { waitUntil as wait } from 'cloudflare:workers';
import { imported } from './cellar-capture.js';

export * from 'cloudflare:workers';

export function waitUntil(promise) {
  imported.waitUntil(promise);
  return wait(promise);
}
