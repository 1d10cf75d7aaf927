// Reads rows of `apps`.
import type { ProcessState } from '../../../handlers/contract/host/host-calls.ts';
import { type Page, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';

/** An app that is not deleted. A deleted app keeps its row for some time, as a tombstone. */
export interface AppRow {
  id: string;
  slug: string;
  owner_id: string;
  desired_state: 'running' | 'stopped';
  asleep_since: string | null;
  woke_at: string | null;
  generation: number;
  process_state: ProcessState;
  live_deploy_id: string | null;
  deployed_at: string | null;
  last_error: string | null;
  client_rpm: number | null;
  app_rpm: number | null;
  root_directory: string | null;
  install_command: string | null;
  build_command: string | null;
  release_command: string | null;
  output_directory: string | null;
  deploy_on: 'main' | 'tags' | 'manual';
  previews_branches: 0 | 1;
  previews_storage: 'empty' | 'copy';
  storage: 'local' | 'bucket';
  /** The id of the host that runs it; null in a Cellar of one host. */
  home: string | null;
  /** The name of the host `home`; null without a home, and when that host was removed. */
  home_name: string | null;
  replicas: number;
  maintenance: 0 | 1;
  /** The generation of its last undeletion; null if it was never undeleted. */
  undeleted: number | null;
  /** The dispatch namespace of a script; null for an app that is not a script. */
  dispatch_namespace: string | null;
  /** The name of a script in its namespace; null for an app that is not a script. */
  dispatch_script: string | null;
  created_at: string;
  /** Warnings of the live release: a JSON list of texts. */
  warnings: string;
  status: 'created' | 'deploying' | 'starting' | 'running' | 'sleeping' | 'stopped' | 'crashed';
}

/** Whether app `?1` exists and is not a tombstone. For statements that write rows of an app. */
export const LIVE_APP = 'EXISTS (SELECT 1 FROM apps WHERE id = ?1 AND deleted_at IS NULL)';

/**
 * The first condition that holds gives the status. A hibernated release (`idle`) counts as running: the next request starts
 * it.
 */
const STATUS = `CASE
    WHEN desired_state = 'stopped' THEN 'stopped'
    WHEN asleep_since IS NOT NULL THEN 'sleeping'
    WHEN process_state = 'crashed' THEN 'crashed'
    WHEN live_deploy_id IS NOT NULL AND process_state IN ('running', 'idle') THEN 'running'
    WHEN live_deploy_id IS NOT NULL OR process_state = 'starting' THEN 'starting'
    WHEN EXISTS (SELECT 1 FROM deploys WHERE app_id = apps.id AND status IN ('queued', 'building')) THEN 'deploying'
    ELSE 'created'
  END`;

/** Without `previews_vars` and `maintenance_html`, which can be large. */
export const APP_COLUMNS = `id, slug, owner_id, desired_state, asleep_since, woke_at, generation, process_state,
  live_deploy_id, deployed_at, last_error, client_rpm, app_rpm, root_directory, install_command, build_command, output_directory, release_command,
  deploy_on, previews_branches, previews_storage, storage, replicas, maintenance, undeleted, dispatch_namespace, dispatch_script, home, (SELECT hosts.name FROM hosts WHERE hosts.id = apps.home) AS home_name,
  created_at, ${STATUS} AS status,
  coalesce((SELECT warnings FROM deploys WHERE id = live_deploy_id), '[]') AS warnings`;

/** Returns the statement that reads one app by id, for batches that read its other rows in the same round trip. */
export function selectApp(db: Reader, id: string): D1PreparedStatement {
  return db.prepare(`SELECT ${APP_COLUMNS} FROM apps WHERE id = ? AND deleted_at IS NULL`).bind(id);
}

export async function findApp(db: Reader, id: string): Promise<AppRow | null> {
  const [apps] = await db.batch<AppRow>([selectApp(db, id)]);
  return apps!.results[0] ?? null;
}

export async function findAppBySlug(db: Reader, slug: string): Promise<AppRow | null> {
  const statement = db.prepare(`SELECT ${APP_COLUMNS} FROM apps WHERE slug = ? AND deleted_at IS NULL`);
  const [apps] = await db.batch<AppRow>([statement.bind(slug)]);
  return apps!.results[0] ?? null;
}

/**
 * Returns apps, newest first.
 * @param filter.home the id of the host that runs them; null for all
 * @param filter.seenBy the account that must own an app or have a role on it; null for all
 * @param filter.only the id of the one app that may be listed; null for all
 * @param filter.namespace a dispatch namespace, or `*` for all; null: no scripts, unless `home` is given
 * @param filter.before the `seq` to continue from
 */
export async function listApps(
  db: Reader,
  filter: {
    owner: string | null;
    home: string | null;
    seenBy: string | null;
    only: string | null;
    namespace: string | null;
    before: number | null;
    limit: number;
  },
): Promise<Page<AppRow>> {
  const statement = db
    .prepare(
      `SELECT ${APP_COLUMNS}, seq FROM apps
       WHERE deleted_at IS NULL AND (?1 IS NULL OR owner_id = ?1) AND (?2 IS NULL OR seq < ?2)
         AND (?5 IS NULL OR home = ?5)
         AND CASE ?7 WHEN '*' THEN dispatch_namespace IS NOT NULL ELSE dispatch_namespace IS ?7 OR ?7 IS NULL AND ?5 IS NOT NULL END
         AND (?6 IS NULL OR id = ?6)
         AND (?4 IS NULL OR owner_id = ?4 OR id IN (SELECT app_id FROM collaborators WHERE account_id = ?4))
       ORDER BY seq DESC LIMIT ?3`,
    )
    .bind(
      filter.owner,
      filter.before,
      filter.limit + 1,
      filter.seenBy,
      filter.home,
      filter.only,
      filter.namespace,
    );
  const [apps] = await db.batch<AppRow & { seq: number }>([statement]);
  return pageOf(apps!.results, filter.limit, ({ seq }) => [String(seq)]);
}

/**
 * Runs a statement, and checks whether its app exists, in one round trip. The statements in `after` run last.
 * @returns null for an unknown app
 */
export async function readOfApp<Row>(
  db: Reader,
  appId: string,
  statement: D1PreparedStatement,
  ...after: D1PreparedStatement[]
): Promise<Row[] | null> {
  const exists = db.prepare('SELECT 1 FROM apps WHERE id = ? AND deleted_at IS NULL').bind(appId);
  const [app, rows] = await db.batch<Row>([exists, statement, ...after]);
  return app!.results.length === 0 ? null : rows!.results;
}

/**
 * Returns a page of an app's rows; null for an unknown app.
 * @param select the columns, the table, and the column `by` that orders the rows: an app has each of its values once
 */
export async function listOfApp<Row>(
  db: Reader,
  appId: string,
  select: { columns: string; from: string; by: keyof Row & string },
  { after, limit }: { after: string | number; limit: number },
): Promise<Page<Row> | null> {
  const { columns, from, by } = select;
  const statement = db
    .prepare(`SELECT ${columns} FROM ${from} WHERE app_id = ? AND ${by} > ? ORDER BY ${by} LIMIT ?`)
    .bind(appId, after, limit + 1);
  const rows = await readOfApp<Row>(db, appId, statement);
  return rows && pageOf(rows, limit, (row) => [String(row[by])]);
}

/** Counts of rows in this database. */
export interface Totals {
  by_status: Partial<Record<AppRow['status'], number>>;
  accounts: number;
  domains: number;
  deploys: number;
  unfinished_deploys: number;
}

export async function countAll(db: D1Database): Promise<Totals> {
  const [statuses, counts] = await db.batch<Record<string, unknown>>([
    db.prepare(
      `SELECT status, count(*) AS count FROM (SELECT ${STATUS} AS status FROM apps WHERE deleted_at IS NULL)
       GROUP BY status`,
    ),
    db.prepare(
      `SELECT (SELECT count(*) FROM accounts) AS accounts, (SELECT count(*) FROM domains) AS domains,
         (SELECT count(*) FROM deploys) AS deploys,
         (SELECT count(*) FROM deploys WHERE status IN ('queued', 'building')) AS unfinished_deploys`,
    ),
  ]);
  const by_status = Object.fromEntries(statuses!.results.map(({ status, count }) => [status, count]));
  return { ...(counts!.results[0] as unknown as Omit<Totals, 'by_status'>), by_status };
}
