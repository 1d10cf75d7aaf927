// What a fleet does with requests at a time, as one small union.
import type { Admission } from '../edge/backend.ts';
import type { Upstream } from '../edge/upstream.ts';
import type { Cell } from './cell.ts';

/** What the fleet does, and all it has while it does so. */
export type Phase =
  | { name: 'none' }
  | { name: 'starting'; gate: PromiseWithResolvers<void> }
  | Running
  | { name: 'draining' }
  | { name: 'stopped' }
  | { name: 'crashed'; retryAt: number };

export interface Running {
  name: 'running';
  cell: Cell;
  upstream: Upstream;
}

/** Time that requests in flight get before their process ends, in ms. */
const DRAIN_MS = 10_000;
/** What a stopped app tells a caller: somebody has to start it. */
const STOPPED_RETRY_AFTER_S = 60;

/** What a request gets. `coming` settles with the start that has been asked for, if one has. */
export function admission(phase: Phase, coming: Promise<void> | null): Admission {
  if (phase.name === 'running') return { kind: 'forward', upstream: phase.upstream };
  if (phase.name === 'starting') return { kind: 'hold', ready: phase.gate.promise };
  if (coming !== null) return { kind: 'hold', ready: coming };
  if (phase.name === 'none') {
    const detail = 'Nothing has been deployed here yet.';
    return { kind: 'refuse', status: 404, code: 'never_deployed', detail };
  }
  if (phase.name === 'crashed') {
    return unavailable('The app has crashed.', Math.max(1, (phase.retryAt - Date.now()) / 1000));
  }
  return unavailable('The app is stopped.', STOPPED_RETRY_AFTER_S);
}

/** Lets requests in flight end, then ends the process: one that has had SIGTERM answers no new connection. */
export async function end({ cell, upstream }: Running, log: (line: string) => void): Promise<void> {
  const { cut } = await upstream.drain(DRAIN_MS);
  if (cut > 0) log(`${cut} requests did not end within ${DRAIN_MS / 1000} s and were cut`);
  await cell.stop();
}

function unavailable(detail: string, retryAfterS: number): Admission {
  return { kind: 'refuse', status: 503, code: 'app_unavailable', detail, retryAfterS };
}
