// Resumes interrupted Workflows at once when a new process starts. workerd's Workflows engine alone would wait for their
// alarms.
import { reason } from '../../log.ts';
import { askSocket } from '../../sockets/ask-socket.ts';
import type { Lease } from '../admission/leases.ts';
import type { DueReader } from '../due/due.ts';
import type { Cell } from '../process/cell.ts';

/** Time limit to resume all instances, in ms. Their own alarms resume the remaining ones. */
const RESUME_TIMEOUT_MS = 60_000;
const ANSWER_BYTES = 4_096;

/**
 * Makes workerd's Workflows engine resume the interrupted instances. Never rejects.
 * @param release the directory of the process's release
 * @param warn gets the reason of a failure
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
      warn(
        `interrupted Workflows could not be resumed, and continue by themselves in half a minute: ${reason(error)}`,
      );
  }
}
