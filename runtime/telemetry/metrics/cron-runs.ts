// Stores the last run of each cron: time, duration and outcome.
import type { CronRun } from '../../../handlers/contract/apps/crons.ts';
import {
  CRON_MIGRATIONS,
  type CronRunQueries,
  type CronRunRow,
  cronRunQueries,
} from '../../../sqlite/telemetry/cron-runs.ts';
import type { ReportedRun } from '../logs/log-lines.ts';
import type { Immediate, Part } from '../part.ts';
import type { Store } from '../store/store.ts';

/** Maximum crons of an app: a process can report any number. */
const KEPT_MAX = 200;
/** Rows in one batch of removals. */
const PIECE = 500;

export class CronRuns implements Part {
  readonly name = 'crons';
  readonly dropped = { cron_runs: 0 };
  readonly answers: Immediate<'crons/last'>;
  readonly #rows: CronRunQueries;
  /** Unwritten runs, by app and cron. */
  readonly #unwritten = new Map<string, Map<string, CronRunRow>>();

  constructor(store: Store) {
    this.#rows = cronRunQueries(store.open('crons', CRON_MIGRATIONS));
    this.answers = {
      'crons/last': ({ appId }) => {
        this.flush();
        return Object.fromEntries(this.#rows.of(appId).map((row) => [row.cron, shown(row)]));
      },
    };
  }

  /** Takes a process's report of a finished run. */
  report(appId: string, traceId: string | null, run: ReportedRun): void {
    const rows = this.#unwritten.get(appId) ?? new Map<string, CronRunRow>();
    this.#unwritten.set(appId, rows);
    if (rows.size >= KEPT_MAX && !rows.has(run.cron)) {
      this.dropped.cron_runs++;
      return;
    }
    const { cron, trigger, startedAt, durationMs, outcome, error } = run;
    rows.set(cron, {
      app_id: appId,
      cron,
      trigger,
      started_at: startedAt,
      duration_ms: durationMs,
      outcome,
      error,
      trace_id: traceId,
    });
  }

  flush(): void {
    if (this.#unwritten.size === 0) return;
    this.#rows.transaction(() => {
      for (const [appId, rows] of this.#unwritten) {
        for (const row of rows.values()) this.#rows.put(row);
        this.dropped.cron_runs += this.#rows.trim(appId, KEPT_MAX);
      }
    });
    this.#unwritten.clear();
  }

  forget(appId: string): boolean {
    this.#unwritten.delete(appId);
    return this.#rows.deleteOf(appId, PIECE) === PIECE;
  }

  apps(): string[] {
    return this.#rows.apps();
  }
}

function shown({ trigger, started_at, duration_ms, outcome, error, trace_id }: CronRunRow): CronRun {
  return { at: new Date(started_at).toISOString(), trigger, outcome, duration_ms, error, trace_id };
}
