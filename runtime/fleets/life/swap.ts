// The deploy swap: one release in the place of another. At no time do two processes have the app's storage, requests are
// held meanwhile, and after a failure all is as it was.
import { reason } from '../../log.ts';
import type { Cell } from '../process/cell.ts';
import { endProcesses, hibernate, retire, stop } from './ending.ts';
import type { ReleaseRef } from './launch.ts';
import type { Phase } from './phase.ts';
import type { Supervisor } from './supervisor.ts';

/** What a swap does at which moment. */
export interface SwapSteps {
  /** Makes the new release the live one for good. Called once it runs; it gets requests when this has resolved. May reject. */
  commit: () => Promise<void>;
  log: (line: string) => void;
  /** Whether the release is not tried beside the running one first. If it does not start, the one before starts again. */
  isUntried?: boolean;
  /** Gives the swap up before anything is changed: while it waits for its turn, and while the release is tried. */
  signal?: AbortSignal;
}

/** One of the operations of a fleet; `Fleet.swap` says what it does. */
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

/** One of the operations of a fleet; `Fleet.adopt` says what it does. */
export async function adopt(
  supervisor: Supervisor,
  next: ReleaseRef,
  steps: SwapSteps,
  resting: 'asleep' | 'stopped',
): Promise<void> {
  const { closing } = supervisor.operations;
  await tried(supervisor, next, steps);
  if (resting === 'asleep') await retire(supervisor, steps.log);
  else await stop(supervisor);
  try {
    await supervisor.launcher.migrate(next, steps.log, closing);
    await steps.commit();
    supervisor.live = next;
  } finally {
    if (resting === 'asleep') await supervisor.goIdle('asleep');
    else supervisor.enter({ name: supervisor.live === null ? 'none' : 'stopped' });
  }
}

/** One of the operations of a fleet; `Fleet.renew` says what it does. */
export async function renew(supervisor: Supervisor, log: (line: string) => void): Promise<boolean> {
  const { phase, live, wanted } = supervisor;
  if (live === null) return false;
  if (phase.name === 'running' && !phase.asleep) {
    await swap(supervisor, live, { commit: async () => {}, log });
    return true;
  }
  if (phase.name === 'starting' || phase.name === 'crashed') {
    supervisor.forgive();
    await retire(supervisor, log);
    await supervisor.bringUp(wanted);
    return true;
  }
  // It runs for due work only, and comes back for what is left of that.
  if (phase.name === 'running') await hibernate(supervisor, phase);
  return false;
}

/** One of the operations of a fleet; `Fleet.replaceStorage` says what it does. */
export async function replaceStorage(
  supervisor: Supervisor,
  replace: () => Promise<void>,
  log: (line: string) => void,
): Promise<void> {
  const { phase: before, lastError } = supervisor;
  const slept = before.name === 'running' && before.asleep;
  await retire(supervisor, log);
  await endProcesses(supervisor);
  try {
    await replace();
  } finally {
    supervisor.launcher.forgetStorage();
    if (before.name === 'held') supervisor.enter(before, lastError);
    else if (slept) await supervisor.goIdle('asleep');
    else await restore(supervisor, before.name === 'leased' ? { name: 'stopped' } : before, log);
  }
}

/** @throws when the release does not load, or the swap was given up */
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

/** Starts the release that served before again; an app that did not run stays as it was. */
async function restore(supervisor: Supervisor, before: Phase, log: (line: string) => void): Promise<void> {
  const { name } = before;
  const { live } = supervisor;
  const { closing } = supervisor.operations;
  if (live === null || name === 'none' || name === 'stopped' || closing.aborted) {
    supervisor.enter({ name: live === null ? 'none' : 'stopped' });
    return;
  }
  if (name === 'idle' || name === 'asleep') {
    await supervisor.goIdle(name);
    return;
  }
  try {
    supervisor.serve(await supervisor.launch(live, log, closing));
    log('the release before serves again');
  } catch (error) {
    log(`the release before does not start either: ${reason(error)}`);
    supervisor.failed(error);
  }
}
