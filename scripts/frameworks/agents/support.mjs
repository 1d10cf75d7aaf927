// Helpers for the client of each project. This file is copied into the project as `support.mjs`.
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';

const DEADLINE_MS = 60_000;
const POLL_MS = 50;

/** The app's address, such as `http://app-1.localhost:8080`. */
export const app = process.env.APP;
export const { host } = new URL(app);

/** Returns the first truthy value of `read`. Throws after a minute. */
export async function eventually(what, read) {
  const until = performance.now() + DEADLINE_MS;
  for (;;) {
    const value = await read();
    if (value) return value;
    if (performance.now() > until) throw new Error(`not within a minute: ${what}`);
    await setTimeout(POLL_MS);
  }
}

/** Puts the app to sleep by Cellar's API: its process ends, and WebSockets are closed. */
export async function sleep() {
  const { CELLAR_API, CELLAR_TOKEN, APP_ID } = process.env;
  const headers = { authorization: `Bearer ${CELLAR_TOKEN}` };
  const response = await fetch(`${CELLAR_API}/v1/apps/${APP_ID}/sleep`, { method: 'POST', headers });
  if (!response.ok) throw new Error(`sleep answered ${response.status}: ${await response.text()}`);
}

/** Returns the answer's text. Throws for a status that is not 2xx. */
export async function get(path, init) {
  const response = await fetch(app + path, init);
  const text = await response.text();
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`);
  return text;
}

/** Resolves when a WebSocket is open. */
export async function opened(socket) {
  if (socket.readyState !== 1) await once(socket, 'open', { signal: AbortSignal.timeout(DEADLINE_MS) });
  return socket;
}
