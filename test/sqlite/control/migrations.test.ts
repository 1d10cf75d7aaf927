// Migrations that change existing rows.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import Sqlite from 'better-sqlite3';

const DIRECTORY = new URL('../../../sqlite/control/migrations/', import.meta.url);

/** Returns a database with the schema before a migration, and a function that applies the migration. */
function before(t: TestContext, migration: string) {
  const database = new Sqlite(':memory:');
  t.after(() => database.close());
  database.pragma('foreign_keys = OFF');
  const apply = (name: string) => database.exec(readFileSync(new URL(name, DIRECTORY), 'utf8'));
  const names = readdirSync(DIRECTORY).sort();
  for (const name of names.slice(0, names.indexOf(migration))) apply(name);
  return { database, migrate: () => apply(migration) };
}

test('an app of the previous schema is local, and no other value than local and bucket is stored', (t) => {
  const { database, migrate } = before(t, '0020_storage.sql');
  database.exec(`INSERT INTO apps (id, slug, owner_id, desired_state, generation, created_at, seq)
    VALUES ('a', 'shop', 'owner', 'running', 1, '2026-01-01T00:00:00.000Z', 1)`);
  migrate();
  assert.equal(database.prepare('SELECT storage FROM apps').pluck().get(), 'local');
  assert.throws(() => database.exec("UPDATE apps SET storage = 'disk'"), /CHECK constraint failed/);
});

test('an address of the previous schema counts as proved, unless its account shows that nobody proved it', (t) => {
  const { database, migrate } = before(t, '0036_email_proved.sql');
  const account = database.prepare(
    "INSERT INTO accounts (id, name, email, role, is_guest, created_at) VALUES (?, '', ?, 'member', ?, '2026-01-02')",
  );
  for (const id of ['made', 'invited', 'typed', 'guest', 'reset', 'joined'])
    account.run(id, `${id}@example.com`, id === 'guest' ? 1 : 0);
  account.run('blank', null, 0);
  const invite = database.prepare(
    "INSERT INTO invites (id, hash, role, account_id, email, created_at) VALUES (:id, :id, 'member', :id, :email, :at)",
  );
  invite.run({ id: 'invited', email: 'invited@example.com', at: '2026-01-01' });
  invite.run({ id: 'typed', email: null, at: '2026-01-01' });
  invite.run({ id: 'reset', email: null, at: '2026-01-03' });
  invite.run({ id: 'joined', email: null, at: '2026-01-03' });
  migrate();
  const unproved = database.prepare('SELECT id FROM accounts WHERE email_proved = 0 ORDER BY id').pluck();
  assert.deepEqual(unproved.all(), ['blank', 'guest', 'typed']);
});
