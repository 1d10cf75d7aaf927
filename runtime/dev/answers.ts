// Responses of `cellar dev` itself: for foreign host names, and while no version of the app is live.
import { escapeHtml } from '../../bundler/escape-html.ts';
import type { LocalAnswer } from '../edge/gateway.ts';
import type { OwnRefusal } from '../edge/refusals.ts';

/** Path of the event stream that makes pages reload. `reload-worker.js` has the same path. */
export const RELOAD_PATH = '/.well-known/fleet/reload';

export const UNKNOWN_HOST: OwnRefusal = {
  status: 403,
  code: 'forbidden',
  detail:
    '`cellar dev` answers only at localhost, at names below it, and at 127.0.0.1 and [::1]: a page of somebody else could use any other name to reach the app.',
};

export const NO_DEBUGGER: OwnRefusal = {
  status: 403,
  code: 'forbidden',
  detail: 'Only a debugger on this machine may connect here. Pages of websites may not.',
};

export const NOT_YET: OwnRefusal = {
  status: 503,
  code: 'app_unavailable',
  detail: 'The app has not started yet; the terminal of `cellar dev` says why.',
};

/** Whether a request's `Origin` is one of a debugger: none, or that of the browser's developer tools. */
export function isDebugger(origin: string | undefined): boolean {
  return origin === undefined || origin === 'devtools://devtools';
}

/** Whether a host name always resolves to this machine, whatever DNS server is asked. */
export function isLocalHost(host: string): boolean {
  return /^(?:.+\.)?localhost$/.test(host) || host === '127.0.0.1' || host === '[::1]';
}

export function plainAnswer(status: number, text: string): LocalAnswer {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: `${text}\n` };
}

/** Returns a page with the reason why nothing is live. A browser reloads it once a version is live. */
export function failurePage(failure: string): {
  status: number;
  headers: Record<string, string>;
  body: string;
} {
  const script = `let first;new EventSource('${RELOAD_PATH}').onmessage=({data})=>{first??=data;if(data!==first)location.reload()}`;
  return {
    status: 500,
    headers: { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' },
    body: `<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>The build failed</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:8vh auto;padding:0 1rem}pre{white-space:pre-wrap;overflow-wrap:anywhere}</style>
<h1>The app has not started</h1><pre>${escapeHtml(failure)}</pre><p>Correct the error and save: this page loads again by itself.</p><script>${script}</script>
`,
  };
}
