import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { DatabaseMigration } from '../../../bundler/release.ts';
import { migrate } from '../../../runtime/fleets/life/migrate.ts';
import { call, makeRelease, startRelease, workerd } from '../../support/fleets/release.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const QUERY = `export default { async fetch(request, env) {
  try { return Response.json((await env.DB.prepare(await request.text()).all()).results); }
  catch (error) { return new Response(error.message, { status: 500 }); }
} }`;

/** An app with one database whose migrations are `files`, name → SQL. */
function app(t: TestContext) {
  const root = temporaryDirectory(t);
  const log: string[] = [];
  let count = 0;
  const release = (files: Record<string, string>, tables: (string | undefined)[] = [undefined]) => {
    const migrations: DatabaseMigration[] = Object.keys(files).map((name) => ({ name, path: `sql/${name}` }));
    const placed = Object.fromEntries(Object.entries(files).map(([name, sql]) => [`sql/${name}`, sql]));
    const databases = tables.map((migrationsTable, n) => {
      const table = migrationsTable !== undefined && { migrationsTable };
      return { binding: n === 0 ? 'DB' : `DB${n}`, storageId: 'database1', migrations, ...table };
    });
    return makeRelease(`${root}/r${++count}`, QUERY, { databases }, placed);
  };
  const apply = async (
    files: Record<string, string>,
    { signal, tables }: { signal?: AbortSignal; tables?: (string | undefined)[] } = {},
  ) => {
    const { release: made, directory } = await release(files, tables);
    const dataDirectory = join(root, 'data');
    const options = {
      workerd,
      user: null,
      memoryMb: 512,
      databases: made.databases,
      directory,
      dataDirectory,
      runDirectory: `${root}/run`,
    };
    const before = process.threadCpuUsage();
    await migrate({ ...options, log: (line) => log.push(line), ...(signal ? { signal } : {}) });
    const { user, system } = process.threadCpuUsage(before);
    return { cpuMs: (user + system) / 1000 };
  };
  const query = async (sql: string) => {
    const { directory } = await release({});
    const cell = await startRelease(root, directory);
    const { text } = await call(cell.socketPath('http'), '/', { method: 'POST', body: sql });
    await cell.stop();
    return text;
  };
  return { root, log, apply, query };
}

test('pending migrations are applied in order and recorded as wrangler records them', async (t) => {
  const { apply, query, log, root } = app(t);
  const first = { '0001_a.sql': 'CREATE TABLE a(x);\nINSERT INTO a VALUES (1);\n-- end\n' };
  const second = { ...first, '0002_b.sql': 'UPDATE a SET x = x + 1', '0003_c.sql': '-- nothing yet' };
  await apply(first);
  await apply(second);
  assert.deepEqual(log, ['DB: applied 0001_a.sql', 'DB: applied 0002_b.sql', 'DB: applied 0003_c.sql']);
  assert.equal(await query('SELECT x FROM a'), '[{"x":2}]');
  const names = '[{"id":1,"name":"0001_a.sql"},{"id":2,"name":"0002_b.sql"},{"id":3,"name":"0003_c.sql"}]';
  assert.equal(await query('SELECT id, name FROM d1_migrations WHERE applied_at IS NOT NULL'), names);
  assert.deepEqual(
    readdirSync(`${root}/run`).filter((name) => name === 'migrate'),
    [],
  );
});

test('known migrations start no process, and forgotten ones are not applied twice', async (t) => {
  const { apply, query, log, root } = app(t);
  const files = { '1.sql': 'CREATE TABLE a(x); INSERT INTO a VALUES (1)' };
  await apply(files);
  rmSync(`${root}/run`, { recursive: true });
  await apply(files);
  assert.ok(!existsSync(`${root}/run`), 'no process was started');
  rmSync(`${root}/data/migrations.json`);
  await apply(files);
  assert.deepEqual(log, ['DB: applied 1.sql']);
  assert.equal(await query('SELECT count(*) AS n FROM a'), '[{"n":1}]');
});

test('a failed migration rolls back its whole run and reports its place, in the words of SQLite', async (t) => {
  const { apply, query } = app(t);
  await apply({ '1.sql': 'CREATE TABLE a(x)' });
  const files = {
    '1.sql': '',
    '2.sql': 'INSERT INTO a VALUES (1); CREATE TABLE b(x);',
    '3.sql': 'INSERT INTO a VALUES (2);\n\nINSERT INTO nope VALUES (1);\n',
  };
  const message = 'Error: migration of DB failed at 3.sql:3: no such table: nope: SQLITE_ERROR';
  await assert.rejects(apply(files), new RegExp(`^${message}$`));
  assert.equal(await query('SELECT count(*) AS n FROM a'), '[{"n":0}]');
  assert.equal(await query('SELECT name FROM d1_migrations'), '[{"name":"1.sql"}]');
  await apply({ ...files, '3.sql': 'INSERT INTO a VALUES (2)' });
  assert.equal(await query('SELECT count(*) AS n FROM a'), '[{"n":2}]');
});

test('the failure of the first migrations says how to deploy without them', async (t) => {
  const files = { '1.sql': 'CREATE TABLE a(x)', '2.sql': 'CREATE TABLE a(x, y)' };
  const message =
    /failed at 2\.sql:1: table a already exists.*; Cloudflare deploys without migrations: .*"migrations_dir"/;
  await assert.rejects(app(t).apply(files), message);
});

test('a failed migration that was applied under an earlier name says so', async (t) => {
  const { apply } = app(t);
  await apply({ '1.sql': 'CREATE TABLE a(x)', '2.sql': 'CREATE TABLE b(x)' });
  const renamed = apply({ '1.sql': '', '2_tables.sql': 'CREATE TABLE b(x)' });
  const message =
    /at 2_tables\.sql:1: table b already exists.*; the database has applied 2\.sql, which the project does/;
  await assert.rejects(renamed, message);
});

test('migrations may exceed the length limit of a statement and contain triggers', async (t) => {
  const { apply, query } = app(t);
  const trigger = 'CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE n SET n = n + 1; END;';
  const rows = `INSERT INTO a VALUES ('${'x'.repeat(90)}');\n`.repeat(4_000);
  await apply({
    '1.sql': `CREATE TABLE a(x); CREATE TABLE n(n); INSERT INTO n VALUES (0);\n${trigger}\n${rows}`,
  });
  assert.equal(await query('SELECT n FROM n'), '[{"n":4000}]');
});

test('long migrations take the host almost no CPU time', async (t) => {
  const [{ apply, query }, short] = [app(t), app(t)];
  const rows = `INSERT INTO a VALUES (0)${',(1)'.repeat(2_000)};\n`;
  const files = {
    '1.sql': 'CREATE TABLE a(x)',
    'new ones/2 é%.sql': rows.repeat(1_000),
    'new ones/3.sql': rows.repeat(1_000),
  };
  await apply({ '1.sql': files['1.sql'] });
  const { cpuMs: ofLong } = await apply(files);
  await short.apply({ '1.sql': files['1.sql'] });
  const { cpuMs: ofShort } = await short.apply({
    '1.sql': files['1.sql'],
    'new ones/2 é%.sql': rows,
    'new ones/3.sql': rows,
  });
  // If the host itself split this much SQL, it would take ten times as long.
  assert.ok(ofLong < 5 * ofShort, `${ofLong} ms for long ones, ${ofShort} ms for short ones`);
  assert.equal(await query('SELECT count(*) AS n FROM a'), '[{"n":4002000}]');
});

test('SQL that only a host may run is refused', async (t) => {
  const { apply } = app(t);
  await assert.rejects(apply({ '1.sql': "ATTACH '/etc/passwd' AS x" }), /1\.sql:1: .*not authorized/);
  await assert.rejects(apply({ '1.sql': 'BEGIN; CREATE TABLE a(x); COMMIT' }), /1\.sql:1: .*transaction/);
});

test('a foreign key violation is found before the migrations count as applied', async (t) => {
  const { apply, query } = app(t);
  const tables = 'CREATE TABLE a(id INTEGER PRIMARY KEY); CREATE TABLE b(a REFERENCES a(id));';
  const sql = `PRAGMA defer_foreign_keys = true; ${tables} INSERT INTO b VALUES (7);`;
  await assert.rejects(apply({ '1.sql': sql }), /FOREIGN KEY constraint failed/);
  assert.match(await query('SELECT * FROM b'), /no such table/);
});

test('an endless migration is killed and leaves the database unchanged', async (t) => {
  const { apply, query } = app(t);
  await apply({ '1.sql': 'CREATE TABLE a(x)' });
  const endless =
    'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) INSERT INTO a SELECT max(x) FROM n';
  const files = { '1.sql': '', '2.sql': `INSERT INTO a VALUES (1); ${endless}` };
  await assert.rejects(apply(files, { signal: AbortSignal.timeout(700) }), /timeout|aborted/);
  assert.equal(await query('SELECT count(*) AS n FROM a'), '[{"n":0}]');
});

const FAMILY = `CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE posts (id INTEGER PRIMARY KEY, author INTEGER REFERENCES users(id) ON DELETE CASCADE);
CREATE TABLE likes (post INTEGER REFERENCES posts(id) ON DELETE CASCADE, PRIMARY KEY (post)) WITHOUT ROWID;
INSERT INTO users VALUES (1, 'ann'), (2, 'bob');
INSERT INTO posts VALUES (10, 1), (20, 2);
INSERT INTO likes VALUES (10);`;
/** Rebuilds a table with the statements that drizzle-kit and Prisma write. */
const rebuild = (off: string, rows = '') => `${off}
CREATE TABLE "new_users" (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO "new_users" SELECT id, name FROM users ${rows};
DROP TABLE users;
ALTER TABLE "new_users" RENAME TO "users";
PRAGMA foreign_keys=ON;`;

test('rebuilding a table with foreign keys off keeps the rows of other tables', async (t) => {
  const { apply, query } = app(t);
  const files: Record<string, string> = { '1.sql': FAMILY };
  await apply(files);
  const ways = [
    'PRAGMA foreign_keys=OFF;--> statement-breakpoint',
    'PRAGMA defer_foreign_keys=ON; PRAGMA foreign_keys = 0;',
    "pragma main.foreign_keys('no');",
  ];
  for (const off of ways) {
    files[`${Object.keys(files).length + 1}.sql`] = rebuild(off);
    await apply(files);
  }
  const rows =
    "SELECT (SELECT group_concat(id || ' ' || author) FROM posts) AS posts, (SELECT post FROM likes) AS post";
  assert.equal(await query(rows), '[{"posts":"10 1,20 2","post":10}]');
  assert.match(await query('INSERT INTO posts VALUES (30, 3)'), /FOREIGN KEY constraint failed/);
  // With foreign keys on, deleting the table deletes the rows that refer to it, as on D1.
  files['5.sql'] = rebuild('PRAGMA defer_foreign_keys=ON;');
  await apply(files);
  assert.equal(await query('SELECT * FROM posts'), '[]');
});

test('migrations with foreign keys off that orphan a row are rolled back and name the row', async (t) => {
  const { apply, query } = app(t);
  await apply({ '1.sql': FAMILY });
  const lost = rebuild('PRAGMA foreign_keys=OFF;', 'WHERE id = 1');
  await assert.rejects(
    apply({ '1.sql': FAMILY, '2.sql': 'CREATE TABLE a(x)', '3.sql': lost }),
    /migration of DB failed at 3\.sql: FOREIGN KEY constraint failed: row 20 of posts refers to a missing row of users/,
  );
  const likes = 'PRAGMA foreign_keys=OFF; DELETE FROM posts WHERE id = 10;';
  await assert.rejects(
    apply({ '1.sql': FAMILY, '2.sql': likes }),
    /: a row of likes refers to a missing row of posts/,
  );
  assert.equal(await query('SELECT count(*) AS n FROM users'), '[{"n":2}]');
  assert.equal(await query('SELECT name FROM d1_migrations'), '[{"name":"1.sql"}]');
  assert.equal(await query("SELECT name FROM sqlite_schema WHERE name = 'a'"), '[]');
});

test('migrations are recorded in the table that the project names', async (t) => {
  const { apply, query, log } = app(t);
  const tables = ['my "applied"'];
  await apply({ '1.sql': 'CREATE TABLE a(x)' }, { tables });
  await apply({ '1.sql': '', '2.sql': 'INSERT INTO a VALUES (1)' }, { tables });
  assert.deepEqual(log, ['DB: applied 1.sql', 'DB: applied 2.sql']);
  assert.equal(await query('SELECT name FROM "my ""applied"""'), '[{"name":"1.sql"},{"name":"2.sql"}]');
  assert.match(await query('SELECT * FROM d1_migrations'), /no such table/);
});

test("migrations already recorded in d1_migrations are not applied again under the project's table", async (t) => {
  const { apply, query, log, root } = app(t);
  const files = {
    '1.sql': 'CREATE TABLE a(x); INSERT INTO a VALUES (1)',
    '2.sql': 'INSERT INTO a VALUES (2)',
  };
  await apply({ '1.sql': files['1.sql'] });
  await apply(files, { tables: ['applied'] });
  assert.deepEqual(log, ['DB: applied 1.sql', 'DB: applied 2.sql']);
  assert.equal(await query('SELECT x FROM a'), '[{"x":1},{"x":2}]');
  assert.equal(await query('SELECT name FROM applied'), '[{"name":"1.sql"},{"name":"2.sql"}]');
  // Without the cached list of applied migrations, Cellar reads it from the tables.
  rmSync(`${root}/data/migrations.json`);
  await apply(files, { tables: ['applied'] });
  assert.equal(await query('SELECT x FROM a'), '[{"x":1},{"x":2}]');
});

test('two bindings to one database that record in two tables have separate migrations', async (t) => {
  const { apply, query } = app(t);
  await apply(
    { '1.sql': 'CREATE TABLE IF NOT EXISTS a(x); INSERT INTO a VALUES (1)' },
    { tables: [undefined, 'other'] },
  );
  assert.equal(await query('SELECT x FROM a'), '[{"x":1},{"x":1}]');
});
