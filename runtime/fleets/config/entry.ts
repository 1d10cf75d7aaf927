// The modules loaded before every Worker's own. They hold what Cellar does around an app's code.
import { readFileSync } from 'node:fs';
import type { Release } from '../../../bundler/release.ts';
import { FROM_ENV, READ_OF_UNDEFINED } from '../../telemetry/errors/missing-bindings.ts';

/** The entry's file name beside the config, and its module name. */
export const ENTRY = 'cellar-entry.js';
/** The module that runs the app's code in events, beside the entry. */
export const CAPTURE = 'cellar-capture.js';
const ENTRY_WORKER = read('./workers/entry-worker.js');
/** The text of `CAPTURE`. */
export const CAPTURE_WORKER = read('./workers/capture-worker.js');
/** The module that reports errors, beside the entry. */
export const ERROR_REPORTER = 'cellar-error-reporter.js';
/** The text of `ERROR_REPORTER`. */
export const ERROR_REPORTER_WORKER = read('./workers/error-reporter-worker.js');
/** The module that knows which event the running code belongs to, beside the entry. */
export const EVENTS = 'cellar-events.js';
/** The text of `EVENTS`. */
export const EVENTS_WORKER = read('./workers/events-worker.js');
/** The module with the error page, beside the entry. */
export const PAGE = 'cellar-page.js';
const PAGE_WORKER = read('./workers/page-worker.js');
/** The module that splits SQL into statements, beside `D1`. */
export const STATEMENTS = 'cellar-sql-statements.js';
/** The text of `STATEMENTS`. */
export const STATEMENTS_WORKER = read('../../../sqlite/statements.js');
/** The module that implements D1 in an app's process. */
export const D1 = 'cellar-d1.js';
/** The text of `D1`. */
export const D1_WORKER = read('./workers/d1-worker.js');
/** The module that reloads pages when the app has changed, beside the entry. */
export const RELOAD = 'cellar-reload.js';
/** The text of `RELOAD`. */
export const RELOAD_WORKER = read('./workers/reload-worker.js');
/** The module that replaces `cloudflare:workers`. Its name has the same length, so that later source positions stay the same. */
export const WORKERS = 'cellar-worker.js';
/** The text of `WORKERS`. */
export const WORKERS_MODULE = read('./modules/workers-module.js');
/** The module that counts running Workflow steps, beside the entry. */
export const STEPS = 'cellar-steps.js';
/** The text of `STEPS`. */
export const STEPS_WORKER = read('./workers/steps-worker.js');
/** The module that answers other apps, beside the entry. */
export const CALLED = 'cellar-called.js';
/** The text of `CALLED`. */
export const CALLED_WORKER = read('./workers/called-worker.js');
/** All files of the entry, except what depends on a release. */
export const ENTRY_TEXTS = [
  ENTRY_WORKER,
  CAPTURE_WORKER,
  ERROR_REPORTER_WORKER,
  EVENTS_WORKER,
  CALLED_WORKER,
  PAGE_WORKER,
  STATEMENTS_WORKER,
  D1_WORKER,
  STEPS_WORKER,
  WORKERS_MODULE,
];

const WORKERS_IMPORT = /(\bfrom\s*|\bimport\s+)(["'])cloudflare:workers\2/g;

/** Returns the text of an app's module with `WORKERS` imported; null when it needs no change. */
export function withWorkers(text: string): string | null {
  if (!text.includes('waitUntil') || !text.includes('cloudflare:workers')) return null;
  return text.replaceAll(
    WORKERS_IMPORT,
    (_, before: string, quote: string) => `${before}${quote}./${WORKERS}${quote}`,
  );
}

/** How the entry wraps the app's default export, without and with error pages. */
const DEFAULT = 'const main = wrapDefault(app.default);';
const DEFAULT_WITH_PAGES = `import { withPages } from './${PAGE}';\nconst main = wrapDefault(withPages(app.default));`;

/** The entry's list of service bindings for an app that has none. */
const NO_SERVICES = 'const SERVICES = [];';

/** The entry's exports for the host. They hide an app's exports of the same name. */
const OWN_EXPORTS = ['default', 'CellarState', 'CellarCache'];

/** The text of `PAGE`. @param uiUrl the control UI's address */
export function pageModule(uiUrl: string): string {
  return PAGE_WORKER.replace("'cellar-ui-url'", () => JSON.stringify(uiUrl))
    .replace("'cellar-of-undefined'", () => JSON.stringify(READ_OF_UNDEFINED))
    .replace('/cellar-from-env/', () => String(FROM_ENV));
}

/**
 * Returns the entry of a release's Worker. It exports the same names as the app's module. Names in the release's description
 * are wrapped; for an old release without names, only the default export is wrapped.
 * @param hasPage whether browsers see a page for uncaught errors
 */
export function entryModule(
  worker: NonNullable<Release['worker']>,
  { exports = [], workflows = [], services = [] }: Pick<Release, 'exports' | 'workflows' | 'services'>,
  hasPage = false,
): string {
  const app = JSON.stringify(`./${worker.modules[0]!.name}`);
  const wrapped = exports
    .filter((name) => !OWN_EXPORTS.includes(name))
    .map((name, index) => {
      const quoted = JSON.stringify(name);
      const isWorkflow = workflows.some(({ className }) => className === name);
      const own = isWorkflow ? `withSteps(app[${quoted}], begin)` : `app[${quoted}]`;
      return `const entry${index} = wrap(${own});\nexport { entry${index} as ${quoted} };\n`;
    });
  const called = services.map(({ binding, service }) => [binding, service === null]);
  const main = hasPage ? ENTRY_WORKER.replace(DEFAULT, () => DEFAULT_WITH_PAGES) : ENTRY_WORKER;
  const text = main.replace(NO_SERVICES, () => `const SERVICES = ${JSON.stringify(called)};`);
  const steps = workflows.length > 0 ? `import { withSteps } from './${STEPS}';\n` : '';
  return text.replaceAll("'cellar-app-entry'", () => app) + steps + wrapped.join('');
}

function read(name: string): string {
  return readFileSync(new URL(name, import.meta.url), 'utf8');
}
