// Rows of the host's tables of connected repositories: connections, and the deliveries of their webhooks.
import type { Database } from 'better-sqlite3';
import type {
  DeliveryOutcome,
  HookDelivery,
  HostConnection,
} from '../../../handlers/contract/source/connections.ts';

/** A connection without its secrets. */
export type StoredSource = Pick<
  HostConnection,
  'url' | 'branch' | 'deploy_on' | 'poll_minutes' | 'has_token' | 'deploy_key'
> & {
  /** Lines of SSH's `known_hosts` file. */
  known_hosts: string[];
  /** The last fetched commit of the branch or tag that the connection deploys; missing before the first fetch. */
  tip?: string;
};

/** A connection. Times are ms since 1970. */
export interface SourceRow {
  appId: string;
  source: StoredSource;
  /** Keys and tokens, encrypted. */
  sealed: Buffer;
  /** When it is fetched next; null for never. */
  dueAt: number | null;
  /** Fetches that failed in a row. */
  attempts: number;
  lastFetch: HostConnection['last_fetch'];
}

interface Stored {
  appId: string;
  source: string;
  sealed: Buffer;
  dueAt: number | null;
  attempts: number;
  lastFetch: string | null;
}

/** Maximum deliveries that are kept of each app, to recognise repeated ones. */
const KEPT_DELIVERIES = 1000;
const COLUMNS = 'app_id AS appId, source, sealed, due_at AS dueAt, attempts, last_fetch AS lastFetch';

export function sourceQueries(database: Database) {
  const find = database.prepare<[string], Stored>(`SELECT ${COLUMNS} FROM sources WHERE app_id = ?`);
  const due = database.prepare<[number, number], Stored>(
    `SELECT ${COLUMNS} FROM sources WHERE due_at <= ? ORDER BY due_at LIMIT ?`,
  );
  const save = database.prepare<[string, string, Buffer, number | null]>(
    `INSERT INTO sources (app_id, source, sealed, due_at) VALUES (?, ?, ?, ?)
     ON CONFLICT (app_id) DO UPDATE SET source = excluded.source, sealed = excluded.sealed, due_at = excluded.due_at,
       attempts = 0, last_fetch = NULL`,
  );
  const pin = database.prepare<[string, string, string]>(
    `UPDATE sources SET source = json_set(source, '$.known_hosts', json(?))
     WHERE app_id = ? AND source ->> 'url' = ?`,
  );
  const setTip = database.prepare<
    { sha: string; appId: string } & Record<'url' | 'branch' | 'deploy_on', string>
  >(
    `UPDATE sources SET source = json_set(source, '$.tip', @sha) WHERE app_id = @appId AND source ->> 'tip' IS NOT @sha
       AND source ->> 'url' = @url AND source ->> 'branch' = @branch AND source ->> 'deploy_on' = @deploy_on`,
  );
  const remove = database.prepare<[string]>('DELETE FROM sources WHERE app_id = ?');
  // The time always changes, so that a running fetch sees that another one is wanted after it.
  const want = database.prepare<{ appId: string; at: number }>(
    'UPDATE sources SET due_at = iif(due_at <= @at, due_at + 1, @at), attempts = 0 WHERE app_id = @appId',
  );
  const fetched = database.prepare<[string, number | null, number, string, string]>(
    `UPDATE sources SET last_fetch = ?, attempts = iif(due_at IS ?, ?, attempts)
     WHERE app_id = ? AND source ->> 'url' = ?`,
  );
  const postpone = database.prepare<[number | null, string, number | null]>(
    'UPDATE sources SET due_at = ? WHERE app_id = ? AND due_at IS ?',
  );
  const addDelivery = database.prepare<unknown[]>(
    `INSERT INTO source_deliveries (app_id, digest, delivery, event, result, at) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT DO NOTHING`,
  );
  const trim = database.prepare<[string, string, number]>(
    `DELETE FROM source_deliveries WHERE app_id = ? AND id <=
       (SELECT id FROM source_deliveries WHERE app_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`,
  );
  const deliveries = database.prepare<[string, number], HostConnection['deliveries'][number]>(
    `SELECT delivery, event, result, at FROM source_deliveries WHERE app_id = ? ORDER BY id DESC LIMIT ?`,
  );

  return {
    find: (appId: string): SourceRow | undefined => parsed(find.get(appId)),
    /** Returns connections whose fetch is due at `now`, in ms since 1970, the earliest due first. */
    due: (now: number, limit: number): SourceRow[] => due.all(now, limit).map((row) => parsed(row)!),
    /** Adds a connection, or replaces that of the app. */
    save: (appId: string, source: StoredSource, sealed: Buffer, dueAt: number | null): void => {
      save.run(appId, JSON.stringify(source), sealed, dueAt);
    },
    /** Stores the host keys of an SSH server, if the app is still connected to this URL. */
    pin: ({ appId, source }: SourceRow, knownHosts: string[]): void => {
      pin.run(JSON.stringify(knownHosts), appId, source.url);
    },
    /** Stores the fetched commit of a connection's branch or tag, unless its URL, branch or `deploy_on` changed meanwhile. */
    setTip: ({ appId, source: { url, branch, deploy_on } }: SourceRow, sha: string): void => {
      setTip.run({ sha, appId, url, branch, deploy_on });
    },
    /** Removes the connection of an app, if any, with its deliveries. */
    delete: (appId: string): void => {
      remove.run(appId);
    },
    /** Makes the fetch of the repository due at `at`, in ms since 1970. */
    want: (appId: string, at: number): void => {
      want.run({ appId, at });
    },
    /** Records the result of a fetch, if the app is still connected to this URL. */
    fetched: (
      { appId, source, dueAt }: SourceRow,
      result: NonNullable<HostConnection['last_fetch']>,
      attempts: number,
    ): void => {
      fetched.run(JSON.stringify(result), dueAt, attempts, appId, source.url);
    },
    /** Sets the time of the next fetch from `before` to `next`. Does nothing if another fetch was wanted meanwhile. */
    postpone: (appId: string, before: number | null, next: number | null): void => {
      postpone.run(next, appId, before);
    },
    /** Records a delivery. @returns false when one with the same digest is recorded already */
    addDelivery: (
      appId: string,
      { digest, delivery, event }: HookDelivery,
      result: DeliveryOutcome,
    ): boolean => {
      const at = new Date().toISOString();
      return addDelivery.run(appId, digest, delivery, event, result, at).changes > 0;
    },
    /** Removes the oldest deliveries beyond `KEPT_DELIVERIES`. */
    trimDeliveries: (appId: string): void => {
      trim.run(appId, appId, KEPT_DELIVERIES);
    },
    /** Returns the newest deliveries, newest first. */
    deliveries: (appId: string, limit: number) => deliveries.all(appId, limit),
  };
}

function parsed(row: Stored | undefined): SourceRow | undefined {
  if (row === undefined) return undefined;
  const { source, lastFetch, ...rest } = row;
  return {
    ...rest,
    source: JSON.parse(source) as StoredSource,
    lastFetch: lastFetch === null ? null : (JSON.parse(lastFetch) as SourceRow['lastFetch']),
  };
}
