// When an app without a process has work to do. workerd keeps alarms on disk, and fires one that is overdue as soon
// as it runs again.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Release } from '../../bundler/release.ts';
import { earliestAlarm, firstAlarms } from './alarms.ts';
import { CRON_KEY } from './config/bundled-services.ts';
import { alarmKeys } from './config/cell-config.ts';

/** Schedules that are looked at: those of the release, and of releases before it. */
const MAX_CRONS = 1_000;

/** What is known of an app whose process has gone. `dueAt`: when it has work to do, in ms since 1970. */
export interface Rest {
  dueAt: number | null;
}

/** The time without a process, as kept by the host: `null` while there is one. */
export class RestRecord {
  readonly #keep: (rest: Rest | null) => void;
  #rest: Rest | null = null;

  /** @param keep writes it down, so that it outlives the host */
  constructor(keep: (rest: Rest | null) => void) {
    this.#keep = keep;
  }

  /** Takes over what was kept. */
  resume(rest: Rest): void {
    this.#rest = rest;
  }

  begin(dueAt: number | null): void {
    this.#rest = { dueAt };
    this.#keep(this.#rest);
  }

  /** To be called before there is a process: what it does is not known here. */
  end(): void {
    if (this.#rest !== null) this.#keep(null);
    this.#rest = null;
  }

  isDue(): boolean {
    const dueAt = this.#rest?.dueAt ?? null;
    return dueAt !== null && dueAt <= Date.now();
  }

  /** Lets due work wait for another `delayMs`. */
  postpone(delayMs: number): void {
    if (this.isDue()) this.#rest = { dueAt: Date.now() + delayMs };
  }
}

/**
 * When an app has work to do: its earliest alarm, batch of a queue or cron, in ms since 1970; `null` for never. What is
 * being run counts until it has ended. May be asked while the process runs.
 * @param releaseDirectory of the release whose classes count: those that are gone could not run theirs
 * @throws {Error} when a file cannot be read
 */
export function nextDue(releaseDirectory: string, dataDirectory: string): number | null {
  const release = JSON.parse(readFileSync(join(releaseDirectory, 'release.json'), 'utf8')) as Release;
  const metadata = (key: string) => join(dataDirectory, 'do', key, 'metadata.sqlite');
  const copy = join(dataDirectory, 'alarms.sqlite');
  const times = [
    ...alarmKeys(release).map((key) => earliestAlarm(metadata(key), copy)),
    ...nextCrons(release.triggers?.crons ?? [], metadata(CRON_KEY), copy),
  ].filter((time) => time !== null);
  return times.length === 0 ? null : Math.min(...times);
}

/** When each cron is due: its schedule's alarm, or now if that was never set, which only a process can do. */
function nextCrons(crons: string[], path: string, copy: string): number[] {
  if (crons.length === 0) return [];
  const next = new Map(firstAlarms(path, copy, MAX_CRONS).map(({ name, time }) => [name, time]));
  return crons.map((cron) => next.get(cron) ?? Date.now());
}
