// Moves the apps of a host to other hosts, when the host is drained, shuts down or is lost.
import { movableAmong, movableApps, moveDeletions } from '../../sqlite/control/hosts.ts';
import type { AppObject } from '../app/app-object.ts';

/** Maximum ids of apps that are read at once, by the reason. A drain may become urgent after each move. */
const BATCH = { drained: 1, leaves: 500, lost: 500 };
/** Concurrent moves, by the reason for them. */
const MOVES = { drained: 1, leaves: 4, lost: 8 };

export interface Evacuation {
  db: D1Database;
  /** The host that apps move away from. */
  from: string;
  /**
   * `drained`: the host continues to serve. `leaves`: it waits for the moves, then ends. `lost`: it does not report any
   * more.
   */
  why: () => keyof typeof MOVES;
  app: (id: string) => DurableObjectStub<AppObject>;
  /** Returns the ids of apps that move next, because requests wait for them. A second call does not return them again. */
  awaited: () => string[];
  /** Returns the host for the next app; null when no host takes apps. */
  place: () => string | null;
  /** Called after each move. */
  moved: () => void;
  /** Whether the apps still have to move. */
  goesOn: () => boolean;
}

/** Moves all movable apps away from a host, with one attempt for each app. The next run tries the failed moves again. */
export async function evacuate(evacuation: Evacuation): Promise<void> {
  const { db, from, why, place } = evacuation;
  const heir = why() === 'lost' ? place() : null;
  if (heir !== null) await moveDeletions(db, from, heir);
  const run: Run = { evacuation, ids: [], begun: new Set(), failed: 0 };
  for (;;) {
    const ids = await movableApps(db, from, BATCH[why()] + run.failed);
    run.ids = ids.filter((id) => !run.begun.has(id));
    if (run.ids.length === 0) return;
    const workers = Array.from({ length: MOVES[why()] }, () => moveNext(run));
    const ends = await Promise.all(workers);
    if (ends.includes('stopped')) return;
  }
}

/** A run that moves the apps of a host. */
interface Run {
  evacuation: Evacuation;
  /** Apps that move next. */
  ids: string[];
  /** Apps whose move has begun, whether it ended or not. */
  begun: Set<string>;
  failed: number;
}

async function moveNext(run: Run): Promise<'done' | 'stopped'> {
  const { from, why, app, place, moved, goesOn } = run.evacuation;
  for (let id = await next(run); id !== undefined; id = await next(run)) {
    const to = goesOn() ? place() : null;
    if (to === null) return 'stopped';
    const problem = await app(id)
      .rehome(id, { from, to, isLost: why() === 'lost' })
      .then(
        (outcome) => (outcome.ok ? null : outcome.detail),
        (error: unknown) => (error as Error).message,
      );
    if (problem === null) {
      moved();
      continue;
    }
    run.failed++;
    console.error(`app ${id} did not move from host ${from} to ${to}: ${problem}`);
  }
  return 'done';
}

/** Returns the id of the app that moves next; undefined when all moves of the batch have begun. */
async function next(run: Run): Promise<string | undefined> {
  const { db, from, awaited } = run.evacuation;
  const hurried = awaited();
  if (hurried.length > 0) run.ids.unshift(...(await movableAmong(db, from, hurried)));
  let id = run.ids.shift();
  while (id !== undefined && run.begun.has(id)) id = run.ids.shift();
  if (id !== undefined) run.begun.add(id);
  return id;
}
