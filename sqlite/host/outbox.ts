// Facts on their way to the control plane: kept until it has said that it applied them.
import type { Database } from 'better-sqlite3';
import type { AsOf, HostEvent } from '../../handlers/contract/host/host-calls.ts';

/** A fact without its place in the outbox. */
export type HostFact = HostEvent extends infer Event
  ? Event extends unknown
    ? Omit<Event, 'seq' | 'at'>
    : never
  : never;

/** The app that a fact is about. */
export function appOf(event: HostFact): string {
  if (event.type === 'app') return event.app.id;
  return event.type === 'deploy' ? event.deploy.app_id : event.lines.app_id;
}

/** The same of a row. */
const APP = "coalesce(event ->> '$.app.id', event ->> '$.deploy.app_id', event ->> '$.lines.app_id')";

/** Rows of the table that are read at once, on the gateway's thread: facts that are left out may be many. */
const ROWS_AT_ONCE = 500;

/** Facts that were asked for. */
export interface NextFacts {
  events: HostEvent[];
  /** The number of a fact: up to it all are of apps that are left out. */
  skippedTo: number;
  /** Whether all were read, and none are of other apps. */
  isDone: boolean;
}

/** Typed queries over the `outbox` table. */
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
    /** Which outbox this is, and the newest fact that it ever had. */
    position: (): AsOf => ({ outbox: name.get()!.value, seq: last.get()?.seq ?? 0 }),
    /** The name of this outbox: a new database has a new one, so its numbers cannot be mistaken for old ones. */
    name: (): string => name.get()!.value,
    /** Adds a fact. One about a preview, of which the control plane knows nothing, is left out. */
    add: (fact: HostFact): void => {
      const { changes } = add.run(new Date().toISOString(), JSON.stringify(fact), appOf(fact));
      if (changes > 0) listener(fact);
    },
    /** Has `told` called with each fact that is added, in the transaction that adds it. It must not throw. */
    listen: (told: (fact: HostFact) => void): void => {
      listener = told;
    },
    /**
     * The oldest facts: at most `limit`, and after the first no more than `bytes` of them.
     * @param without apps whose facts are left out
     * @param after the number of a fact, behind which they are looked for
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
    /** How many facts wait. */
    size: (): number => size.get()!.count,
    /** Whether more than `count` facts wait. */
    hasMoreThan: (count: number): boolean => nth.get(count) !== undefined,
    /** Forgets facts that were applied. */
    remove: (events: readonly { seq: number }[]): void => {
      remove.run(JSON.stringify(events.map(({ seq }) => seq)));
    },
  };
}
export type OutboxQueries = ReturnType<typeof outboxQueries>;
