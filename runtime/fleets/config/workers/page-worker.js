// Error page for development on `localhost`: a browser sees an uncaught error and its position. On other domains a Worker
// does not have this module.
import { env } from 'cloudflare:workers';
import { eventTraceId } from './cellar-capture.js';
import { report } from './cellar-error-reporter.js';

/** The control UI's address; empty: no links to it. */
const UI = 'cellar-ui-url';
const PLACE = /(?:file:\/\/\/bundle\/)?([\w.-]+\.js):(\d+):(\d+)/g;
const ENTRY_FRAME = /\n {4}at [^\n]*\bcellar-\w+\.js:\d+:\d+\)?/g;
/** Text in errors from a missing binding. The host fills in the text from `missing-bindings.ts`. */
const OF_UNDEFINED = 'cellar-of-undefined';
/** Pattern of code that reads a binding. The host fills in the pattern from `missing-bindings.ts`. */
const FROM_ENV = /cellar-from-env/;
/** Maximum length of a stack, in characters. */
const STACK_LENGTH = 20_000;
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** Wraps a default export, object or class, so that `fetch` answers browsers with the error page for uncaught errors. */
export function withPages(main) {
  if (typeof main === 'function') {
    const { fetch } = main.prototype ?? {};
    if (typeof fetch === 'function') main.prototype.fetch = answering(fetch);
    return main;
  }
  if (typeof main !== 'object' || main === null) return main;
  return new Proxy(Object.create(main), {
    get(_, name) {
      const handler = main[name];
      if (typeof handler !== 'function') return handler;
      return name === 'fetch' ? answering(handler).bind(main) : handler.bind(main);
    },
  });
}

function answering(fetch) {
  return async function (request, ...others) {
    try {
      return await fetch.call(this, request, ...others);
    } catch (error) {
      if (!request.headers.get('accept')?.includes('text/html')) throw error;
      report(error, 'uncaught');
      return new Response(await page(error, request), {
        status: 500,
        headers: { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' },
      });
    }
  };
}

async function page(error, request) {
  const { hostname, pathname } = new URL(request.url);
  const words = textOf(error);
  const stack = await withSources(words.slice(0, STACK_LENGTH).replace(ENTRY_FRAME, ''));
  const [title] = stack.split('\n', 1);
  const app = `${UI}/apps/${hostname.split('.')[0]}`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 8vh auto 2rem; padding: 0 1rem; color: #22201d; background: #faf9f7 } a { color: inherit }
h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere } pre { overflow-x: auto; padding: 1rem; background: #efece7 }
code, pre { font: .875rem/1.6 ui-monospace, monospace } p { overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) { body { color: #e6e3df; background: #141312 } pre { background: #23211f } }
</style>
<h1>${escaped(title)}</h1>
${await hintFor(words)}<p>The app did not catch this error. It was thrown while <code>${escaped(`${request.method} ${pathname}`)}</code> was answered.</p>
<pre>${escaped(stack)}</pre>
${links(app)}<p>Only browsers on <code>localhost</code> see this page: anywhere else the answer is a plain 500.</p>
</html>
`;
}

function links(app) {
  if (UI === '') return '';
  return `<p>In Cellar: <a href="${escaped(`${app}/logs?trace=${eventTraceId()}`)}">the log of this request</a>,
<a href="${escaped(`${app}/errors`)}">all errors of the app</a></p>
`;
}

/** Returns a hint in HTML if the app's code read a property of a missing binding; empty otherwise. */
async function hintFor(words) {
  const [place] = words.includes(OF_UNDEFINED) ? words.matchAll(PLACE) : [];
  if (place === undefined) return '';
  const [, module, line, column] = place;
  try {
    const { default: code } = await import(`./${module}.text`);
    const before = code.split('\n')[line - 1].slice(0, column - 1);
    const [, name] = FROM_ENV.exec(before) ?? [];
    if (name === undefined || name in env) return '';
    return `<p>The app has no binding, variable or secret <code>${escaped(name)}</code>: add it to the Wrangler configuration, or set it as a secret.</p>\n`;
  } catch {
    // The text of this module is not available: it is not one of the app's, or it has no source map.
    return '';
  }
}

function textOf(error) {
  try {
    return error instanceof Error ? String(error.stack) : String(error);
  } catch {
    return 'An error that cannot be shown';
  }
}

/** Replaces positions in the bundle by positions in the project's files, if there is a source map. */
async function withSources(stack) {
  const maps = new Map();
  for (const [, module] of stack.matchAll(PLACE))
    if (!maps.has(module)) maps.set(module, await readMap(module));
  return stack.replaceAll(PLACE, (place, module, line, column) => {
    const source = maps.get(module)?.(Number(line) - 1, Number(column) - 1);
    return source ?? place;
  });
}

/** Returns a function that finds positions in a module's source map; null when the release has no map. */
async function readMap(module) {
  try {
    const { default: text } = await import(`./${module}.map`);
    const { sources, mappings } = JSON.parse(text);
    const lines = mappings.split(';');
    return (line, column) => find(lines, sources, line, column);
  } catch {
    return null;
  }
}

/** Finds the source position of a position in the bundle; null for none. `line` and `column` count from 0. */
function find(lines, sources, line, column) {
  let [source, sourceLine, sourceColumn] = [0, 0, 0];
  let found = null;
  for (let i = 0; i <= line && i < lines.length; i++) {
    let at = 0;
    for (const segment of lines[i].split(',')) {
      const [step, ...steps] = numbers(segment);
      at += step;
      if (steps.length < 3) continue;
      source += steps[0];
      sourceLine += steps[1];
      sourceColumn += steps[2];
      if (i === line && at <= column) found = `${sources[source]}:${sourceLine + 1}:${sourceColumn + 1}`;
    }
  }
  return found;
}

/** Decodes a segment's base64 VLQ numbers: 5 bits a digit, lowest first, the sign in the lowest bit. */
function numbers(segment) {
  const list = [];
  let [value, shift] = [0, 0];
  for (const digit of segment) {
    const bits = DIGITS.indexOf(digit);
    value += (bits & 31) << shift;
    shift += 5;
    if (bits & 32) continue;
    list.push(value & 1 ? -(value >> 1) : value >> 1);
    [value, shift] = [0, 0];
  }
  return list;
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
