// Finds when an app without a process has work to do. workerd keeps alarms on disk, and runs overdue ones as soon as it
// starts.
import { SerialQueue } from '../../queues/serial-queue.ts';
import { cronKeys } from '../config/crons/crons.ts';
import type { DueWork } from '../process/write-cell-files.ts';
import type { Alarm, AlarmsReader } from './alarms.ts';

/** How far ahead the alarm of a working Workflow instance may be, with a margin, in ms. Older Cellars set it to ten minutes. */
export const AT_WORK_MS = 11 * 60 * 1000;
/** Instances of each Workflow to resume at a start. Each takes memory; too many could end the new process at once. */
const RESUMED = 300;

/** An app at rest, without a process. */
export interface RestingApp {
  /** When its next work is due, in ms since 1970; null for never. */
  dueAt: number | null;
}

/** Returns when the next work is due, in ms since 1970; `null` for never. May be aborted. */
type Find = (signal: AbortSignal) => Promise<number | null>;

/** Records the app's rest, the time without a process. The record is `null` while there is a process. */
export class RestRecord {
  readonly #keep: (rest: RestingApp | null) => Promise<void>;
  #rest: RestingApp | null = null;
  /** Aborted at the end of this rest. */
  #over = new AbortController();

  /** @param keep stores the record for a restart of the host and, once it resolves, for a power loss. Must not reject */
  constructor(keep: (rest: RestingApp | null) => Promise<void>) {
    this.#keep = keep;
  }

  /** Restores the record from before a restart of the host. */
  resume(rest: RestingApp): void {
    this.#rest = rest;
  }

  /**
   * Call when the process has ended. Records when work is next due. Resolves when that is known, or when a process runs again.
   * Never rejects.
   * @param delayMs delay for work that is already due
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
   * Finds when work is due for a resting app that has none so far. Ignores the answer if a process ran meanwhile.
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
   * Call before a process runs the app's code, which may change what is due. Resolves when the end of the rest is on disk. Never
   * rejects.
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
  /** Returns the parts of a release that have work to do, by its directory. */
  workOf: (release: string) => Promise<DueWork>;
  readAlarms: AlarmsReader;
}

/** Reads one app's next work from its storage. */
export class DueReader {
  readonly #options: DueReaderOptions;
  readonly #queue = new SerialQueue();

  constructor(options: DueReaderOptions) {
    this.#options = options;
  }

  /**
   * Returns the app's earliest alarm, queue batch or cron, in ms since 1970; `null` for never. Running work counts until it
   * has ended. May be called while the process runs.
   * @param release the directory of the live release
   * @throws {Error} when a file cannot be read
   */
  next(release: string, signal: AbortSignal): Promise<number | null> {
    return this.#queue.run(() => this.#read(release, signal));
  }

  /**
   * Returns Workflow instances that may have been at work when their process ended. workerd sets a working instance's alarm
   * half a minute ahead, and a waiting one's to the end of its wait. The latest alarms belong to the newest work; instances
   * with earlier alarms wake by themselves.
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
   * Returns the release's crons with their due times as `Alarm.time`; null if no process has set it yet.
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

/** When each cron is due: its schedule's alarm. One never set is due now, because only a process can set it. */
function nextCrons(crons: string[], alarms: Alarm[]): number[] {
  const next = new Map(alarms.map(({ name, time }) => [name, time]));
  return crons.map((cron) => next.get(cron) ?? Date.now());
}
