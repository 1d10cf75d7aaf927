// The modules that every Worker is entered by, before its own: what Cellar does around an app's code is in there.
import { readFileSync } from 'node:fs';
import type { Release } from '../../../bundler/release.ts';

/** The entry's name, beside the config and as a module. */
export const ENTRY = 'cellar-entry.js';
/** The name of the module that tells what goes wrong, beside the entry. */
export const CAPTURE = 'cellar-capture.js';
const ENTRY_WORKER = read('entry-worker.js');
/** The text of `CAPTURE`. */
export const CAPTURE_WORKER = read('capture-worker.js');
/** What both depend on besides a release. */
export const ENTRY_TEXTS = [ENTRY_WORKER, CAPTURE_WORKER];

/** What the entry exports for the host: an app's export of the same name is hidden by it. */
const OWN_EXPORTS = ['default', 'CellarState', 'CellarCache'];

/**
 * The entry of a release's Worker. It exports what the app's module does. What the release names is wrapped; a release
 * of before, which names nothing, has its default export wrapped alone.
 */
export function entryModule(worker: NonNullable<Release['worker']>, exports: string[] = []): string {
  const app = JSON.stringify(`./${worker.modules[0]!.name}`);
  const wrapped = exports
    .filter((name) => !OWN_EXPORTS.includes(name))
    .map((name, index) => {
      const quoted = JSON.stringify(name);
      return `const entry${index} = wrap(app[${quoted}]);\nexport { entry${index} as ${quoted} };\n`;
    });
  return ENTRY_WORKER.replaceAll("'cellar-app-entry'", () => app) + wrapped.join('');
}

function read(name: string): string {
  return readFileSync(new URL(`./${name}`, import.meta.url), 'utf8');
}
