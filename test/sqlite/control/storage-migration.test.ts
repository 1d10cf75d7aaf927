// Apps that were made before the column `storage` existed keep their data on the machine.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import Sqlite from 'better-sqlite3';

const DIRECTORY = new URL('../../../sqlite/control/migrations/', import.meta.url);
const NAME = '0020_storage.sql';

test('an app of the previous schema is local, and no other value than local and bucket is stored', (t) => {
  const database = new Sqlite(':memory:');
  t.after(() => database.close());
  database.pragma('foreign_keys = OFF');
  const apply = (name: string) => database.exec(readFileSync(new URL(name, DIRECTORY), 'utf8'));
  const names = readdirSync(DIRECTORY).sort();
  for (const name of names.slice(0, names.indexOf(NAME))) apply(name);
  database.exec(`INSERT INTO apps (id, slug, owner_id, desired_state, generation, created_at, seq)
    VALUES ('a', 'shop', 'owner', 'running', 1, '2026-01-01T00:00:00.000Z', 1)`);
  apply(NAME);
  assert.equal(database.prepare('SELECT storage FROM apps').pluck().get(), 'local');
  assert.throws(() => database.exec("UPDATE apps SET storage = 'disk'"), /CHECK constraint failed/);
});
