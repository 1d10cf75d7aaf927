// Ends an app's processes: when they are idle, when the app sleeps, is stopped or exceeds its disk limit, or before new ones
// start. The operations of `Fleet` call these functions one at a time.
import { endProcessesOf } from '../../processes/orphaned-processes.ts';
import type { ReleaseRef } from './launch.ts';
import { type Leased, processesOf, type Running } from './phase.ts';
import type { Supervisor } from './supervisor.ts';

/** Time that requests in flight get before their process ends, in ms. */
const DRAIN_MS = 10_000;
/** Time limit to ask a process how many Workflow steps it runs, in ms. Without an answer, the number is taken as 0. */
const STEPS_TIMEOUT_MS = 1_000;

/**
 * Ends the processes of an app that is idle, or whose memory other apps need. Requests that come meanwhile are queued, and
 * start a new process.
 */
export async function hibernate(supervisor: Supervisor, phase: Running, lastError?: string): Promise<void> {
  supervisor.enter({ name: 'hibernating', gate: Promise.withResolvers() });
  await end(phase, supervisor.warn);
  void supervisor.goIdle(lastError);
}

/** The body of `Fleet.sleep`. */
export async function sleep(supervisor: Supervisor): Promise<void> {
  supervisor.cancelRestart();
  supervisor.asleep = true;
  supervisor.options.onAsleep(true);
  let isCut = false;
  const { phase, lastError } = supervisor;
  if (phase.name === 'running') {
    supervisor.enter({ name: 'hibernating', gate: Promise.withResolvers() });
    const cells = processesOf(phase).map(({ cell }) => cell);
    const steps = await Promise.all(cells.map((cell) => cell.stepsAtWork(STEPS_TIMEOUT_MS)));
    isCut = steps.some((count) => count > 0);
    await end(phase, supervisor.warn);
    supervisor.options.say('info', 'the app sleeps');
  }
  await supervisor.goIdle(lastError);
  // Starts a process at once for the steps that were cut. Their own alarms would resume them only after half a minute.
  if (isCut) supervisor.rest.resume({ dueAt: Date.now() });
}

/** The body of `Fleet.hold`. @param atOnce whether requests in flight are aborted */
export async function hold(supervisor: Supervisor, why: string, atOnce: boolean): Promise<void> {
  const { phase } = supervisor;
  if (['none', 'stopped', 'leased', 'held'].includes(phase.name)) return;
  supervisor.cancelRestart();
  supervisor.options.say('error', why);
  supervisor.enter({ name: 'held' }, why);
  if (phase.name !== 'running') return;
  if (!atOnce) return end(phase, supervisor.warn);
  phase.cell.kill();
  await Promise.all([phase.cell.exited, phase.replicas.end(0)]);
  phase.upstream.destroy();
}

/** Queues requests and ends the processes, if any. The caller then starts a new process, or enters another phase. */
export async function retire(supervisor: Supervisor, log: (line: string) => void): Promise<void> {
  supervisor.cancelRestart();
  const { phase } = supervisor;
  if (phase.name !== 'starting') {
    const hibernated = phase.name === 'idle';
    supervisor.enter({ name: 'starting', gate: Promise.withResolvers(), hibernated });
  }
  if (phase.name === 'running' || phase.name === 'leased') await end(phase, log, supervisor.options.drainMs);
}

/** The body of `Fleet.stop`. */
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

/**
 * Ends all processes of the app's user, even outside their sandbox or process group. Does nothing after `Fleet.close`: the
 * next start of the host, or the deletion or move of the app, ends them.
 */
export async function endProcesses({ options: { user }, operations }: Supervisor): Promise<void> {
  if (user !== null && !operations.closing.aborted) await endProcessesOf(user);
}

/**
 * Drains requests and leases, then ends the processes. The order matters: after SIGTERM, a process accepts no connection.
 */
async function end(phase: Running | Leased, log: (line: string) => void, drainMs = DRAIN_MS): Promise<void> {
  const { cell, leases } = phase;
  const drains = processesOf(phase).map(({ upstream }) => upstream.drain(drainMs));
  const [drained, ended] = await Promise.all([Promise.all(drains), leases.drain(drainMs)]);
  const cut = drained.reduce((sum, each) => sum + each.cut, 0);
  if (cut > 0) log(`${cut} requests did not end within ${drainMs / 1000} s and were cut`);
  if (ended > 0)
    log(
      `${ended} crons, queries or other calls of Cellar did not end within ${drainMs / 1000} s and were ended`,
    );
  await Promise.all([cell.stop(), phase.name === 'running' && phase.replicas.end(0)]);
}
