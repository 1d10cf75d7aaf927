// Facts for the control plane, kept until it has acknowledged them.
import type { Database } from 'better-sqlite3';
import type { AsOf, HostEvent } from '../../handlers/contract/host/host-calls.ts';

/** A fact without its number and time in the outbox. */
export type HostFact = HostEvent extends infer Event
  ? Event extends unknown
    ? Omit<Event, 'seq' | 'at'>
    : never
  : never;

/** Returns the id of the app that a fact is about. */
export function appOf(event: HostFact): string {
  if (event.type === 'app') return event.app.id;
  return event.type === 'deploy' ? event.deploy.app_id : event.lines.app_id;
}

/** The id of the app that a row's fact is about, as SQL. */
const APP = "coalesce(event ->> '$.app.id', event ->> '$.deploy.app_id', event ->> '$.lines.app_id')";

/** Maximum rows of one read. A read blocks the gateway's thread, and may have to skip very many facts. */
const ROWS_AT_ONCE = 500;

export interface NextFacts {
  events: HostEvent[];
  /** All facts up to this number are of skipped apps. */
  skippedTo: number;
  /** Whether all facts were read, and all are of skipped apps. */
  isDone: boolean;
}

export function outboxQueries(database: Database) {
  let listener: (fact: HostFact) => void = () => {};
  const add = database.prepare<[string, string, string]>(
    'INSERT INTO outbox (at, event) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM previews WHERE id = ?)',
  );
  const next = database.prepare<[string, number], { seq: number; at: string; event: string | null }>(
    `SELECT seq, at, iif(${APP} IN (SELECT value FROM json_each(?)), NULL, event) AS event FROM outbox
      WHERE seq > ? ORDER BY seq LIMIT ${ROWS_AT_ONCE}`,
  );
  const remove = database.prepare<[string]>(
    'DELETE FROM outbox WHERE seq IN (SELECT value FROM json_each(?))',
  );
  const last = database.prepare<[], { seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'");
  const nth = database.prepare<[number], object>('SELECT 1 FROM outbox LIMIT 1 OFFSET ?');
  const size = database.prepare<[], { count: number }>('SELECT count(*) AS count FROM outbox');
  const name = database.prepare<[], { value: string }>("SELECT value FROM meta WHERE name = 'outbox'");

  return {
    /** Returns the name of this outbox, and the number of the newest fact ever added to it; 0 before the first. */
    position: (): AsOf => ({ outbox: name.get()!.value, seq: last.get()?.seq ?? 0 }),
    /** Returns the name of this outbox. A new database has a new name, which separates its numbers from old ones. */
    name: (): string => name.get()!.value,
    /** Adds a fact, unless it is about a preview, which the control plane does not know. */
    add: (fact: HostFact): void => {
      const { changes } = add.run(new Date().toISOString(), JSON.stringify(fact), appOf(fact));
      if (changes > 0) listener(fact);
    },
    /** Sets a listener, called with each new fact in the transaction that adds it. It must not throw. */
    listen: (onFact: (fact: HostFact) => void): void => {
      listener = onFact;
    },
    /**
     * Returns the oldest facts: at most `limit`, and at most `bytes`, unless the first one is larger.
     * @param without apps whose facts are skipped
     * @param after the number of the fact to start after
     */
    next: (limit: number, bytes: number, without: Iterable<string> = [], after = 0): NextFacts => {
      const events: HostEvent[] = [];
      let skippedTo = after;
      let rows = 0;
      let size = 0;
      for (const { seq, at, event } of next.iterate(JSON.stringify([...without]), after)) {
        rows++;
        if (event === null) {
          if (events.length === 0) skippedTo = seq;
          continue;
        }
        size += Buffer.byteLength(event);
        if (events.length > 0 && size > bytes) break;
        events.push({ seq, at, ...(JSON.parse(event) as HostFact) } as HostEvent);
        if (events.length === limit) break;
      }
      return { events, skippedTo, isDone: events.length === 0 && rows < ROWS_AT_ONCE };
    },
    /** Returns the number of pending facts. */
    size: (): number => size.get()!.count,
    /** Whether more than `count` facts are pending. */
    hasMoreThan: (count: number): boolean => nth.get(count) !== undefined,
    /** Removes facts that the control plane has applied. */
    remove: (events: readonly { seq: number }[]): void => {
      remove.run(JSON.stringify(events.map(({ seq }) => seq)));
    },
  };
}
