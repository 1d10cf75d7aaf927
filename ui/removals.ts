// Removals that a person can undo for ten seconds.

/** Time in which a person can undo a removal, in ms. */
export const UNDO_MS = 10_000;

/** Removals that wait or run. */
const pending = new Set<() => Promise<void>>();

/**
 * Runs `commit` after ten seconds, before the next write, or when the page is left. `commit` must not reject.
 * @returns a function that cancels it, and returns false when it is too late
 */
export function removeLater(commit: () => Promise<void>): () => boolean {
  let running: Promise<void> | undefined;
  const run = () => {
    clearTimeout(timer);
    running ??= commit().finally(() => pending.delete(run));
    return running;
  };
  const timer = setTimeout(run, UNDO_MS);
  pending.add(run);
  return () => {
    if (running) return false;
    clearTimeout(timer);
    return pending.delete(run);
  };
}

/** Runs all pending removals now. Resolves when they have ended, so that none deletes what is written next. */
export async function flushRemovals(): Promise<void> {
  await Promise.all([...pending].map((run) => run()));
}

if (typeof window !== 'undefined') addEventListener('pagehide', () => void flushRemovals());
