// Projects of Cloudflare Pages: static files, and possibly a Worker, from `_worker.js` or functions/. The Worker answers the
// paths in `_routes.json`. The project becomes a Worker with assets, or assets alone.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { ReadConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import { RULES_BYTES } from '../limits.ts';
import { foldersOf } from './folders.ts';
import { insidePath, isInside, isThere, show } from './path-containment.ts';
import type { Place } from './place.ts';
import { readHead, readJsonText, readTail } from './regular-file.ts';

/** Where Wrangler's compiler puts the Worker of functions/, relative to the project's folder. */
export const COMPILED_FUNCTIONS = '.wrangler/cellar-functions';
/** File or folder with a Worker's code, in the folder of the static files. */
export const PAGES_WORKER = '_worker.js';
/** The Worker's code and its routes, in the folder of the static files. They are not served. */
export const PAGES_FILES = [PAGES_WORKER, '_routes.json'];
/** Maximum rules in `_routes.json`. */
const ROUTES = 100;
/** Maximum characters of a rule. */
const ROUTE_LENGTH = 100;
/** The headers that Pages gives each answer of a project's files, by name. */
const DEFAULT_HEADERS = {
  'Access-Control-Allow-Origin': '*',
  'Referrer-Policy': 'strict-origin-when-cross-origin',
  'X-Content-Type-Options': 'nosniff',
};
/**
 * Two rules that together match all paths. The second matches paths that end in a slash. A rule `/*` is unsuitable: a
 * project's own rule `/*` replaces it.
 */
const ALL_PATHS = ['/:cellar*', 'https://*'];
/** Maximum rules in `_headers` that workerd applies. */
const HEADER_RULES = 100;
const FUNCTIONS = 'functions';
/** Matches the exports of a Pages Function. */
const HANDLER =
  /\bexport\s+(?:(?:async\s+)?function\*?|const|let|var)\s+onRequest|\bexport\s*\{[^{}]*\bonRequest/;
/** Maximum files of functions/ to read. */
const MAX_FILES = 500;
/** Bytes to read from the start and from the end of each file in functions/. Bundlers write the exports at the end. */
const FUNCTION_BYTES = 256 * 1024;

/**
 * Returns whether functions/ has a handler of Pages Functions. Other tools use a folder of this name for other functions.
 */
export function hasFunctions({ root, folder }: Place): boolean {
  const functions = join(folder, FUNCTIONS);
  // A link out of the project would make Cellar read the host's own files, and name them in the log.
  if (!isInside(root, functions) || !statSync(functions).isDirectory()) return false;
  let left = MAX_FILES;
  for (const { path, names } of foldersOf(functions))
    for (const name of names.filter((each) => /\.(?:[cm]?[jt]s|[jt]sx)$/.test(each))) {
      if (left-- === 0) return false;
      const file = join(functions, path, name);
      if (
        isInside(root, file) &&
        statSync(file, { throwIfNoEntry: false })?.isFile() &&
        [readHead, readTail].some((read) => HANDLER.test(read(root, file, FUNCTION_BYTES).toString('utf8')))
      )
        return true;
    }
  return false;
}

/** Returns whether a site has a Worker that Cloudflare Pages would run. */
export function hasPagesWorker(place: Place, directory: string): boolean {
  return workerOf(place, directory) !== null;
}

/**
 * Turns a Pages project's configuration into that of a Worker with assets.
 * @param directory absolute path of the static files, which exists
 * @throws {BuildFailure} for routes that cannot be read, or that Pages refuses
 */
export function asWorker(place: Place, read: ReadConfig, directory: string): ReadConfig {
  const { root } = place;
  const worker = workerOf(place, directory);
  const isApp = !isThere(root, join(directory, '404.html'));
  const { main: _, triggers, queues, ...config } = read.config;
  const { consumers = [], ...producers } = queues;
  const notCalled = [
    ...(triggers.crons?.length ? ['triggers.crons'] : []),
    ...(consumers.length > 0 ? ['queues.consumers'] : []),
  ];
  const what = `Cloudflare Pages project: ${show(root, directory)}`;
  return {
    ...read,
    notes: [...read.notes, what],
    warnings: [
      ...read.warnings,
      ...notCalled.map(
        (key) => `${read.file}: ${key} has no effect: a Cloudflare Pages project handles requests only`,
      ),
    ],
    config: {
      ...config,
      triggers: {},
      queues: producers,
      ...(worker !== null && { main: worker.main }),
      assets: {
        directory,
        not_found_handling: isApp ? 'single-page-application' : '404-page',
        html_handling: 'auto-trailing-slash',
        ...(worker !== null && { binding: 'ASSETS', run_worker_first: routesOf(root, worker.routes) }),
      },
    },
  };
}

/**
 * Returns the text of a Pages project's `_headers` with the default headers of Pages before its own rules. A text that would
 * exceed a limit stays unchanged.
 * @param own the project's `_headers`; omitted: it has none
 */
export function withPagesHeaders(own = ''): string {
  // workerd joins the values of several rules, unless a rule removes the earlier ones.
  const names = Object.keys(DEFAULT_HEADERS).join('|');
  const replacing = own.replace(new RegExp(`^[ \\t]*(${names})[ \\t]*:.*\\S`, 'gim'), '  ! $1\n$&');
  const lines = Object.entries(DEFAULT_HEADERS).map(([name, value]) => `  ! ${name}\n  ${name}: ${value}\n`);
  const text = [...ALL_PATHS.map((path) => `${path}\n${lines.join('')}`), replacing].join('');
  const rules = text.match(/^[ \t]*(\/|https:)/gim)!.length;
  return rules > HEADER_RULES || Buffer.byteLength(text) > RULES_BYTES ? own : text;
}

/** Returns the paths of the Worker's entry and of its routes file, which may not exist; `null` without a Worker. */
function workerOf({ root, folder }: Place, directory: string): { main: string; routes: string } | null {
  const own = join(directory, PAGES_WORKER);
  const routes = join(directory, '_routes.json');
  if (isThere(root, own)) {
    if (!statSync(own).isDirectory()) return { main: own, routes };
    return { main: insidePath(root, own, 'index.js', show(root, own)), routes };
  }
  const compiled = join(folder, COMPILED_FUNCTIONS);
  const main = join(compiled, 'index.js');
  if (!isThere(root, main)) return null;
  return { main, routes: isThere(root, routes) ? routes : join(compiled, '_routes.json') };
}

/** Returns the paths that the Worker answers, as in `run_worker_first`. `true`: all paths, also without a routes file. */
function routesOf(root: string, path: string): true | string[] {
  if (!isThere(root, path)) return true;
  const file = show(root, path);
  let routes: { include?: unknown; exclude?: unknown };
  try {
    routes = JSON.parse(readJsonText(root, path, RULES_BYTES));
  } catch (error) {
    throw new BuildFailure(`${file} cannot be read: ${(error as Error).message}`);
  }
  const { include, exclude = [] } = routes ?? {};
  if (!arePaths(include) || !arePaths(exclude))
    throw new BuildFailure(`${file}: "include" and "exclude" must be lists of paths such as "/api/*"`);
  const refused = whyRefused(include, exclude);
  if (refused !== null) throw new BuildFailure(`${file}: ${refused}, which Cloudflare Pages refuses, too`);
  if (include.includes('/*') && exclude.length === 0) return true;
  return withBothForms([...include, ...exclude.map((pattern) => `!${pattern}`)]);
}

/**
 * Returns `run_worker_first` rules for the paths that Pages matches: there, `/a/*` also matches `/a`, and `/a` equals
 * `/a/`. workerd takes a rule literally, refuses one that another covers, and allows `ROUTES` in all. Others are cut.
 */
function withBothForms(rules: string[]): string[] {
  const forms = [...new Set([...rules, ...rules.flatMap(otherForm)])];
  const wide = forms.filter((rule) => rule.endsWith('*'));
  const isCovered = (rule: string) =>
    wide.some((each) => each !== rule && rule.startsWith(each.slice(0, -1)));
  return forms.filter((rule) => !isCovered(rule)).slice(0, ROUTES);
}

/** Returns the form of a rule that Pages also matches, if there is one. A leading `!` stays. */
function otherForm(rule: string): string[] {
  const path = rule.replace(/\/\*?$/, '');
  if (path === '' || path === '!' || path.endsWith('*')) return [];
  const other = path === rule ? `${path}/` : path;
  return other.length > ROUTE_LENGTH ? [] : [other];
}

/** Returns why Pages refuses the rules; `null`: it accepts them. */
function whyRefused(include: string[], exclude: string[]): string | null {
  const rules = [...include, ...exclude];
  if (include.length === 0) return '"include" has no rule';
  if (rules.length > ROUTES) return `there are ${rules.length} rules, more than ${ROUTES}`;
  const long = rules.find(({ length }) => length > ROUTE_LENGTH);
  if (long !== undefined) return `the rule ${long} has more than ${ROUTE_LENGTH} characters`;
  for (const list of [include, exclude])
    for (const wide of list.filter((rule) => rule.endsWith('/*'))) {
      const covered = list.find((rule) => rule !== wide && rule.startsWith(wide.slice(0, -1)));
      if (covered !== undefined) return `the rule ${wide} covers ${covered}`;
    }
  return null;
}

function arePaths(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string' && each.startsWith('/'));
}
