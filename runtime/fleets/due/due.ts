// When an app without a process has work to do. workerd keeps alarms on disk, and fires one that is overdue as soon
// as it runs again.
import { join } from 'node:path';
import type { User } from '../../isolation/users.ts';
import { CRON_KEY } from '../config/bundled-services.ts';
import type { DueWork } from '../process/write-cell-files.ts';
import { type Alarm, type AlarmsAsked, readAlarms } from './alarms.ts';

/** How far ahead the engine of Workflows sets the alarm of an instance that is at work, in ms, and some more. */
const AT_WORK_MS = 11 * 60 * 1000;
/** Instances of each Workflow that are resumed at a start: each takes memory, and more could end the new process at once. */
const RESUMED = 300;

/** An app that has no process, because nobody needs it. `dueAt`: when it has work to do, in ms since 1970; null for never. */
export interface Rest {
  dueAt: number | null;
}

/** Finds out when there is work to do, in ms since 1970; `null` for never. It may be given up. */
type Find = (signal: AbortSignal) => Promise<number | null>;

/** The time without a process, as kept by the host: `null` while there is one. */
export class RestRecord {
  readonly #keep: (rest: Rest | null) => Promise<void>;
  #rest: Rest | null = null;
  /** Aborted at the end of this time. */
  #over = new AbortController();

  /** @param keep writes it down, so that it outlives the host and, once it has resolved, the machine. Must not reject */
  constructor(keep: (rest: Rest | null) => Promise<void>) {
    this.#keep = keep;
  }

  /** Takes over what the host had written down. */
  resume(rest: Rest): void {
    this.#rest = rest;
  }

  /**
   * The process has gone.
   * @param find finds the work that the process left
   * @param delayMs time that work waits which is due already
   * @returns when that is known, or there is a process again. Never rejects
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
   * To be called before a process runs code of the app, which may change what is due.
   * @returns when that is written down for good. Never rejects
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

/** Asks one app's storage when there is work to do. */
export class DueReader {
  readonly #user: User | null;
  readonly #data: string;
  readonly #scratch: string;
  readonly #workOf: (release: string) => Promise<DueWork>;
  #last: Promise<unknown> = Promise.resolve();

  /**
   * @param data the app's data directory, whose files are read as `user`
   * @param workOf what of the release in a directory has work to do
   * @param scratch a directory of this reader alone, for copies
   */
  constructor(
    user: User | null,
    data: string,
    workOf: (release: string) => Promise<DueWork>,
    scratch = join(data, 'alarms'),
  ) {
    this.#user = user;
    this.#data = data;
    this.#workOf = workOf;
    this.#scratch = scratch;
  }

  /**
   * The app's earliest alarm, batch of a queue or cron, in ms since 1970; `null` for never. What is being run counts
   * until it has ended. May be asked while the process runs.
   * @param release the directory of the release that is live
   * @throws {Error} when a file cannot be read
   */
  next(release: string, signal: AbortSignal): Promise<number | null> {
    return this.#inTurn(() => this.#read(release, signal));
  }

  /**
   * Instances of the app's Workflows that may have been at work when a process of its ended: the engine sets the alarm of
   * one that is at work to some minutes ahead, and that of one that waits to the end of its wait. The latest alarms are those
   * of work that began last; what is due sooner is woken by itself.
   * @param release the directory of the release that is live
   * @returns by the binding of the Workflow
   * @throws {Error} when a file cannot be read
   */
  interrupted(release: string, signal: AbortSignal): Promise<Record<string, string[]>> {
    return this.#inTurn(async () => {
      const { workflows } = await this.#workOf(release);
      if (workflows.length === 0) return {};
      const named = workflows.map(({ key }) => this.#metadata(key));
      const before = Date.now() + AT_WORK_MS;
      const { alarms } = await this.#ask({ earliest: [], named, before }, signal);
      return Object.fromEntries(
        workflows.map(({ binding }, n) => [binding, alarms[n]!.slice(0, RESUMED).map(({ name }) => name)]),
      );
    });
  }

  #inTurn<T>(read: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(read);
    this.#last = turn.catch(() => {});
    return turn;
  }

  /**
   * The release's crons, and when each is due as `Alarm.time`: null where no process has set it yet.
   * @throws {Error} when the file cannot be read
   */
  crons(release: string, signal: AbortSignal): Promise<Alarm[]> {
    return this.#inTurn(async () => {
      const { crons } = await this.#workOf(release);
      const { alarms } = await this.#alarms([], crons, signal);
      const set = new Map(alarms.map(({ name, time }) => [name, time]));
      return crons.map((name) => ({ name, time: set.get(name) ?? null }));
    });
  }

  async #read(release: string, signal: AbortSignal): Promise<number | null> {
    const { keys, crons } = await this.#workOf(release);
    const { times, alarms } = await this.#alarms(keys, crons, signal);
    const all = [...times, ...nextCrons(crons, alarms)].filter((time) => time !== null);
    return all.length === 0 ? null : Math.min(...all);
  }

  /** The earliest alarm of each of the keys, and those of all crons. */
  async #alarms(
    keys: string[],
    crons: string[],
    signal: AbortSignal,
  ): Promise<{ times: (number | null)[]; alarms: Alarm[] }> {
    const asked = {
      earliest: keys.map((key) => this.#metadata(key)),
      named: crons.length === 0 ? [] : [this.#metadata(CRON_KEY)],
      before: Number.POSITIVE_INFINITY,
    };
    const { times, alarms } = await this.#ask(asked, signal);
    return { times, alarms: alarms.flat() };
  }

  #metadata(key: string): string {
    return join(this.#data, 'do', key, 'metadata.sqlite');
  }

  #ask(asked: AlarmsAsked, signal: AbortSignal): ReturnType<typeof readAlarms> {
    return readAlarms(asked, { user: this.#user, scratch: this.#scratch, signal });
  }
}

/** When each cron is due: its schedule's alarm, or now if that was never set, which only a process can do. */
function nextCrons(crons: string[], alarms: Alarm[]): number[] {
  const next = new Map(alarms.map(({ name, time }) => [name, time]));
  return crons.map((cron) => next.get(cron) ?? Date.now());
}
