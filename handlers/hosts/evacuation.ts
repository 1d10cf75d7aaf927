// Moves the apps of a host to others, when it is drained, shuts down or is lost.
import { movableApps, moveDeletions } from '../../sqlite/control/hosts.ts';
import type { AppObject } from '../app/app-object.ts';

/** Apps that are read at once. */
const BATCH = 500;
/** Moves at the same time, by why the apps move. */
const MOVES = { drained: 1, leaves: 4, lost: 8 };

export interface Evacuation {
  db: D1Database;
  /** The host that apps move away from. */
  from: string;
  /** `drained`: the host serves on. `leaves`: it waits for the moves, and ends then. */
  why: () => keyof typeof MOVES;
  app: (id: string) => DurableObjectStub<AppObject>;
  /** Returns the host for the next app; null when no host takes apps. */
  place: () => string | null;
  /** Called after each move. */
  moved: () => void;
  /** Whether the apps still have to move. */
  goesOn: () => boolean;
}

/** Moves every app that can move. The next run tries again those that failed. */
export async function evacuate(evacuation: Evacuation): Promise<void> {
  const { db, from, why, place } = evacuation;
  const heir = why() === 'lost' ? place() : null;
  if (heir !== null) await moveDeletions(db, from, heir);
  const failed = new Set<string>();
  for (;;) {
    const ids = (await movableApps(db, from, BATCH + failed.size)).filter((id) => !failed.has(id));
    if (ids.length === 0) return;
    const workers = Array.from({ length: MOVES[why()] }, () => moveNext(evacuation, ids, failed));
    const ends = await Promise.all(workers);
    if (ends.includes('stopped')) return;
  }
}

async function moveNext(
  { from, why, app, place, moved, goesOn }: Evacuation,
  ids: string[],
  failed: Set<string>,
): Promise<'done' | 'stopped'> {
  for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
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
    failed.add(id);
    console.error(`app ${id} did not move from host ${from} to ${to}: ${problem}`);
  }
  return 'done';
}
