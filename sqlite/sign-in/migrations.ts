// Brings the database of sign-in to the newest schema.
import { applyMigrations, type Migration } from '../d1.ts';
import signIn from './migrations/0001_sign_in.sql';

/** Applied in this order. */
const migrations: Migration[] = [{ name: '0001_sign_in.sql', sql: signIn }];

/**
 * Applies missing migrations.
 * @throws {NewerSchema} when a newer Cellar has used the database; nothing is changed then
 */
export function migrate(db: D1Database): Promise<void> {
  return applyMigrations(db, migrations, 'The database of sign-in');
}
