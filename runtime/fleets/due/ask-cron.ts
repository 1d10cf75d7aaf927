// Runs a cron of an app at once, on request. workerd runs it on schedule: see `cronServices` in
// `runtime/fleets/config/crons/crons.ts`.
import type { Result } from '../../../handlers/contract/index.ts';
import { askSocket } from '../../sockets/ask-socket.ts';
import type { LeasedCell } from '../admission/leasing.ts';

/** Maximum size of the process's answer, in bytes. It has at most one message. */
const ANSWER_BYTES = 64 * 1024;

type Ran = Result<'crons.run'>;

/**
 * Runs a cron in a leased process. Resolves after about ten seconds even if the run continues.
 * @returns `done`: the run's result; `failed`: why the run did not begin
 * @throws {Error} when the process does not answer, or its answer is invalid
 */
export async function askCron(
  { socketPath, signal }: LeasedCell,
  cron: string,
): Promise<{ done: Ran } | { failed: string }> {
  const body = JSON.stringify({ kind: 'cron', cron });
  const asked = { method: 'POST', body, limitBytes: ANSWER_BYTES, signal };
  const { status, text } = await askSocket(socketPath, asked);
  if (status !== 200 || text === null)
    throw new Error(`the process answered with status ${status} and no result`);
  const { done, failed } = JSON.parse(text) as { done?: Partial<Ran>; failed?: unknown };
  if (done === undefined) return { failed: String(failed) };
  // The answer may be anything, because it comes from the app's process.
  const { outcome, duration_ms, error, trace_id } = done;
  return {
    done: {
      cron,
      outcome: outcome === 'ok' || outcome === 'running' ? outcome : 'failed',
      duration_ms: Number.isSafeInteger(duration_ms) ? duration_ms! : null,
      error: typeof error === 'string' ? error : null,
      trace_id: typeof trace_id === 'string' ? trace_id : null,
    },
  };
}
