// The phases of a fleet, as one small union, and what a request gets in each.
import type { ProcessState } from '../../../handlers/contract/host/host-calls.ts';
import type { RefusalReason } from '../../edge/refusals.ts';
import type { Admission, Refused } from '../../edge/upstream/backend.ts';
import type { Upstream } from '../../edge/upstream/upstream.ts';
import type { Leases } from '../admission/leases.ts';
import type { Cell } from '../process/cell.ts';

/** What the fleet does at a time, with all that it has in that phase. */
export type Phase =
  | { name: 'none' }
  /** `hibernated`: the app rested before, so this is no restart after a failure. */
  | { name: 'starting'; gate: PromiseWithResolvers<void>; hibernated: boolean }
  | Running
  | { name: 'draining' }
  /** The process ends because nobody needs it. Requests that come just now are held, and start the next one. */
  | { name: 'hibernating'; gate: PromiseWithResolvers<void> }
  | { name: 'idle' }
  | { name: 'asleep' }
  | { name: 'stopped' }
  | Leased
  /** The host has ended the process for what the app keeps on the disk. `asleep`: it ran for due work of a sleeping app. */
  | { name: 'held'; asleep: boolean }
  /** `retryAt`: as `performance.now()`, which no setting of the clock moves. */
  | { name: 'crashed'; retryAt: number };

export interface Running {
  name: 'running';
  cell: Cell;
  upstream: Upstream;
  /** Whether it runs for due work or a lease only: the app sleeps, and takes no requests. */
  asleep: boolean;
  leases: Leases;
}

/** The app is stopped, and has a process for those who hold a lease on it. */
export interface Leased {
  name: 'leased';
  cell: Cell;
  leases: Leases;
}

/** What a stopped app tells a caller: somebody has to start it. */
const STOPPED_RETRY_AFTER_S = 60;
/** Memory is sampled each second, and comes back as others hibernate. */
const OVERLOADED_RETRY_AFTER_S = 5;

/** The phase as the API knows it. */
export function processState(phase: Phase): ProcessState {
  switch (phase.name) {
    case 'running':
      return phase.asleep ? 'stopped' : 'running';
    // A draining process still runs; no request that comes now would reach it.
    case 'draining':
      return 'running';
    case 'starting':
      return phase.hibernated ? 'idle' : 'starting';
    case 'hibernating':
      return 'idle';
    case 'asleep':
    case 'leased':
      return 'stopped';
    // It should run, and somebody has to see why it does not.
    case 'held':
      return 'crashed';
    default:
      return phase.name;
  }
}

/** What a request gets of an app that does not sleep. `coming` settles with the start that has been asked for, if one has. */
export function admission(phase: Phase, coming: Promise<void> | null): Admission {
  if (phase.name === 'running' && !phase.asleep) return { kind: 'forward', upstream: phase.upstream };
  if (phase.name === 'starting' || phase.name === 'hibernating') {
    return { kind: 'hold', ready: phase.gate.promise };
  }
  if (coming !== null) return { kind: 'hold', ready: coming };
  if (phase.name === 'none') {
    const detail = 'Nothing has been deployed here yet.';
    return { kind: 'refuse', status: 404, code: 'never_deployed', reason: 'never_deployed', detail };
  }
  if (phase.name === 'crashed') {
    return unavailable(
      'crashed',
      'The app has crashed.',
      Math.max(1, (phase.retryAt - performance.now()) / 1000),
    );
  }
  if (phase.name === 'held') {
    const detail =
      'The app was stopped for what it keeps on the disk. Its owner can read why in its `last_error`.';
    return unavailable('stopped', detail, STOPPED_RETRY_AFTER_S);
  }
  return unavailable('stopped', 'The app is stopped.', STOPPED_RETRY_AFTER_S);
}

/** What a request gets for an app that was not woken. */
export function failedWake(retryAfterS: number): Refused {
  return unavailable('wake_failed', 'The app sleeps and could not be started.', Math.max(1, retryAfterS));
}

/** What a request gets that would need a new process when there is no memory for one. */
export function overloaded(): Refused {
  const detail = 'This host is short of memory and starts no more apps for now.';
  return unavailable('shed', detail, OVERLOADED_RETRY_AFTER_S);
}

function unavailable(reason: RefusalReason, detail: string, retryAfterS: number): Refused {
  return { kind: 'refuse', status: 503, code: 'app_unavailable', reason, detail, retryAfterS };
}
