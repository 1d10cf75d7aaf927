// Deploys: replaces one release by another. Two releases never share the app's storage, requests are queued meanwhile, and a
// failure is rolled back.
import { reason } from '../../log.ts';
import type { Cell } from '../process/cell.ts';
import { endProcesses, hibernate, retire, stop } from './ending.ts';
import type { ReleaseRef } from './launch.ts';
import type { Phase } from './phase.ts';
import type { Supervisor } from './supervisor.ts';

export interface SwapSteps {
  /**
   * Records the new release as the live one. Called once it runs; in `adopt`, once the databases are migrated. May reject.
   */
  commit: () => Promise<void>;
  log: (line: string) => void;
  /** Whether to skip the trial. If the new release then does not start, the previous one is started again. */
  isUntried?: boolean;
  /** Cancels the swap if aborted before the end of the trial; then nothing has changed. Has no effect with `isUntried`. */
  signal?: AbortSignal;
}

/** The body of `Fleet.swap`. */
export async function swap(supervisor: Supervisor, next: ReleaseRef, steps: SwapSteps): Promise<void> {
  const { closing } = supervisor.operations;
  if (!steps.isUntried) await tried(supervisor, next, steps);
  const before = supervisor.phase;
  const lastError = supervisor.lastError;
  await retire(supervisor, steps.log);
  try {
    const cell = await supervisor.launch(next, steps.log, closing);
    await commitOrStop(cell, steps.commit);
    supervisor.live = next;
    supervisor.forgive();
    supervisor.serve(cell);
  } catch (error) {
    if (before.name === 'held' && !closing.aborted) supervisor.enter(before, lastError);
    else await restore(supervisor, before, steps.log);
    throw error;
  }
}

/** The body of `Fleet.adopt`. */
export async function adopt(supervisor: Supervisor, next: ReleaseRef, steps: SwapSteps): Promise<void> {
  const { closing } = supervisor.operations;
  await tried(supervisor, next, steps);
  await stop(supervisor);
  try {
    await supervisor.launcher.migrate(next, steps.log, closing);
    await steps.commit();
    supervisor.live = next;
  } finally {
    supervisor.enter({ name: supervisor.live === null ? 'none' : 'stopped' });
  }
}

/** The body of `Fleet.renew`. */
export async function renew(supervisor: Supervisor, log: (line: string) => void): Promise<boolean> {
  const { phase, live, wanted } = supervisor;
  if (live === null) return false;
  if (phase.name === 'running' && !supervisor.asleep) {
    await swap(supervisor, live, { commit: async () => {}, log });
    return true;
  }
  if (phase.name === 'crashed' && supervisor.asleep) {
    supervisor.forgive();
    supervisor.cancelRestart();
    void supervisor.goIdle();
    return false;
  }
  if (phase.name === 'starting' || phase.name === 'crashed') {
    supervisor.forgive();
    await retire(supervisor, log);
    await supervisor.bringUp(wanted);
    return true;
  }
  // A sleeping app's process runs only for due work. If some work is left, a new process starts for it.
  if (phase.name === 'running') await hibernate(supervisor, phase);
  return false;
}

/** The body of `Fleet.renewVars`. */
export async function renewVars(supervisor: Supervisor, log: (line: string) => void): Promise<boolean> {
  const isCurrent = supervisor.phase.name === 'running' && supervisor.launcher.hasCurrentVars;
  return isCurrent ? !supervisor.asleep : renew(supervisor, log);
}

/** The body of `Fleet.replaceStorage`. */
export async function replaceStorage(
  supervisor: Supervisor,
  replace: () => Promise<void>,
  log: (line: string) => void,
): Promise<void> {
  const { phase: before, lastError } = supervisor;
  const slept = before.name === 'running' && supervisor.asleep;
  await retire(supervisor, log);
  await endProcesses(supervisor);
  try {
    await replace();
  } finally {
    supervisor.launcher.forgetStorage();
    if (before.name === 'held') supervisor.enter(before, lastError);
    else if (slept) await supervisor.goIdle();
    else await restore(supervisor, before, log);
  }
}

/** Runs the trial. @throws when the release does not load, or the swap was cancelled */
async function tried(
  { launcher, operations: { closing } }: Supervisor,
  next: ReleaseRef,
  { signal, log }: SwapSteps,
): Promise<void> {
  const givenUp = signal ? AbortSignal.any([closing, signal]) : closing;
  const notes = await launcher.try(next, givenUp);
  givenUp.throwIfAborted();
  for (const note of notes) log(note);
}

async function commitOrStop(cell: Cell, commit: () => Promise<void>): Promise<void> {
  try {
    await commit();
  } catch (error) {
    await cell.stop();
    throw error;
  }
}

/** Starts the previous release again. An app that was idle or stopped before gets no process. Never rejects. */
async function restore(supervisor: Supervisor, before: Phase, log: (line: string) => void): Promise<void> {
  const { name } = before;
  const { live } = supervisor;
  const { closing } = supervisor.operations;
  if (live === null || ['none', 'stopped', 'leased'].includes(name) || closing.aborted) {
    supervisor.enter({ name: live === null ? 'none' : 'stopped' });
    return;
  }
  if (name === 'idle') {
    await supervisor.goIdle();
    return;
  }
  try {
    supervisor.serve(await supervisor.launch(live, log, closing));
    log('the previous release serves again');
  } catch (error) {
    log(`the previous release does not start either: ${reason(error)}`);
    supervisor.failed(error);
  }
}
