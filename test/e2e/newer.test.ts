// A control database that a newer Cellar has used.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { Cellar } from '../support/e2e/cellar.ts';

/** The file of the control plane's D1 database. */
function controlDatabase({ data }: Cellar): string {
  const directory = join(data, 'control/d1');
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  const name = names.find((name) => name.endsWith('.sqlite') && !name.endsWith('metadata.sqlite'));
  assert.ok(name, names.join());
  return join(directory, name);
}

test('a control database with a newer schema stops the boot, and the message says so', async () => {
  await using cellar = await new Cellar().start();
  await cellar.stop();
  const database = new Database(controlDatabase(cellar));
  database.prepare("INSERT INTO d1_migrations (name) VALUES ('9999_later.sql')").run();
  const from = cellar.output.length;
  await assert.rejects(cellar.start(), /the host ended \(1\)/);
  assert.match(cellar.output.slice(from), /newer Cellar.*9999_later\.sql/);

  database.prepare("DELETE FROM d1_migrations WHERE name = '9999_later.sql'").run();
  database.close();
  await cellar.stop();
  await cellar.start();
});
