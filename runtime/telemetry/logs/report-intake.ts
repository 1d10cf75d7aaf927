// Takes apps' reports through their binding to `cellar`, within a rate limit for each app. Passes the reports to the
// host about every second.
import type { AppReport } from '../../../handlers/contract/host/host-calls.ts';
import type { Part } from '../part.ts';
import { AppAllowances } from '../store/app-allowances.ts';
import type { ReportedByApp } from './log-lines.ts';

/** Rate limit of an app's reports, per second. */
const REPORTS_PER_S = 50;
/** Largest burst: what the rate limit allows in this many seconds. */
const SAVED_S = 10;

export class ReportIntake implements Part {
  readonly name = 'reports';
  readonly answers = {};
  readonly dropped = { reports: 0 };
  readonly #pass: (reports: AppReport[], dropped: [appId: string, count: number][]) => void;
  readonly #allowances = new AppAllowances(REPORTS_PER_S, SAVED_S);
  #reports: AppReport[] = [];
  #droppedOf = new Map<string, number>();

  /** @param pass called with the reports, and the number of dropped reports by app */
  constructor(pass: (reports: AppReport[], dropped: [appId: string, count: number][]) => void) {
    this.#pass = pass;
  }

  /** Takes a report that an app sent. @param at ms since 1970 */
  report(appId: string, at: number, { kind, input }: ReportedByApp): void {
    if (this.#allowances.takes(appId)) {
      this.#reports.push({ app_id: appId, at: new Date(at).toISOString(), kind, input });
      return;
    }
    this.dropped.reports++;
    this.#droppedOf.set(appId, (this.#droppedOf.get(appId) ?? 0) + 1);
  }

  flush(): void {
    if (this.#reports.length === 0 && this.#droppedOf.size === 0) return;
    this.#pass(this.#reports, [...this.#droppedOf]);
    this.#reports = [];
    this.#droppedOf = new Map();
  }

  prune(): boolean {
    this.#allowances.tidy();
    return false;
  }

  forget(appId: string): boolean {
    this.#allowances.forget(appId);
    return false;
  }
}
