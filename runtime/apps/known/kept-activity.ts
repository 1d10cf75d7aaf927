// Records when apps were last used, once a minute, and which apps rest: those without a process, which wait for a request or
// for due work. Also returns the records from before the host's start.
import type { ActivityRow } from '../../../sqlite/host/activity.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import { logRarely, reason } from '../../log.ts';

/** How often the last use of apps is written, in ms. */
const KEEP_MS = 60_000;

const NOT_WRITTEN = 'the times of the last use of apps could not be written; Cellar tries again';

/** A resting app. `dueAt`: the time of its next due work, in ms since 1970; null for none. Null: the app has a process. */
type Rest = { dueAt: number | null } | null;

interface Used {
  wanted: { id: string };
  /** `lastRequestAt`: the start of the latest minute with a request, in ms since 1970; null for none. */
  fleet: { lastRequestAt: number | null };
}

export class StoredActivity {
  readonly #store: HostStore;
  readonly #atBoot: Map<string, ActivityRow>;
  /** The start of each app's latest minute with a request, as the database has it, in ms since 1970. */
  readonly #kept = new Map<string, number>();
  /** States of rest that could not be written yet. */
  readonly #unwritten = new Map<string, Rest>();
  #keptAt = performance.now();

  constructor(store: HostStore) {
    this.#store = store;
    this.#atBoot = store.activity.all();
    for (const [id, { lastRequestAt }] of this.#atBoot)
      if (lastRequestAt !== null) this.#kept.set(id, lastRequestAt);
  }

  /** Returns an app's row as it was when the host started; undefined for an app without one. */
  atBoot(id: string): Readonly<ActivityRow> | undefined {
    return this.#atBoot.get(id);
  }

  delete(id: string): void {
    this.#store.activity.delete(id);
    this.forget(id);
  }

  /** Forgets an app whose rows are gone. */
  forget(id: string): void {
    this.#atBoot.delete(id);
    this.#kept.delete(id);
    this.#unwritten.delete(id);
  }

  /** Records that an app rests, or that it has a process. Never throws: a failed write is retried at each tick. */
  setRest(id: string, rest: Rest): void {
    this.#unwritten.set(id, rest);
    this.#writeRests();
  }

  /** Writes unwritten states of rest, and once a minute when apps were last used. */
  tick(apps: Iterable<Used>): void {
    this.#writeRests();
    if (performance.now() - this.#keptAt >= KEEP_MS) this.keep(apps);
  }

  /** Records when apps were last used. Never throws: a failed write is retried a minute later. */
  keep(apps: Iterable<Used>): void {
    this.#keptAt = performance.now();
    const changed = [...apps].flatMap(({ wanted: { id }, fleet: { lastRequestAt } }) =>
      lastRequestAt === null || lastRequestAt === this.#kept.get(id) ? [] : [{ id, lastRequestAt }],
    );
    try {
      this.#store.transaction(() => {
        for (const { id, lastRequestAt } of changed) this.#store.activity.setLastRequest(id, lastRequestAt);
      });
    } catch (error) {
      logRarely('error', NOT_WRITTEN, { error: reason(error) });
      return;
    }
    for (const { id, lastRequestAt } of changed) this.#kept.set(id, lastRequestAt);
  }

  #writeRests(): void {
    try {
      for (const [id, rest] of this.#unwritten) {
        this.#store.activity.setRest(id, rest);
        this.#unwritten.delete(id);
      }
    } catch (error) {
      logRarely('error', NOT_WRITTEN, { error: reason(error) });
    }
  }
}
