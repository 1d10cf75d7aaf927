// Brings the control plane's database to the newest schema.
import { applyMigrations, type Migration } from '../d1.ts';
import control from './migrations/0001_control.sql';
import observedAsOf from './migrations/0002_observed_as_of.sql';
import factsByRow from './migrations/0003_facts_by_row.sql';
import idempotencyByCaller from './migrations/0004_idempotency_by_caller.sql';
import order from './migrations/0005_order.sql';
import ages from './migrations/0006_ages.sql';
import people from './migrations/0007_people.sql';
import formerSlugs from './migrations/0008_former_slugs.sql';
import builds from './migrations/0009_builds.sql';
import recoveries from './migrations/0010_recoveries.sql';
import previews from './migrations/0011_previews.sql';
import guests from './migrations/0012_guests.sql';
import previewStorage from './migrations/0013_preview_storage.sql';
import requestedBy from './migrations/0014_requested_by.sql';
import orderOfUsers from './migrations/0015_order_of_users.sql';
import warnings from './migrations/0016_warnings.sql';
import domainProof from './migrations/0017_domain_proof.sql';
import guestInvites from './migrations/0018_guest_invites.sql';
import versions from './migrations/0019_versions.sql';
import storage from './migrations/0020_storage.sql';
import hosts from './migrations/0021_hosts.sql';
import replicas from './migrations/0022_replicas.sql';
import audit from './migrations/0023_audit.sql';
import keyScopes from './migrations/0024_key_scopes.sql';
import maxApps from './migrations/0025_max_apps.sql';
import undelete from './migrations/0026_undelete.sql';
import vars from './migrations/0027_vars.sql';
import releaseCommand from './migrations/0028_release_command.sql';
import maintenance from './migrations/0029_maintenance.sql';
import deployOn from './migrations/0030_deploy_on.sql';
import mailRoutes from './migrations/0031_mail_routes.sql';
import dispatch from './migrations/0032_dispatch.sql';
import secretsStore from './migrations/0033_secrets_store.sql';
import clientCertificates from './migrations/0034_client_certificates.sql';
import tcpPorts from './migrations/0035_tcp_ports.sql';
import emailProved from './migrations/0036_email_proved.sql';

/** Applied in this order. `name` is the file name, as Wrangler records it. */
const migrations: Migration[] = [
  { name: '0001_control.sql', sql: control },
  { name: '0002_observed_as_of.sql', sql: observedAsOf },
  { name: '0003_facts_by_row.sql', sql: factsByRow },
  { name: '0004_idempotency_by_caller.sql', sql: idempotencyByCaller },
  { name: '0005_order.sql', sql: order },
  { name: '0006_ages.sql', sql: ages },
  { name: '0007_people.sql', sql: people },
  { name: '0008_former_slugs.sql', sql: formerSlugs },
  { name: '0009_builds.sql', sql: builds },
  { name: '0010_recoveries.sql', sql: recoveries },
  { name: '0011_previews.sql', sql: previews },
  { name: '0012_guests.sql', sql: guests },
  { name: '0013_preview_storage.sql', sql: previewStorage },
  { name: '0014_requested_by.sql', sql: requestedBy },
  { name: '0015_order_of_users.sql', sql: orderOfUsers },
  { name: '0016_warnings.sql', sql: warnings },
  { name: '0017_domain_proof.sql', sql: domainProof },
  { name: '0018_guest_invites.sql', sql: guestInvites },
  { name: '0019_versions.sql', sql: versions },
  { name: '0020_storage.sql', sql: storage },
  { name: '0021_hosts.sql', sql: hosts },
  { name: '0022_replicas.sql', sql: replicas },
  { name: '0023_audit.sql', sql: audit },
  { name: '0024_key_scopes.sql', sql: keyScopes },
  { name: '0025_max_apps.sql', sql: maxApps },
  { name: '0026_undelete.sql', sql: undelete },
  { name: '0027_vars.sql', sql: vars },
  { name: '0028_release_command.sql', sql: releaseCommand },
  { name: '0029_maintenance.sql', sql: maintenance },
  { name: '0030_deploy_on.sql', sql: deployOn },
  { name: '0031_mail_routes.sql', sql: mailRoutes },
  { name: '0032_dispatch.sql', sql: dispatch },
  { name: '0033_secrets_store.sql', sql: secretsStore },
  { name: '0034_client_certificates.sql', sql: clientCertificates },
  { name: '0035_tcp_ports.sql', sql: tcpPorts },
  { name: '0036_email_proved.sql', sql: emailProved },
];

/**
 * Applies missing migrations.
 * @throws {NewerSchema} when a newer Cellar has used the database; nothing is changed then
 */
export function migrate(db: D1Database): Promise<void> {
  return applyMigrations(db, migrations, "The control plane's database");
}
