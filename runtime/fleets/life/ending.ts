// The ways in which an app's process ends: nobody needs it, the app sleeps or is stopped, it keeps too much on the disk, or
// another process takes its place. The fleet's operations call them one at a time.
import { endProcessesOf } from '../../processes/orphaned-processes.ts';
import type { ReleaseRef } from './launch.ts';
import type { Leased, Running } from './phase.ts';
import type { Supervisor } from './supervisor.ts';

/** Time that requests in flight get before their process ends, in ms. */
const DRAIN_MS = 10_000;
/** How long a process may take to say whether steps of Workflows run in it, in ms. After that it is ended all the same. */
const STEPS_TIMEOUT_MS = 1_000;

/** Ends a process that nobody needs, or whose memory others need. Requests that come meanwhile start another. */
export async function hibernate(supervisor: Supervisor, phase: Running, lastError?: string): Promise<void> {
  const { asleep } = phase;
  supervisor.options.say('info', 'the process goes, for nobody needs it now');
  supervisor.enter(asleep ? { name: 'asleep' } : { name: 'hibernating', gate: Promise.withResolvers() });
  await end(phase, supervisor.warn);
  void supervisor.goIdle(asleep ? 'asleep' : 'idle', lastError);
}

/** One of the operations of a fleet, for an app that does not sleep yet; `Fleet.sleep` says what it does. */
export async function sleep(supervisor: Supervisor, live: ReleaseRef | undefined): Promise<void> {
  supervisor.cancelRestart();
  supervisor.live ??= live ?? null;
  let isCut = false;
  const { phase, lastError } = supervisor;
  if (phase.name === 'running') {
    supervisor.enter({ name: 'hibernating', gate: Promise.withResolvers() });
    isCut = (await phase.cell.stepsAtWork(STEPS_TIMEOUT_MS)) > 0;
    await end(phase, supervisor.warn);
    supervisor.options.say('info', 'the app sleeps');
  }
  if (supervisor.live === null) supervisor.enter({ name: 'none' });
  else await supervisor.goIdle('asleep', lastError);
  // The engine's own alarm for a step that is at work lies some minutes ahead.
  if (isCut) supervisor.rest.resume({ dueAt: Date.now() });
}

/** One of the operations of a fleet; `Fleet.hold` says what it does. @param atOnce whether requests in flight are cut */
export async function hold(supervisor: Supervisor, why: string, atOnce: boolean): Promise<void> {
  const { phase } = supervisor;
  if (['none', 'stopped', 'leased', 'asleep', 'held'].includes(phase.name)) return;
  supervisor.cancelRestart();
  supervisor.options.say('error', why);
  supervisor.enter({ name: 'held', asleep: phase.name === 'running' && phase.asleep }, why);
  if (phase.name !== 'running') return;
  if (!atOnce) return end(phase, supervisor.warn);
  phase.cell.kill();
  await phase.cell.exited;
  phase.upstream.destroy();
}

/** Holds requests and ends the process, if there is one. The caller then starts another, or enters another phase. */
export async function retire(supervisor: Supervisor, log: (line: string) => void): Promise<void> {
  supervisor.cancelRestart();
  const { phase } = supervisor;
  if (phase.name !== 'starting') {
    const hibernated = phase.name === 'idle';
    supervisor.enter({ name: 'starting', gate: Promise.withResolvers(), hibernated });
  }
  if (phase.name === 'running' || phase.name === 'leased') await end(phase, log, supervisor.options.drainMs);
}

/** One of the operations of a fleet; `Fleet.stop` says what it does. */
export async function stop(supervisor: Supervisor, live?: ReleaseRef): Promise<void> {
  supervisor.cancelRestart();
  const { phase } = supervisor;
  supervisor.live ??= live ?? null;
  if (phase.name === 'running' || phase.name === 'leased') {
    supervisor.options.say('info', 'the app is stopped');
    supervisor.enter({ name: phase.name === 'running' ? 'draining' : 'stopped' });
    await end(phase, supervisor.warn, supervisor.options.drainMs);
  }
  await endProcesses(supervisor);
  supervisor.enter({ name: supervisor.live === null ? 'none' : 'stopped' });
}

/** Ends all processes of the app's user, also those that left their sandbox or process group. A host that stops leaves them to the next host. */
export async function endProcesses({ options: { user }, operations }: Supervisor): Promise<void> {
  if (user !== null && !operations.closing.aborted) await endProcessesOf(user);
}

/** Lets requests in flight and leases end, then ends the process: one that has had SIGTERM answers no new connection. */
async function end(phase: Running | Leased, log: (line: string) => void, drainMs = DRAIN_MS): Promise<void> {
  const { cell, leases } = phase;
  const requests = phase.name === 'running' ? phase.upstream.drain(drainMs) : { cut: 0 };
  const [{ cut }, ended] = await Promise.all([requests, leases.drain(drainMs)]);
  if (cut > 0) log(`${cut} requests did not end within ${drainMs / 1000} s and were cut`);
  if (ended > 0) log(`${ended} leases did not end within ${drainMs / 1000} s and were ended`);
  await cell.stop();
}
