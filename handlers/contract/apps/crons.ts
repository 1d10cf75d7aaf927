// The crons of an app's live release. RPC only.
import * as z from 'zod';
import { listOf, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** A finished run of a cron. */
export const CronRun = z.strictObject({
  /** When the run began. */
  at: time,
  /** `manual`: started by a person. */
  trigger: z.enum(['schedule', 'manual']),
  outcome: z.enum(['ok', 'failed']),
  duration_ms: z.int(),
  error: z.string().nullable(),
  /** The run's log lines have the same id. */
  trace_id: z.string().nullable(),
});
export type CronRun = z.output<typeof CronRun>;

export const crons = [
  operation({
    name: 'crons.list',
    summary: 'Lists the crons of the live release: when each runs next, and how it ran last',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(
      z.strictObject({
        /** The expression, in UTC. */
        cron: z.string(),
        /** Time of the next run; null while the app is stopped. A time in the past means that the cron is running now. */
        next_at: time.nullable(),
        last_run: CronRun.nullable(),
      }),
    ),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'crons.run',
    summary: 'Runs a cron now, as its schedule does; a sleeping app also runs the cron, and stays asleep',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, cron: z.string().min(1).max(200) }),
    output: z.strictObject({
      cron: z.string(),
      /** `running`: not finished after ten seconds; `crons.list` reports the outcome later. */
      outcome: z.enum(['ok', 'failed', 'running']),
      duration_ms: z.int().nullable(),
      error: z.string().nullable(),
      trace_id: z.string().nullable(),
    }),
    errors: ['cron_not_found', 'transition_conflict', 'app_unavailable', 'host_unavailable'],
  }),
] as const;
