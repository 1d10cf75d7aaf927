// Replaces `cloudflare:workers` in modules that import its `waitUntil`, so that Cellar's entry module can count the tasks.

import { waitUntil as wait } from 'cloudflare:workers';
import { imported } from './cellar-capture.js';

export * from 'cloudflare:workers';

export function waitUntil(promise) {
  imported.waitUntil(promise);
  return wait(promise);
}
