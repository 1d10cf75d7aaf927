// Removes old records.

/** Maximum rows that one statement removes, because other statements wait for it. */
const STEP_ROWS = 500;

/**
 * Each removes at most `?2` rows from before `?1`. Reserved hostnames stay for at least 7 days, audit entries for 90 days.
 */
const byAge = [
  'DELETE FROM events WHERE rowid IN (SELECT rowid FROM events WHERE created_at < ?1 LIMIT ?2)',
  `DELETE FROM users WHERE (app_id, user_id) IN (
     SELECT app_id, user_id FROM users WHERE updated_at < ?1 LIMIT ?2)`,
  `DELETE FROM insights WHERE (app_id, title) IN (
     SELECT app_id, title FROM insights WHERE updated_at < ?1 LIMIT ?2)`,
  `DELETE FROM invites WHERE id IN (
     SELECT id FROM invites WHERE created_at < ?1 AND (used_at IS NOT NULL OR expires_at < ?1) LIMIT ?2)`,
  `DELETE FROM removed_domains WHERE hostname IN (SELECT hostname FROM removed_domains
     WHERE removed_at < min(?1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-7 days')) LIMIT ?2)`,
  `DELETE FROM audit WHERE seq IN (
     SELECT seq FROM audit WHERE at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-90 days') LIMIT ?2)`,
];

const oldDeploys = `DELETE FROM deploys WHERE rowid IN (
  SELECT deploys.rowid FROM apps JOIN deploys ON deploys.app_id = apps.id
  WHERE deploys.seq <= (SELECT max(seq) FROM deploys WHERE app_id = apps.id) - ?1
    AND status NOT IN ('queued', 'building', 'live') AND can_roll_back = 0
  LIMIT ?2)`;

/**
 * Removes old rows, up to 500 at a time, until none is left or `mayGoOn` returns false.
 * @param before removes events, users, insights, ended invites and reserved hostnames from before this time, ISO 8601.
 *   Hostnames stay reserved for at least 7 days. Entries of the audit log are removed after 90 days.
 * @param deploys number of newest deploys that each app keeps. An app also keeps deploys that are unfinished or live, and
 *   those that it can roll back to.
 */
export async function removeOld(
  db: D1Database,
  before: string,
  deploys: number,
  mayGoOn: () => boolean,
): Promise<void> {
  const steps = [
    ...byAge.map((sql) => db.prepare(sql).bind(before, STEP_ROWS)),
    db.prepare(oldDeploys).bind(deploys, STEP_ROWS),
  ];
  for (const step of steps) {
    let removed: number;
    do {
      if (!mayGoOn()) return;
      removed = (await step.run()).meta.changes;
    } while (removed > 0);
  }
}
