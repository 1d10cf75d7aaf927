// The statements that change an app's name, settings, variables, hostnames, e-mail addresses and TCP ports. Each returns a
// row if it was applied, even when the new value equals the old one.
import type { BuildSettings } from '../../../handlers/contract/host/host-calls.ts';
import { LIVE_APP } from './apps.ts';
import { HAS_DOMAIN } from './mail-routes.ts';

/** A change by a transition, besides the app's generation. */
export type Change =
  | { kind: 'rename'; slug: string }
  /** `limit`: maximum variables of an app; `bytes`: maximum bytes of all their names and values together */
  | { kind: 'env_set'; name: string; value: string; limit: number; bytes: number }
  | { kind: 'env_delete'; name: string }
  /** `value`: JSON; `limit`: maximum overrides of an app */
  | { kind: 'vars_set'; name: string; value: string; limit: number }
  | { kind: 'vars_unset'; name: string }
  /**
   * `proof`: null leaves the hostname pending. `names` takes a pending hostname from another app; `points` does not.
   * `reason`: why it is pending. `reservedFrom`: hostnames removed after this time are reserved for their last owner.
   */
  | {
      kind: 'domain_add';
      hostname: string;
      limit: number;
      proof: DomainProof | null;
      reason: string | null;
      reservedFrom: string;
    }
  | { kind: 'domain_prove'; hostname: string }
  | { kind: 'domain_remove'; hostname: string }
  /** `domain`: of the address; the app must have it. `limit`: maximum addresses of an app */
  | { kind: 'mail_route_set'; address: string; domain: string; baseDomain: string; limit: number }
  | { kind: 'mail_route_delete'; address: string }
  /** `limit`: maximum ports of an account */
  | { kind: 'tcp_port_set'; port: number; limit: number }
  | { kind: 'tcp_port_delete'; port: number }
  /** undefined leaves a limit as it is */
  | { kind: 'limits'; clientRpm: number | null | undefined; appRpm: number | null | undefined }
  /** undefined leaves a setting as it is */
  | { kind: 'maintenance'; enabled: boolean | undefined; html: string | null | undefined }
  /** an omitted setting stays as it is */
  | {
      kind: 'builds';
      settings: { [Name in keyof BuildSettings]?: string | null | undefined };
      deployOn: 'main' | 'tags' | 'manual' | undefined;
    }
  /** undefined leaves a setting as it is */
  | {
      kind: 'previews';
      branches: boolean | undefined;
      storage: 'empty' | 'copy' | undefined;
      /** A JSON object with the value of each variable by its name */
      vars: string | undefined;
    }
  /** An app that keeps its data on the machine can have one process only. */
  | { kind: 'scale'; replicas: number };

/** How DNS proves a hostname: it points to this machine, or a record names the app. */
export type DomainProof = 'points' | 'names';

/** SQL for the bytes of one variable: its name and its value. */
const BYTES = 'length(CAST(name AS BLOB)) + length(CAST(value AS BLOB))';

/** Returns the statement of a change. @param at the time of the change, ISO 8601 */
export function changeOf(db: D1Database, id: string, change: Change, at: string): D1PreparedStatement {
  switch (change.kind) {
    case 'rename':
      return db
        .prepare('UPDATE apps SET slug = ?2 WHERE id = ?1 AND deleted_at IS NULL RETURNING slug')
        .bind(id, change.slug);
    case 'env_set':
      return db
        .prepare(
          `INSERT INTO env (app_id, name, value, created_at, updated_at)
           SELECT ?1, ?2, ?3, ?4, ?4
           WHERE ${LIVE_APP}
             AND (SELECT count(*) FROM env WHERE app_id = ?1 AND name <> ?2) < ?5
             AND (SELECT coalesce(sum(${BYTES}), 0) FROM env WHERE app_id = ?1 AND name <> ?2)
               + length(CAST(?2 AS BLOB)) + length(CAST(?3 AS BLOB)) <= ?6
           ON CONFLICT (app_id, name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
           RETURNING name, value, created_at, updated_at`,
        )
        .bind(id, change.name, change.value, at, change.limit, change.bytes);
    case 'env_delete':
      return deleteOf(db, id, 'env', 'name', change.name);
    case 'vars_set':
      return db
        .prepare(
          `INSERT INTO vars (app_id, name, value, created_at, updated_at)
           SELECT ?1, ?2, ?3, ?4, ?4
           WHERE ${LIVE_APP} AND (SELECT count(*) FROM vars WHERE app_id = ?1 AND name <> ?2) < ?5
           ON CONFLICT (app_id, name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
           RETURNING name, value, created_at, updated_at`,
        )
        .bind(id, change.name, change.value, at, change.limit);
    case 'vars_unset':
      return deleteOf(db, id, 'vars', 'name', change.name);
    case 'domain_add':
      return db
        .prepare(
          `INSERT INTO domains (hostname, app_id, created_at, proved_at, checked_at, reason)
           SELECT ?2, ?1, ?3, CASE WHEN ?5 IS NOT NULL THEN ?3 END, ?3, ?6
           WHERE ${LIVE_APP} AND (SELECT count(*) FROM domains WHERE app_id = ?1 AND hostname <> ?2) < ?4
             AND NOT EXISTS (SELECT 1 FROM removed_domains WHERE hostname = ?2 AND removed_at > ?7
               AND owner_id <> (SELECT owner_id FROM apps WHERE id = ?1))
           ON CONFLICT (hostname) DO UPDATE SET app_id = excluded.app_id, created_at = excluded.created_at,
             proved_at = excluded.proved_at, checked_at = excluded.checked_at, reason = NULL
           WHERE domains.proved_at IS NULL AND (?5 = 'names' OR ?5 = 'points' AND domains.app_id = ?1)
           RETURNING hostname, app_id, created_at, proved_at, checked_at, reason`,
        )
        .bind(id, change.hostname, at, change.limit, change.proof, change.reason, change.reservedFrom);
    case 'domain_prove':
      return db
        .prepare(
          `UPDATE domains SET proved_at = ?3, checked_at = ?3, reason = NULL
           WHERE app_id = ?1 AND hostname = ?2 AND proved_at IS NULL
           RETURNING hostname, app_id, created_at, proved_at, checked_at, reason`,
        )
        .bind(id, change.hostname, at);
    case 'domain_remove':
      return deleteOf(db, id, 'domains', 'hostname', change.hostname);
    case 'mail_route_set':
      return db
        .prepare(
          `INSERT INTO mail_routes (app_id, address, created_at)
           SELECT ?1, ?4, ?5
           WHERE ${LIVE_APP} AND ${HAS_DOMAIN}
             AND (SELECT count(*) FROM mail_routes WHERE app_id = ?1 AND address <> ?4) < ?6
           ON CONFLICT (app_id, address) DO UPDATE SET address = excluded.address
           RETURNING address, app_id, created_at`,
        )
        .bind(id, change.domain, change.baseDomain, change.address, at, change.limit);
    case 'mail_route_delete':
      return deleteOf(db, id, 'mail_routes', 'address', change.address);
    case 'tcp_port_set':
      return db
        .prepare(
          `INSERT INTO tcp_ports (port, app_id, created_at)
           SELECT ?2, ?1, ?3
           WHERE ${LIVE_APP} AND (SELECT count(*) FROM tcp_ports JOIN apps ON apps.id = app_id
             WHERE port <> ?2 AND owner_id = (SELECT owner_id FROM apps WHERE id = ?1)) < ?4
           ON CONFLICT (port) DO UPDATE SET port = excluded.port WHERE app_id = excluded.app_id
           RETURNING port, app_id, created_at`,
        )
        .bind(id, change.port, at, change.limit);
    case 'tcp_port_delete':
      return deleteOf(db, id, 'tcp_ports', 'port', change.port);
    case 'limits':
      return db
        .prepare(
          `UPDATE apps SET
             client_rpm = CASE WHEN ?2 THEN ?3 ELSE client_rpm END,
             app_rpm = CASE WHEN ?4 THEN ?5 ELSE app_rpm END
           WHERE id = ?1 AND deleted_at IS NULL RETURNING id`,
        )
        .bind(
          id,
          change.clientRpm === undefined ? 0 : 1,
          change.clientRpm ?? null,
          change.appRpm === undefined ? 0 : 1,
          change.appRpm ?? null,
        );
    case 'builds': {
      const { root_directory, install_command, build_command, output_directory, release_command } =
        change.settings;
      const values = [root_directory, install_command, build_command, output_directory, release_command];
      return db
        .prepare(
          `UPDATE apps SET
             root_directory = CASE WHEN ?2 THEN ?3 ELSE root_directory END,
             install_command = CASE WHEN ?4 THEN ?5 ELSE install_command END,
             build_command = CASE WHEN ?6 THEN ?7 ELSE build_command END,
             output_directory = CASE WHEN ?8 THEN ?9 ELSE output_directory END,
             release_command = CASE WHEN ?10 THEN ?11 ELSE release_command END,
             deploy_on = coalesce(?12, deploy_on)
           WHERE id = ?1 AND deleted_at IS NULL RETURNING id`,
        )
        .bind(
          id,
          ...values.flatMap((value) => [value === undefined ? 0 : 1, value ?? null]),
          change.deployOn ?? null,
        );
    }
    case 'maintenance':
      return db
        .prepare(
          `UPDATE apps SET maintenance = coalesce(?2, maintenance),
             maintenance_html = CASE WHEN ?3 THEN ?4 ELSE maintenance_html END
           WHERE id = ?1 AND deleted_at IS NULL RETURNING maintenance, maintenance_html`,
        )
        .bind(
          id,
          change.enabled === undefined ? null : Number(change.enabled),
          change.html === undefined ? 0 : 1,
          change.html ?? null,
        );
    case 'previews':
      return db
        .prepare(
          `UPDATE apps SET previews_branches = coalesce(?2, previews_branches),
             previews_storage = coalesce(?3, previews_storage), previews_vars = coalesce(?4, previews_vars)
           WHERE id = ?1 AND deleted_at IS NULL RETURNING id`,
        )
        .bind(
          id,
          change.branches === undefined ? null : Number(change.branches),
          change.storage ?? null,
          change.vars ?? null,
        );
    case 'scale':
      return db
        .prepare(
          `UPDATE apps SET replicas = ?2
           WHERE id = ?1 AND deleted_at IS NULL AND (storage = 'bucket' OR ?2 = 1) RETURNING id`,
        )
        .bind(id, change.replicas);
  }
}

/** Returns the statement that deletes the row of an app with this value in `column`. */
function deleteOf(
  db: D1Database,
  id: string,
  table: string,
  column: string,
  value: string | number,
): D1PreparedStatement {
  return db
    .prepare(`DELETE FROM ${table} WHERE app_id = ?1 AND ${column} = ?2 RETURNING ${column}`)
    .bind(id, value);
}
