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
    'An app that is being developed answers at localhost, at names below it, and at 127.0.0.1 and [::1] alone: any other name could be a page of somebody else that leads here.',
};

export const NO_DEBUGGER: OwnRefusal = {
  status: 403,
  code: 'forbidden',
  detail: 'A debugger comes here from this machine, and no page of a website may.',
};

export const NOT_YET: OwnRefusal = {
  status: 503,
  code: 'app_unavailable',
  detail: 'Nothing of the app runs yet.',
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
<h1>Nothing serves yet</h1><pre>${escapeHtml(failure)}</pre><p>Save a mended version: this page loads again by itself.</p><script>${script}</script>
`,
  };
}
