// Workflows that were at work when a process ended go on in the next one, at once: the engine by itself would look again at
// an alarm some minutes later.
import { reason } from '../../log.ts';
import { askSocket } from '../../sockets/ask-socket.ts';
import type { Lease } from '../admission/leases.ts';
import type { DueReader } from '../due/due.ts';
import type { Cell } from '../process/cell.ts';

/** Longest time for having all instances go on, in ms. The engine's own alarms are for those that were not reached. */
const RESUME_TIMEOUT_MS = 60_000;
const ANSWER_BYTES = 4_096;

/**
 * Has the engine in a process look at the instances that were interrupted. Never rejects.
 * @param release the directory of the release that the process runs
 * @param warn gets why they could not be asked for
 */
export async function resumeWorkflows(
  cell: Cell,
  {
    due,
    release,
    closing,
    lease,
    warn,
  }: {
    due: DueReader;
    release: string;
    closing: AbortSignal;
    lease: Lease;
    warn: (words: string) => void;
  },
): Promise<void> {
  const gone = new AbortController();
  void cell.exited.then(() => gone.abort());
  const signal = AbortSignal.any([
    closing,
    gone.signal,
    lease.signal,
    AbortSignal.timeout(RESUME_TIMEOUT_MS),
  ]);
  try {
    for (const [binding, instances] of Object.entries(await due.interrupted(release, signal))) {
      if (instances.length === 0) continue;
      const body = JSON.stringify({ kind: 'resume', binding, instances });
      const request = { method: 'POST', body, limitBytes: ANSWER_BYTES, signal };
      await askSocket(cell.socketPath('health'), request);
    }
  } catch (error) {
    if (!closing.aborted && !gone.signal.aborted && !lease.signal.aborted)
      warn(`Workflows that were interrupted go on some minutes later: ${reason(error)}`);
  }
}
