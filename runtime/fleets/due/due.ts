// Finds when an app's next work is due, so that a process can be started for it. workerd stores alarms on disk, and runs
// overdue ones as soon as it starts.
import { SerialQueue } from '../../queues/serial-queue.ts';
import { cronKeys } from '../config/crons/crons.ts';
import type { DueWork } from '../process/write-cell-files.ts';
import type { Alarm, AlarmsReader } from './alarms.ts';

/**
 * A Workflow instance may be at work if its alarm is at most this far ahead, in ms. Cellar sets the alarm half a minute
 * ahead; workerd alone, as in older versions of Cellar, ten minutes.
 */
export const AT_WORK_MS = 11 * 60 * 1000;
/**
 * Maximum instances of each Workflow to resume at a start. Each takes memory, so too many could exceed the process's limit.
 */
const RESUMED = 300;

/** An app at rest, without a process. */
export interface RestingApp {
  /** When its next work is due, in ms since 1970; null for never. */
  dueAt: number | null;
}

/** Returns when the next work is due, in ms since 1970; `null` for never. Rejects when the signal aborts it. */
type Find = (signal: AbortSignal) => Promise<number | null>;

/**
 * Records when work is next due for an app at rest, that is, without a process. The record is `null` while a process runs.
 */
export class RestRecord {
  readonly #keep: (rest: RestingApp | null) => Promise<void>;
  #rest: RestingApp | null = null;
  /** Aborted at the end of this rest. */
  #over = new AbortController();

  /** @param keep stores the record. Once it resolves, the record also survives a power loss. Must not reject */
  constructor(keep: (rest: RestingApp | null) => Promise<void>) {
    this.#keep = keep;
  }

  /** Restores the record from before a restart of the host. */
  resume(rest: RestingApp): void {
    this.#rest = rest;
  }

  /**
   * Call when the process has ended. Records when work is next due. Resolves when this time is known, or when a process
   * starts. Never rejects.
   * @param delayMs delay for work that is already due, in ms
   */
  async begin(find: Find, delayMs = 0): Promise<void> {
    this.#over.abort();
    this.#over = new AbortController();
    const { signal } = this.#over;
    const earliest = Date.now() + delayMs;
    const dueAt = await find(signal).catch(() => undefined);
    if (dueAt === undefined || signal.aborted) return;
    this.#rest = { dueAt };
    void this.#keep(this.#rest);
    if (this.isDue() && delayMs > 0) this.#rest = { dueAt: earliest };
  }

  /**
   * Finds when work is due for an app at rest whose record has no due time. Ignores the answer if a process started
   * meanwhile.
   * @throws what `find` throws
   */
  async learn(find: () => Promise<number | null>): Promise<void> {
    if (this.#rest === null || this.#rest.dueAt !== null) return;
    const { signal } = this.#over;
    const dueAt = await find();
    if (dueAt === null || signal.aborted) return;
    this.#rest = { dueAt };
    await this.#keep(this.#rest);
  }

  /**
   * Call before a process runs the app's code, which may change when work is due. Removes the record. Resolves when the
   * removal is on disk. Never rejects.
   */
  async end(): Promise<void> {
    this.#over.abort();
    const rested = this.#rest !== null;
    this.#rest = null;
    if (rested) await this.#keep(null);
  }

  isDue(): boolean {
    const dueAt = this.#rest?.dueAt ?? null;
    return dueAt !== null && dueAt <= Date.now();
  }
}

export interface DueReaderOptions {
  /** Returns the parts of a release that run without a request, such as crons. @param release the release's directory */
  workOf: (release: string) => Promise<DueWork>;
  readAlarms: AlarmsReader;
}

/** Reads from one app's storage when its next work is due. */
export class DueReader {
  readonly #options: DueReaderOptions;
  readonly #queue = new SerialQueue();

  constructor(options: DueReaderOptions) {
    this.#options = options;
  }

  /**
   * Returns the time of the app's earliest alarm, queue batch or cron, in ms since 1970; `null` for none. An alarm whose
   * handler still runs counts too. May be called while the process runs.
   * @param release the directory of the live release
   * @throws {Error} when a file cannot be read
   */
  next(release: string, signal: AbortSignal): Promise<number | null> {
    return this.#queue.run(() => this.#read(release, signal));
  }

  /**
   * Returns Workflow instances that may have been at work when their process ended: those whose alarm is within
   * `AT_WORK_MS`. The engine sets the alarm of an instance at work half a minute ahead, and that of a waiting instance to
   * the end of its wait. If there are too many, those with the latest alarms are returned; the alarms of the others resume
   * them.
   * @param release the directory of the live release
   * @returns the instances' names, by the binding of the Workflow
   * @throws {Error} when a file cannot be read
   */
  interrupted(release: string, signal: AbortSignal): Promise<Record<string, string[]>> {
    return this.#queue.run(async () => {
      const { workflows } = await this.#options.workOf(release);
      if (workflows.length === 0) return {};
      const named = workflows.map(({ key }) => key);
      const before = Date.now() + AT_WORK_MS;
      const { alarms } = await this.#options.readAlarms({ earliest: [], named, before }, signal);
      return Object.fromEntries(
        workflows.map(({ binding }, n) => [binding, alarms[n]!.slice(0, RESUMED).map(({ name }) => name)]),
      );
    });
  }

  /**
   * Returns the release's crons. `time` is when the cron is next due; null if no process has scheduled it yet.
   * @throws {Error} when the file cannot be read
   */
  crons(release: string, signal: AbortSignal): Promise<Alarm[]> {
    return this.#queue.run(async () => {
      const { crons } = await this.#options.workOf(release);
      const { alarms } = await this.#alarms([], crons, signal);
      const set = new Map(alarms.map(({ name, time }) => [name, time]));
      return crons.map((name) => ({ name, time: set.get(name) ?? null }));
    });
  }

  async #read(release: string, signal: AbortSignal): Promise<number | null> {
    const { keys, crons } = await this.#options.workOf(release);
    const { times, alarms } = await this.#alarms(keys, crons, signal);
    const all = [...times, ...nextCrons(crons, alarms)].filter((time) => time !== null);
    return all.length === 0 ? null : Math.min(...all);
  }

  /** Returns the earliest alarm of each key, and the alarms of all crons. */
  async #alarms(
    keys: string[],
    crons: string[],
    signal: AbortSignal,
  ): Promise<{ times: (number | null)[]; alarms: Alarm[] }> {
    const asked = {
      earliest: keys,
      named: cronKeys(crons),
      before: Number.POSITIVE_INFINITY,
    };
    const { times, alarms } = await this.#options.readAlarms(asked, signal);
    return { times, alarms: alarms.flat() };
  }
}

/**
 * Returns when each cron is due: the time of its schedule's alarm. A cron without an alarm is due now: only a process can
 * set it.
 */
function nextCrons(crons: string[], alarms: Alarm[]): number[] {
  const next = new Map(alarms.map(({ name, time }) => [name, time]));
  return crons.map((cron) => next.get(cron) ?? Date.now());
}
