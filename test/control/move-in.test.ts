// A control plane whose data moves from this machine into the bucket.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import type { AppCluster } from '../../runtime/bucket/app-cluster.ts';
import { DATABASES, isInBucket } from '../../runtime/control/config.ts';
import { HandlersProcess } from '../../runtime/control/handlers-process.ts';
import { runQueries } from '../../runtime/control/run-queries.ts';
import { socketPath } from '../../runtime/fleets/process/cell-directories.ts';
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { dumpDatabase } from '../../runtime/snapshots/take/dump-database.ts';
import { clusterIn } from '../support/bucket/clusters.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const HANDLERS = `
  import { DurableObject } from 'cloudflare:workers';
  export class AppObject extends DurableObject {}
  export class HostsObject extends DurableObject {}
  export default { fetch: () => new Response('yes') };
`;
const SCHEMA = `
  CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, of TEXT NOT NULL REFERENCES owners (id), note TEXT, data BLOB) STRICT;
  CREATE TABLE owners (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
  CREATE TABLE removed (id INTEGER);
  CREATE TRIGGER items_removed AFTER INSERT ON items BEGIN INSERT INTO removed VALUES (NEW.id); END;
  CREATE INDEX items_of ON items (of);
`;
const NOTES = ["it's; -- no comment", 'two\nlines\r\n', '', 'ü\u{1f600}', null];

function machine(t: TestContext, cluster: AppCluster | null) {
  const root = temporaryDirectory(t);
  const directory = join(root, 'control');
  mkdirSync(directory);
  const trash = join(root, 'trash');
  const running = new HandlersProcess({
    ...{ directory, trash, cluster, workerd: workerdPath() },
    onRestart: () => {},
  });
  t.after(() => running.end());
  const run = () => running.run({ script: HANDLERS, hostSocket: join(root, 'none'), variables: {} });
  const rows = async (sql: string) => {
    const [answer] = await runQueries(socketPath(directory, 'database'), [{ sql }]);
    return answer!.results;
  };
  const file = join(directory, DATABASES[0]!.file);
  return { running, run, rows, file, trash, directory, signIn: socketPath(directory, 'sign-in') };
}

/** Writes the database that a control plane on this machine would have. */
function fill(file: string, items: number): void {
  mkdirSync(dirname(file), { recursive: true });
  const database = new Database(file);
  database.exec(SCHEMA);
  database.exec("INSERT INTO owners VALUES ('ada')");
  const add = database.prepare("INSERT INTO items (of, note, data) VALUES ('ada', ?, ?)");
  database.transaction(() => {
    for (let n = 0; n < items; n++) add.run(NOTES[n % NOTES.length], Buffer.from([n % 256, 0, 255]));
  })();
  database.prepare('DELETE FROM items WHERE id = ?').run(items);
  database.close();
}

test('its databases are in the bucket afterwards, as they were, and the old files in the trash', async (t) => {
  await using store = await new MemoryStore().start();
  const first = machine(t, clusterIn(store, 'control'));
  fill(first.file, 5_000);
  await first.run();
  assert.equal(existsSync(first.file), false);
  assert.deepEqual(readdirSync(join(first.trash, readdirSync(first.trash)[0]!)), ['d1']);
  await first.running.end();

  const next = machine(t, clusterIn(store, 'control'));
  await next.run();
  const items = await next.rows('SELECT id, note, hex(data) AS data FROM items ORDER BY id');
  assert.equal(items.length, 4_999);
  assert.deepEqual(items[3], { id: 4, note: 'ü\u{1f600}', data: '0300FF' });
  assert.deepEqual(
    items.slice(0, 5).map(({ note }) => note),
    NOTES,
  );
  assert.deepEqual(
    await next.rows('SELECT count(*) AS n FROM removed'),
    [{ n: 5_000 }],
    'no trigger ran again',
  );
  await next.rows("INSERT INTO items (of) VALUES ('ada')");
  assert.deepEqual(await next.rows('SELECT max(id) AS id FROM items'), [{ id: 5_001 }]);
  await assert.rejects(next.rows("INSERT INTO items (of) VALUES ('nobody')"), /FOREIGN KEY/);

  // Snapshots of a Cellar with several hosts read the database in this way.
  const dump = join(temporaryDirectory(t), 'dump.sqlite');
  await dumpDatabase(socketPath(next.directory, 'database'), dump);
  const copy = new Database(dump);
  t.after(() => copy.close());
  assert.deepEqual(
    copy.prepare('SELECT id, note, hex(data) AS data FROM items WHERE id < 5000 ORDER BY id').all(),
    items,
  );
  assert.deepEqual(copy.prepare('SELECT count(*) AS n FROM removed').all(), [{ n: 5_001 }]);
  copy.exec("INSERT INTO items (of) VALUES ('ada')");
  assert.deepEqual(copy.prepare('SELECT max(id) AS id FROM removed').all(), [{ id: 5_002 }]);
  const names = copy.prepare(
    "SELECT name FROM sqlite_schema WHERE type IN ('index', 'trigger') ORDER BY name",
  );
  assert.deepEqual(names.pluck().all(), ['items_of', 'items_removed']);
});

test('a copy that was interrupted begins anew, and a newer database in the bucket stays', async (t) => {
  await using store = await new MemoryStore().start();
  const cut = machine(t, clusterIn(store, 'control'));
  fill(cut.file, 20_000);
  // The machine is lost while rows are copied.
  const starting = assert.rejects(cut.run());
  const inBucket = () => [...store.objects.keys()].filter((name) => name.includes('/log/')).length;
  await eventually(() => inBucket() > 2, 'rows are in the bucket');
  assert.equal(existsSync(cut.signIn), false, 'no visitor can write into an incomplete copy');
  assert.equal(isInBucket(cut.directory), false, 'it could still start without the bucket');
  await cut.running.end();
  await starting;

  const again = machine(t, clusterIn(store, 'control'));
  fill(again.file, 7);
  await again.run();
  assert.deepEqual(await again.rows('SELECT count(*) AS n FROM items'), [{ n: 6 }]);
  assert.deepEqual([existsSync(again.signIn), isInBucket(again.directory)], [true, true]);
  await again.running.end();

  const older = machine(t, clusterIn(store, 'control'));
  fill(older.file, 3);
  await older.run();
  assert.deepEqual(await older.rows('SELECT count(*) AS n FROM items'), [{ n: 6 }]);
  assert.equal(existsSync(older.file), false);
});
