// Parses and prints URLs as `Route`. Filter, range and selection are in the query.
import { computed, signal } from '@preact/signals';
import { mayDrop } from './unsaved.ts';

/** The path of every screen. `:name` matches one segment, `:name*` the rest, which may be empty. */
export const paths = {
  apps: '/',
  new: '/new',
  overview: '/apps/:app',
  traffic: '/apps/:app/traffic',
  requests: '/apps/:app/requests',
  logs: '/apps/:app/logs',
  errors: '/apps/:app/errors',
  error: '/apps/:app/errors/:fingerprint',
  traces: '/apps/:app/traces',
  trace: '/apps/:app/traces/:trace',
  insights: '/apps/:app/insights',
  deploys: '/apps/:app/deploys',
  deploy: '/apps/:app/deploys/:deploy',
  source: '/apps/:app/source/:path*',
  commit: '/apps/:app/commits/:sha',
  variables: '/apps/:app/variables',
  domains: '/apps/:app/domains',
  storage: '/apps/:app/storage',
  database: '/apps/:app/storage/databases/:database',
  objects: '/apps/:app/storage/objects/:class',
  object: '/apps/:app/storage/objects/:class/:object',
  namespace: '/apps/:app/storage/namespaces/:namespace',
  workflow: '/apps/:app/storage/workflows/:workflow',
  instance: '/apps/:app/storage/workflows/:workflow/:instance',
  bucket: '/apps/:app/storage/buckets/:bucket/:prefix*',
  events: '/apps/:app/events',
  users: '/apps/:app/users',
  user: '/apps/:app/users/:user',
  limits: '/apps/:app/limits',
  alerts: '/apps/:app/alerts',
  collaborators: '/apps/:app/collaborators',
  settings: '/apps/:app/settings',
  dispatch: '/dispatch',
  scripts: '/dispatch/:dispatch',
  account: '/account',
  ownAudit: '/account/audit',
  machine: '/machine',
  hosts: '/machine/hosts',
  snapshots: '/machine/snapshots',
  people: '/machine/people',
  audit: '/machine/audit',
  machineSettings: '/machine/settings',
  signIn: '/sign-in',
  welcome: '/welcome',
  invite: '/invite',
} as const;

export type RouteName = keyof typeof paths;

type NamesIn<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | NamesIn<`/${Rest}`>
  : Path extends `${string}:${infer Name}*`
    ? Name
    : Path extends `${string}:${infer Name}`
      ? Name
      : never;

/** The props of a screen: the parameters of its path, decoded. */
export type ParamsOf<Name extends RouteName> = { [Key in NamesIn<(typeof paths)[Name]>]: string };
/** A screen and what it shows: `{ name: 'deploy', app: 'shop', deploy: 'x1…' }`. */
export type Route = { [Name in RouteName]: { name: Name } & ParamsOf<Name> }[RouteName];

/** Parses a path. @returns null when no screen has this path */
export function parseRoute(path: string): Route | null {
  const asked = path.split('/').slice(1);
  for (const [name, pattern] of Object.entries(paths)) {
    const found = match(pattern.split('/').slice(1), asked);
    if (found) return { name, ...found } as Route;
  }
  return null;
}

function match(pattern: string[], asked: string[]): Record<string, string> | null {
  const found: Record<string, string> = {};
  for (const [i, part] of pattern.entries()) {
    if (part.endsWith('*')) {
      const rest = asked.slice(i).map(segmentText);
      if (rest.includes(null)) return null;
      found[part.slice(1, -1)] = rest.join('/');
      return found;
    }
    const segment = asked[i];
    if (segment === undefined) return null;
    if (!part.startsWith(':')) {
      if (part !== segment) return null;
      continue;
    }
    const value = segmentText(segment);
    if (value === null || value === '') return null;
    found[part.slice(1)] = value;
  }
  // A slash at the end changes nothing.
  const over = asked.length - pattern.length;
  return over === 0 || (over === 1 && asked.at(-1) === '') ? found : null;
}

/**
 * Texts that are written with one `~` more. Browsers remove `.` and `..` from a path, also in percent-encoding, and proxies
 * may remove an empty segment.
 */
const ESCAPED = /^~*\.{0,2}$/;

/** Returns a text as a segment of a path. */
function segmentOf(text: string): string {
  return ESCAPED.test(text) ? `~${text}` : encodeURIComponent(text);
}

/** Returns the text of a segment; null when it has a broken escape. */
function segmentText(segment: string): string | null {
  try {
    const text = decodeURIComponent(segment);
    return ESCAPED.test(text) ? text.replace('~', '') : text;
  } catch {
    return null;
  }
}

/** Query parameters. Empty, null and undefined values are not printed. */
export type Query = Record<string, string | number | null | undefined>;

export function href(route: Route, query: Query = {}): string {
  const values: Record<string, string> = route;
  const path = paths[route.name].replace(/\/:(\w+)(\*?)/g, (_, name: string, rest: string) => {
    if (rest === '') return `/${segmentOf(values[name]!)}`;
    if (values[name] === '') return '';
    // A slash at the end is written as such.
    return `/${values[name]!.split('/').map(segmentOf).join('/')}`.replace(/\/~$/, '/');
  });
  const search = printQuery(new URLSearchParams(), query);
  return search === '' ? path : `${path}?${search}`;
}

function printQuery(search: URLSearchParams, query: Query): string {
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '') search.delete(name);
    else search.set(name, String(value));
  }
  return search.toString();
}

const at = signal({ path: '/', search: '' });
/** Index of the current entry in the browser's history. */
let step = 0;

/** The current route; null for an unknown path. */
export const route = computed(() => parseRoute(at.value.path));
/** The query parameters. Read single names with `queryOf`. */
export const query = computed(() => new URLSearchParams(at.value.search));

/** Returns a query parameter, or `otherwise`. Reading it subscribes to it. */
export function queryOf(name: string, otherwise = ''): string {
  return query.value.get(name) ?? otherwise;
}

/** Opens a screen. `replace` adds no history entry. */
export function open(to: Route, { query = {}, replace = false }: { query?: Query; replace?: boolean } = {}) {
  openPath(href(to, query), replace);
}

/** Opens a URL of this UI. */
export function openPath(path: string, replace = false) {
  if (!replace) step++;
  if (replace) history.replaceState({ step }, '', path);
  else history.pushState({ step }, '', path);
  const before = at.peek().path;
  read();
  if (at.peek().path !== before) scrollTo(0, 0);
}

/** Opens a URL that a person chose. Asks first if another path would drop unsaved text. */
export function follow(path: string) {
  if (new URL(path, location.href).pathname === at.peek().path || mayDrop()) openPath(path);
}

/** Changes query parameters, and keeps those that `changes` does not name. Adds a history entry only with `push`. */
export function setQuery(changes: Query, { push = false } = {}) {
  const search = printQuery(new URLSearchParams(at.peek().search), changes);
  openPath(at.peek().path + (search === '' ? '' : `?${search}`), !push);
}

function read() {
  at.value = { path: location.pathname, search: location.search };
}

/** Handles back and forward. If the person stays because of unsaved text, returns to the entry of the current screen. */
function onPopState({ state }: PopStateEvent) {
  const to = stepOf(state);
  if (location.pathname !== at.peek().path && to !== step && !mayDrop()) {
    history.go(step - to);
    return;
  }
  step = to;
  read();
}

/** Returns the index stored in a history entry; 0 without one. It is stored there to survive a reload. */
function stepOf(state: unknown): number {
  return (state as { step: number } | null)?.step ?? 0;
}

/** Starts the router: back, forward, and clicks on links to our screens. */
export function startRouter() {
  step = stepOf(history.state);
  read();
  addEventListener('popstate', onPopState);
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest('a');
    if (!link?.href || link.target || link.hasAttribute('download') || link.origin !== location.origin)
      return;
    if (parseRoute(link.pathname) === null || link.getAttribute('href')!.startsWith('#')) return;
    event.preventDefault();
    follow(link.pathname + link.search);
  });
}
