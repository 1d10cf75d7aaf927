// The modules that every Worker is entered by, before its own: what Cellar does around an app's code is in there.
import { readFileSync } from 'node:fs';
import type { Release } from '../../../bundler/release.ts';
import { FROM_ENV, OF_UNDEFINED } from '../../telemetry/errors/missing-bindings.ts';

/** The entry's name, beside the config and as a module. */
export const ENTRY = 'cellar-entry.js';
/** The name of the module that has the app's code run in events, beside the entry. */
export const CAPTURE = 'cellar-capture.js';
const ENTRY_WORKER = read('./workers/entry-worker.js');
/** The text of `CAPTURE`. */
export const CAPTURE_WORKER = read('./workers/capture-worker.js');
/** The name of the module that tells what goes wrong, beside the entry. */
export const ERROR_REPORTER = 'cellar-error-reporter.js';
/** The text of `ERROR_REPORTER`. */
export const ERROR_REPORTER_WORKER = read('./workers/error-reporter-worker.js');
/** The name of the module that knows which event the running code belongs to, beside the entry. */
export const EVENTS = 'cellar-events.js';
/** The text of `EVENTS`. */
export const EVENTS_WORKER = read('./workers/events-worker.js');
/** The name of the module with the page for errors, beside the entry. */
export const PAGE = 'cellar-page.js';
const PAGE_WORKER = read('./workers/page-worker.js');
/** The name of the module that takes SQL apart, beside `D1`. */
export const STATEMENTS = 'cellar-sql-statements.js';
/** The text of `STATEMENTS`. */
export const STATEMENTS_WORKER = read('../../../sqlite/statements.js');
/** The name of the module that is D1 in an app's process. */
export const D1 = 'cellar-d1.js';
/** The text of `D1`. */
export const D1_WORKER = read('./workers/d1-worker.js');
/** The name of the module that has pages load again when the app has changed, beside the entry. */
export const RELOAD = 'cellar-reload.js';
/** The text of `RELOAD`. */
export const RELOAD_WORKER = read('./workers/reload-worker.js');
/** The name of the module that stands for `cloudflare:workers`: just as long, so that places after it stay where they are. */
export const WORKERS = 'cellar-worker.js';
/** The text of `WORKERS`. */
export const WORKERS_MODULE = read('./modules/workers-module.js');
/** The name of the module that says when an app's Workflows are at work, beside the entry. */
export const STEPS = 'cellar-steps.js';
/** The text of `STEPS`. */
export const STEPS_WORKER = read('./workers/steps-worker.js');
/** The name of the module that answers other apps, beside the entry. */
export const CALLED = 'cellar-called.js';
/** The text of `CALLED`. */
export const CALLED_WORKER = read('./workers/called-worker.js');
/** What all of them depend on besides a release. */
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

/** The text of an app's module, which imports `WORKERS`; null when it need not. */
export function withWorkers(text: string): string | null {
  if (!text.includes('waitUntil') || !text.includes('cloudflare:workers')) return null;
  return text.replaceAll(
    WORKERS_IMPORT,
    (_, before: string, quote: string) => `${before}${quote}./${WORKERS}${quote}`,
  );
}

/** How the entry passes on the app's default export, and how with pages for errors. */
const DEFAULT = 'const main = wrapDefault(app.default);';
const DEFAULT_WITH_PAGES = `import { withPages } from './${PAGE}';\nconst main = wrapDefault(withPages(app.default));`;

/** How the entry names the service bindings of an app that has none. */
const NO_SERVICES = 'const SERVICES = [];';

/** What the entry exports for the host: an app's export of the same name is hidden by it. */
const OWN_EXPORTS = ['default', 'CellarState', 'CellarCache'];

/** The text of `PAGE`. @param uiUrl where its readers find the control UI */
export function pageModule(uiUrl: string): string {
  return PAGE_WORKER.replace("'cellar-ui-url'", () => JSON.stringify(uiUrl))
    .replace("'cellar-of-undefined'", () => JSON.stringify(OF_UNDEFINED))
    .replace('/cellar-from-env/', () => String(FROM_ENV));
}

/**
 * The entry of a release's Worker. It exports what the app's module does. What the release names is wrapped; a release
 * of before, which names nothing, has its default export wrapped alone.
 * @param hasPage whether browsers are shown what the app does not catch
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
