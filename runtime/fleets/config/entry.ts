// Cellar's modules in an app's Worker. They are loaded before the app's own modules, and wrap the app's code.
import type { Release } from '../../../bundler/release.ts';
import { FROM_ENV, READ_OF_UNDEFINED } from '../../telemetry/errors/missing-bindings.ts';
import type { Fields } from './capnp.ts';
import { FETCHED_IMAGES } from './fetched-images/fetched-images.ts';
import { CAPNWEB } from './services.ts';
import { type CellModule, textOf } from './texts.ts';

/** Cellar's entry module of the Worker. It wraps the app's exports. */
const ENTRY = 'cellar-entry.js';
const ENTRY_TEXT = textOf('./workers/entry-worker.js');
const PAGE = 'cellar-page.js';
const PAGE_TEXT = textOf('./workers/page-worker.js');
/** Runs each call of the app's code as an event, to which logs, errors and traces refer. */
const CAPTURE = own('capture');
const ERROR_REPORTER = own('error-reporter');
/** Measures the duration of the calls that an event waits for, such as calls to storage. */
const CALLS = { name: 'cellar-calls.js', text: textOf('./modules/calls-module.js') };
/** Finds the event that the running code belongs to. */
const EVENTS = own('events');
/** Adds a header to a script's outgoing requests, which names the call of the script. */
const OUTBOUND = { name: 'cellar-outbound.js', text: textOf('./dispatch/outbound-worker.js') };
/** Answers calls of other apps. */
const CALLED = own('called');
/** Passes e-mails to the app. Loaded at the first e-mail. */
const EMAIL = { name: 'cellar-email.js', text: textOf('./modules/email-event-module.js') };
/** Passes TCP connections to the app. Loaded at the first connection. */
const TCP = { name: 'cellar-tcp.js', text: textOf('./modules/tcp-event-module.js') };
/** Counts running Workflow steps. */
const STEPS = own('steps');
/** Replaces `cloudflare:workers`. Its import path has the same length, so that later source positions stay the same. */
export const WORKERS = { name: 'cellar-worker.js', text: textOf('./modules/workers-module.js') };
/** Reloads pages when the app has changed. */
export const RELOAD = own('reload');
/** Implements D1 in an app's process, and splits SQL into statements. */
export const D1_MODULES = [
  own('d1'),
  { name: 'cellar-sql-statements.js', text: textOf('../../../sqlite/statements.js') },
];

/** The line of the entry module that wraps the app's default export, without error pages. */
const DEFAULT = 'const main = wrapDefault(app.default);';
/** The lines that replace `DEFAULT`, with error pages. */
const DEFAULT_WITH_PAGES = `import { withPages } from './${PAGE}';\nconst main = wrapDefault(withPages(app.default));`;

/** The line of the entry module with the list of service bindings, which `entryText` replaces. */
const NO_SERVICES = 'const SERVICES = [];';

/**
 * The first import of the entry module. Imports of modules that replace `fetch()` are added to it, before the app's code.
 */
const CAPTURE_IMPORT = `import './${CAPTURE.name}';`;

/** The exports of the entry module that Cellar defines. They hide an app's exports of the same name. */
const OWN_EXPORTS = ['default', 'CellarState', 'CellarCache'];

/** Options of the modules around a Worker. */
export interface EntryOptions {
  /** The app's own modules whose imports are rewritten. */
  changed: CellModule[];
  /** Whether other apps may call methods of the Worker's exports. */
  hasMethods: boolean;
  /** The control UI's address on error pages; null: no error pages. */
  uiUrl: string | null;
  /** Whether the calls that a request waits for are timed. */
  timesCalls: boolean;
  /** Whether the app's outgoing requests go to an outbound Worker. */
  hasOutbound: boolean;
  /** Whether `fetch()` transforms images. */
  fetchesImages: boolean;
}

/** Returns Cellar's modules around a release's Worker. The first is the entry module. */
export function entryModules(
  worker: NonNullable<Release['worker']>,
  release: Pick<Release, 'exports' | 'workflows' | 'services'>,
  { changed, hasMethods, uiUrl, timesCalls, hasOutbound, fetchesImages }: EntryOptions,
): CellModule[] {
  return [
    {
      name: ENTRY,
      text: entryText(worker, release, { hasPage: uiUrl !== null, timesCalls, hasOutbound, fetchesImages }),
    },
    CAPTURE,
    ERROR_REPORTER,
    EVENTS,
    CALLED,
    EMAIL,
    TCP,
    ...(hasOutbound ? [OUTBOUND] : []),
    ...(fetchesImages ? [FETCHED_IMAGES] : []),
    ...(timesCalls ? [CALLS] : []),
    ...(changed.length > 0 ? [WORKERS] : []),
    ...(release.workflows?.length ? [STEPS] : []),
    ...(hasMethods ? [CAPNWEB] : []),
    ...(uiUrl === null ? [] : [{ name: PAGE, text: pageText(uiUrl) }]),
  ];
}

/** Returns the additional modules of a trial. `trial` runs first, because the entry module adds handlers to the Worker. */
export function trialModules(trial: CellModule): Fields[] {
  const esModule = `
import './${CAPTURE.name}';
import './${trial.name}';
export * from './${ENTRY}';
export { default } from './${ENTRY}';
`;
  return [
    { name: 'cellar-trial-entry.js', esModule },
    { name: trial.name, esModule: trial.text },
  ];
}

function pageText(uiUrl: string): string {
  return PAGE_TEXT.replace("'cellar-ui-url'", () => JSON.stringify(uiUrl))
    .replace("'cellar-of-undefined'", () => JSON.stringify(READ_OF_UNDEFINED))
    .replace('/cellar-from-env/', () => String(FROM_ENV));
}

/**
 * Returns the text of a release's entry module. It exports the names of the app's module, and `OWN_EXPORTS`. The exports
 * that the release's description names are wrapped. For an old release without these names, only the default export is
 * wrapped.
 * @param hasPage whether browsers see a page for uncaught errors
 */
function entryText(
  worker: NonNullable<Release['worker']>,
  { exports = [], workflows = [], services = [] }: Pick<Release, 'exports' | 'workflows' | 'services'>,
  {
    hasPage,
    timesCalls,
    hasOutbound,
    fetchesImages,
  }: { hasPage: boolean } & Pick<EntryOptions, 'timesCalls' | 'hasOutbound' | 'fetchesImages'>,
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
  const main = hasPage ? ENTRY_TEXT.replace(DEFAULT, () => DEFAULT_WITH_PAGES) : ENTRY_TEXT;
  const text = main.replace(NO_SERVICES, () => `const SERVICES = ${JSON.stringify(called)};`);
  const steps = workflows.length > 0 ? `import { withSteps } from './${STEPS.name}';\n` : '';
  const watched = hasOutbound
    ? text
        .replace(CAPTURE_IMPORT, (first) => `import { withOutbound } from './${OUTBOUND.name}'; ${first}`)
        .replace('(app.default)', () => '(withOutbound(app.default))')
    : text;
  // The module that times calls comes last, so that a timed `fetch()` includes the transformation of images.
  const modules = [...(fetchesImages ? [FETCHED_IMAGES] : []), ...(timesCalls ? [CALLS] : [])];
  const imports = modules.map(({ name }) => ` import './${name}';`).join('');
  const timed = watched.replace(CAPTURE_IMPORT, (first) => first + imports);
  return timed.replaceAll("'cellar-app-entry'", () => app) + steps + wrapped.join('');
}

function own(name: string): CellModule {
  return { name: `cellar-${name}.js`, text: textOf(`./workers/${name}-worker.js`) };
}
