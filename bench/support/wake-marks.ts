// Prints when a wake reached its steps. The host loads it first. Node's diagnostics channels report the requests.
import { subscribe } from 'node:diagnostics_channel';
import { writeSync } from 'node:fs';

/** When a wake got where, as ms since 1970 with fractions. */
export interface Marks {
  /** The control plane is asked for the wake. */
  asked: number;
  /** The control plane has decided and written it down, and sends the host what is wanted. */
  told: number;
}

let asked: number | null = null;
const now = () => performance.timeOrigin + performance.now();

subscribe('http.client.request.start', (message) => {
  const { request } = message as { request: { path: string } };
  if (request.path === '/internal/wake') asked = now();
});
subscribe('http.server.request.start', (message) => {
  const { request } = message as { request: { method: string; url: string } };
  if (asked === null || request.method !== 'PUT' || !request.url.startsWith('/apps/')) return;
  writeSync(1, `marks ${JSON.stringify({ asked, told: now() } satisfies Marks)}\n`);
  asked = null;
});
