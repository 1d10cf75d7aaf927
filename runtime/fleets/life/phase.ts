// The phases of a fleet as a union type, and whether a request is forwarded, held or refused in each.
import type { ProcessState } from '../../../handlers/contract/host/host-calls.ts';
import type { RefusalReason } from '../../edge/refusals.ts';
import type { Admission, Refused } from '../../edge/upstream/backend.ts';
import type { Upstream } from '../../edge/upstream/upstream.ts';
import type { Leases } from '../admission/leases.ts';
import type { Cell } from '../process/cell.ts';
import type { Replica, Replicas } from './replicas.ts';

/** The fleet's current phase, with its data. A `gate` resolves when the phase ends, and lets queued requests continue. */
export type Phase =
  | { name: 'none' }
  /** `hibernated`: the app was at rest, so this is not a restart after a failure. */
  | { name: 'starting'; gate: PromiseWithResolvers<void>; hibernated: boolean }
  | Running
  /** The app is being stopped. Its processes are ending, and get no new requests. */
  | { name: 'draining' }
  /** The processes of an idle or sleeping app are ending. Requests are queued, and start a new process afterwards. */
  | { name: 'hibernating'; gate: PromiseWithResolvers<void> }
  | { name: 'idle' }
  | { name: 'stopped' }
  | Leased
  /** The host has ended the process for its disk use. */
  | { name: 'held' }
  /** `retryAt`: time of the next start, as `performance.now()`. */
  | { name: 'crashed'; retryAt: number };

export interface Running {
  name: 'running';
  cell: Cell;
  upstream: Upstream;
  leases: Leases;
  /** The other processes of the app; `cell` is the first one. */
  replicas: Replicas;
}

/** A stopped app with a process for the holders of leases. */
export interface Leased {
  name: 'leased';
  cell: Cell;
  leases: Leases;
}

/** Retry-After of a stopped or held app. It is long, because such an app does not start by itself. */
const STOPPED_RETRY_AFTER_S = 60;
/** Retry-After when the host is short of memory. Memory becomes free as other apps become idle. */
const OVERLOADED_RETRY_AFTER_S = 5;

/** Retry-After while the bucket does not answer or this host is cut off. Cellar checks the bucket every half second. */
const AWAY_RETRY_AFTER_S = 2;

/** Why an app whose data is in the bucket has no process. */
export const BUCKET_AWAY =
  "The bucket with the app's data does not answer; the app starts again by itself once it does";

/** Returns the processes that take requests, the first one first. */
export function processesOf(phase: Phase): readonly Replica[] {
  return phase.name === 'running' ? [phase, ...phase.replicas.running] : [];
}

/** Returns how many requests and upgraded connections are open. */
export function openIn(processes: readonly Replica[]): number {
  return processes.reduce((sum, { upstream }) => sum + upstream.active + upstream.tunnels, 0);
}

/** Returns the process with the fewest open requests. */
function leastBusy({ upstream, replicas }: Running): Upstream {
  let least = upstream;
  for (const { upstream: other } of replicas.running)
    if (other.active + other.tunnels < least.active + least.tunnels) least = other;
  return least;
}

/** Returns the state for the API. A sleeping app is `stopped`, even with a process for due work, unless it has crashed. */
export function processState(phase: Phase, asleep: boolean): ProcessState {
  if (asleep && phase.name !== 'crashed') return 'stopped';
  switch (phase.name) {
    // The app still has processes, which get no new requests.
    case 'draining':
      return 'running';
    case 'starting':
      return phase.hibernated ? 'idle' : 'starting';
    case 'hibernating':
      return 'idle';
    case 'leased':
      return 'stopped';
    // A held app should run, so the API shows why it does not.
    case 'held':
      return 'crashed';
    default:
      return phase.name;
  }
}

/**
 * Returns whether a request is forwarded, held or refused.
 * @param coming resolves when the latest start requested by `Fleet.start` has ended; null when no such start is pending
 */
export function admission(phase: Phase, asleep: boolean, coming: Promise<void> | null): Admission {
  if (phase.name === 'running') return { kind: 'forward', upstream: leastBusy(phase) };
  if (phase.name === 'starting' || phase.name === 'hibernating') {
    return { kind: 'hold', ready: phase.gate.promise };
  }
  if (coming !== null) return { kind: 'hold', ready: coming };
  if (phase.name === 'none') {
    const detail = 'Nothing has been deployed here yet.';
    return { kind: 'refuse', status: 404, code: 'never_deployed', reason: 'never_deployed', detail };
  }
  if (phase.name === 'crashed') {
    const retryAfterS = Math.max(1, (phase.retryAt - performance.now()) / 1000);
    return asleep
      ? unavailable('wake_failed', 'The app sleeps and could not be started.', retryAfterS)
      : unavailable('crashed', 'The app has crashed.', retryAfterS);
  }
  if (phase.name === 'held') {
    const detail =
      'The app was stopped because it uses too much disk. Its owner can read why in its `last_error`.';
    return unavailable('stopped', detail, STOPPED_RETRY_AFTER_S);
  }
  return unavailable('stopped', 'The app is stopped.', STOPPED_RETRY_AFTER_S);
}

/** Returns the refusal of a request that needs a new process, because the host has no memory for one. */
export function overloaded(): Refused {
  const detail = 'This host is short of memory and starts no more apps for now.';
  return unavailable('shed', detail, OVERLOADED_RETRY_AFTER_S);
}

/**
 * Returns the refusal of a request that needs a new process.
 * @param obstacle why none may run, from `Supervisor.obstacle`
 */
export function noProcess(obstacle: string): Refused {
  const reason = obstacle === BUCKET_AWAY ? 'bucket_away' : 'cut_off';
  return unavailable(reason, `${obstacle}.`, AWAY_RETRY_AFTER_S);
}

function unavailable(reason: RefusalReason, detail: string, retryAfterS: number): Refused {
  return { kind: 'refuse', status: 503, code: 'app_unavailable', reason, detail, retryAfterS };
}
