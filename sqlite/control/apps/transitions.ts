// Changes an app's desired state. Each transition is one transaction. It also raises the app's generation, and reads
// back the whole desired state for the host.
import type { AsOf, ObservedApp, WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import { raiseRevision } from '../meta.ts';
import { APP_COLUMNS, type AppRow, selectApp } from './apps.ts';

/** An app and its whole desired state. */
export interface Wanted {
  row: AppRow;
  wanted: WantedApp;
}

/** A written transition. `changed`: the row that the change returned; null when it changed nothing. */
export interface Transition extends Wanted {
  changed: Record<string, string | number | null> | null;
}

export type Insertion = Wanted | 'slug_taken' | 'account_not_found' | 'quota_exceeded' | 'guest';

/**
 * Returns SQL for the maximum of an account's apps, or of its scripts if `namespace` is not null. `max_apps` limits apps
 * only, but 0 forbids scripts too. `?4`: the maximum of scripts, or of apps for accounts without a maximum of their own.
 */
export function quotaOf(namespace: string): string {
  return `coalesce(CASE WHEN ${namespace} IS NULL OR max_apps = 0 THEN max_apps END, ?4)`;
}

/**
 * Adds an app. The same statement checks the quota, so that two concurrent calls cannot both take the last place.
 * @param app.owner an account's id; null for the first account
 * @param app.quota maximum apps of an owner without a maximum of their own, or maximum scripts
 * @param app.dispatch the namespace and name of a script; null for an app with an address
 * @param app.storage where it keeps its data
 * @param app.home the host that runs it; null in a Cellar of one host
 */
export async function insertApp(
  db: D1Database,
  app: {
    id: string;
    slug: string;
    owner: string | null;
    quota: number;
    storage: AppRow['storage'];
    home: string | null;
    dispatch: { namespace: string; script: string } | null;
    at: string;
  },
): Promise<Insertion> {
  const owner = `(SELECT id FROM accounts WHERE CASE WHEN ?1 IS NULL THEN role = 'owner' ELSE id = ?1 END)`;
  const insert = db
    .prepare(
      `INSERT INTO apps (id, slug, owner_id, desired_state, storage, home, dispatch_namespace, dispatch_script, generation, created_at, seq)
       SELECT ?2, ?3, ${owner}, 'running', ?6, ?7, ?8, ?9, (SELECT revision FROM meta), ?5, (SELECT coalesce(max(seq), 0) + 1 FROM apps)
       WHERE ${owner} IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM accounts WHERE id = ${owner} AND is_guest)
         AND (?8 IS NULL OR EXISTS (SELECT 1 FROM dispatch_namespaces WHERE owner_id = ${owner} AND name = ?8))
         AND (SELECT count(*) FROM apps WHERE owner_id = ${owner} AND deleted_at IS NULL
             AND (dispatch_namespace IS NULL) = (?8 IS NULL))
           < (SELECT ${quotaOf('?8')} FROM accounts WHERE id = ${owner})`,
    )
    .bind(
      app.owner,
      app.id,
      app.slug,
      app.quota,
      app.at,
      app.storage,
      app.home,
      app.dispatch?.namespace ?? null,
      app.dispatch?.script ?? null,
    );
  const findOwner = db.prepare(`SELECT id, is_guest FROM accounts WHERE id = ${owner}`).bind(app.owner);
  try {
    const [, , found, ...read] = await db.batch([
      raiseRevision(db),
      insert,
      findOwner,
      ...wantedOf(db, app.id),
    ]);
    const account = found!.results[0] as { id: string; is_guest: 0 | 1 } | undefined;
    if (account === undefined) return 'account_not_found';
    return wantedFrom(read) ?? (account.is_guest === 1 ? 'guest' : 'quota_exceeded');
  } catch (error) {
    if (isUniqueViolation(error, 'apps.slug')) return 'slug_taken';
    throw error;
  }
}

/** Removes an app that the host never had. */
export async function removeApp(db: D1Database, id: string): Promise<void> {
  await db.prepare('DELETE FROM apps WHERE id = ?').bind(id).run();
}

/**
 * Writes a transition. Without a change it only raises the generation.
 * @returns null for an unknown app; `changed` is what the change returned, null when it changed nothing
 */
export async function transition(
  db: D1Database,
  id: string,
  change?: D1PreparedStatement,
): Promise<Transition | null> {
  // Raises the generation only if the previous statement changed a row.
  const condition = change ? 'AND changes() > 0' : '';
  const raise = db
    .prepare(
      `UPDATE apps SET generation = (SELECT revision FROM meta)
       WHERE id = ? AND deleted_at IS NULL ${condition}`,
    )
    .bind(id);
  const [, ...results] = await db.batch([
    raiseRevision(db),
    ...(change ? [change] : []),
    raise,
    ...wantedOf(db, id),
  ]);
  const changed = change ? results.shift()!.results[0] : undefined;
  const read = wantedFrom(results.slice(1));
  return read && { ...read, changed: (changed as Transition['changed'] | undefined) ?? null };
}

/** Returns the statement that sets an app's desired state, and returns a row if it differed. */
export function desire(db: D1Database, id: string, state: 'running' | 'stopped'): D1PreparedStatement {
  return db
    .prepare(
      `UPDATE apps SET desired_state = ?2, asleep_since = NULL
       WHERE id = ?1 AND deleted_at IS NULL AND desired_state <> ?2 RETURNING id`,
    )
    .bind(id, state);
}

/** A deleted app. `home`: the host that has to confirm its deletion; null in a Cellar of one host. */
export interface Buried {
  generation: number;
  home: string | null;
}

/** Reads an app and its desired state. Null for an unknown app. */
export async function readWanted(db: D1Database, id: string): Promise<Wanted | null> {
  return wantedFrom(await db.batch(wantedOf(db, id)));
}

/**
 * Marks an app as deleted.
 * @param slug the slug by which it can be undeleted; null: its present one
 * @returns the generation to delete it with and its home, or null for an unknown app
 */
export async function buryApp(
  db: D1Database,
  id: string,
  at: string,
  slug: string | null = null,
): Promise<Buried | null> {
  const bury = db
    .prepare(
      `UPDATE apps SET deleted_at = ?2, deleted_slug = ?3, generation = (SELECT revision FROM meta)
       WHERE id = ?1 AND deleted_at IS NULL RETURNING generation, home`,
    )
    .bind(id, at, slug);
  const [, buried] = await db.batch<Buried>([raiseRevision(db), bury]);
  return buried!.results[0] ?? null;
}

/**
 * Raises the generation of a deleted app, so that hosts accept its deletion.
 * @returns the generation; null if there is no deleted app with this id
 */
export async function raiseTombstone(db: D1Database, id: string): Promise<number | null> {
  const raise = db
    .prepare(
      `UPDATE apps SET generation = (SELECT revision FROM meta)
       WHERE id = ? AND deleted_at IS NOT NULL RETURNING generation`,
    )
    .bind(id);
  const [, raised] = await db.batch<{ generation: number }>([raiseRevision(db), raise]);
  return raised!.results[0]?.generation ?? null;
}

/** Writes the host's facts about an app, unless newer ones are stored. @returns the app; null for an unknown one */
export async function observeApp(db: D1Database, observed: ObservedApp, asOf: AsOf): Promise<AppRow | null> {
  const [, read] = await db.batch<AppRow>([writeObserved(db, observed, asOf), selectApp(db, observed.id)]);
  return read!.results[0] ?? null;
}

/** Writes the host's facts about many apps, if they differ and no newer ones are stored. */
export async function observeApps(db: D1Database, observed: ObservedApp[], asOf: AsOf): Promise<void> {
  const differs = `(observed_generation, process_state, live_deploy_id, deployed_at, last_error, asleep_since, woke_at, storage)
    IS NOT (?2, ?3, ?4, ?5, ?6, ?9, coalesce(?10, woke_at), coalesce(?11, storage))`;
  if (observed.length > 0) {
    await db.batch(observed.map((app) => writeObserved(db, app, asOf, `AND ${differs}`)));
  }
}

/**
 * Returns the statement that writes the host's facts about an app, unless newer ones are stored.
 * @param condition an additional condition; `?2` to `?6`, `?9` to `?11` are the facts, in the order of `ObservedApp`
 */
export function writeObserved(
  db: D1Database,
  observed: ObservedApp,
  { outbox, seq }: AsOf,
  condition = '',
): D1PreparedStatement {
  const { id, generation, process_state, live_deploy_id, deployed_at, last_error } = observed;
  // An older host does not send these.
  const { asleep_since = null, woke_at = null, storage = null } = observed;
  return db
    .prepare(
      `UPDATE apps SET observed_generation = ?2, process_state = ?3, live_deploy_id = ?4, deployed_at = ?5,
         last_error = ?6, observed_outbox = ?7, observed_seq = ?8,
         asleep_since = CASE WHEN desired_state = 'running' THEN ?9 END, woke_at = coalesce(?10, woke_at),
         storage = coalesce(?11, storage)
       WHERE id = ?1 AND observed_generation <= ?2 AND (observed_outbox IS NOT ?7 OR observed_seq <= ?8) ${condition}`,
    )
    .bind(
      id,
      generation,
      process_state,
      live_deploy_id,
      deployed_at,
      last_error,
      outbox,
      seq,
      asleep_since,
      woke_at,
      storage,
    );
}

/** Whether D1 refused a row because another has the same value in `column` (`table.column`). */
export function isUniqueViolation(error: unknown, column: string): boolean {
  return error instanceof Error && error.message.includes(`UNIQUE constraint failed: ${column}`);
}

/** Returns the statements that read an app and its desired state, for `wantedFrom`. */
export function wantedOf(db: D1Database, id: string): D1PreparedStatement[] {
  return [
    db
      .prepare(
        `SELECT ${APP_COLUMNS}, previews_vars, maintenance_html FROM apps WHERE id = ? AND deleted_at IS NULL`,
      )
      .bind(id),
    db.prepare('SELECT name, value FROM env WHERE app_id = ? ORDER BY name').bind(id),
    db
      .prepare('SELECT hostname FROM domains WHERE app_id = ? AND proved_at IS NOT NULL ORDER BY hostname')
      .bind(id),
    db.prepare('SELECT name, value FROM vars WHERE app_id = ? ORDER BY name').bind(id),
    db.prepare('SELECT address FROM mail_routes WHERE app_id = ? ORDER BY address').bind(id),
    db.prepare('SELECT port FROM tcp_ports WHERE app_id = ? ORDER BY port').bind(id),
  ];
}

/** @param results of `wantedOf` @returns null for an unknown app */
export function wantedFrom(results: D1Result<unknown>[]): Wanted | null {
  const [apps, env, domains, vars, mailRoutes, tcpPorts] = results;
  const row = apps!.results[0] as
    | (AppRow & { previews_vars: string; maintenance_html: string | null })
    | undefined;
  if (row === undefined) return null;
  const variables = env!.results as { name: string; value: string }[];
  const overrides = vars!.results as { name: string; value: string }[];
  const hostnames = (domains!.results as { hostname: string }[]).map(({ hostname }) => hostname);
  const mail = (mailRoutes!.results as { address: string }[]).map(({ address }) => address);
  const tcp = (tcpPorts!.results as { port: number }[]).map(({ port }) => port);
  const wanted: WantedApp = {
    id: row.id,
    slug: row.slug,
    owner: row.owner_id,
    generation: row.generation,
    desired_state: row.desired_state,
    hostnames,
    ...(mail.length > 0 && { mail }),
    ...(tcp.length > 0 && { tcp }),
    env: Object.fromEntries(variables.map(({ name, value }) => [name, value])),
    vars: Object.fromEntries(overrides.map(({ name, value }) => [name, JSON.parse(value) as unknown])),
    builds: {
      root_directory: row.root_directory,
      install_command: row.install_command,
      build_command: row.build_command,
      release_command: row.release_command,
      output_directory: row.output_directory,
    },
    deploy_on: row.deploy_on,
    limits: { clientRpm: row.client_rpm, appRpm: row.app_rpm },
    previews: {
      branches: row.previews_branches === 1,
      storage: row.previews_storage,
      vars: JSON.parse(row.previews_vars) as Record<string, unknown>,
    },
    storage: row.storage,
    ...(row.maintenance === 1 && { maintenance: { html: row.maintenance_html } }),
    ...(row.home !== null && { home: row.home }),
    ...(row.undeleted !== null && { undeleted: row.undeleted }),
    replicas: row.replicas,
  };
  return { row, wanted };
}
