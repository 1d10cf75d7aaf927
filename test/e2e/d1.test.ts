// D1's HTTP API, called directly and by Wrangler, compared with Miniflare's D1.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { sharedCellar } from '../support/e2e/shared.ts';
import { randomCases } from '../support/random.ts';
import { type Answered, requests, SETUP, type Statement, startMiniflareD1 } from '../support/storage/d1.ts';
import { temporaryDirectory } from '../support/temporary.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = sharedCellar('storage');

/** SQLite's message for a deferred foreign key that fails at commit. */
const BROKEN_KEY =
  'FOREIGN KEY constraint failed: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_FOREIGNKEY)';

const CONFIG = (name: string, more = '') => `name = "${name}"
main = "index.js"
compatibility_date = "2026-10-01"
[[d1_databases]]
binding = "DB"
database_name = "${name}"
${more}`;

interface Envelope {
  success: boolean;
  errors: { code: number; message: string }[];
  // biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
  result: any;
}

/** Pushes an app with a database of the same name. @param more configuration of the binding */
async function pushed(slug: string, more = '', files: Record<string, string> = {}) {
  const id = await cellar.create(slug);
  const work = await cellar.checkout('hello');
  const write = (files: Record<string, string>) => {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(work, name)), { recursive: true });
      writeFileSync(join(work, name), text);
    }
  };
  write({
    'index.js': "export default { fetch: () => new Response('here') };",
    'wrangler.toml': CONFIG(slug, more),
    ...files,
  });
  const push = async () => {
    await cellar.commit(work, 'a database');
    return (await cellar.push(work, slug, '--force')).stderr;
  };
  const printed = await push();
  assert.match(printed, /serves this push/, printed);
  const { owner } = await cellar.app(id);
  /** Calls D1's API. */
  const ask = async (path: string, body: unknown) => {
    const url = `${cellar.api}/client/v4/accounts/${owner}/d1/database/${slug}/${path}`;
    const headers = { authorization: `Bearer ${cellar.key}`, 'content-type': 'application/json' };
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
    return { status: response.status, ...((await response.json()) as Envelope) };
  };
  const rows = async (sql: string, params?: unknown[]) => {
    const answer = await ask('query', { sql, params });
    assert.equal(answer.success, true, JSON.stringify(answer));
    return answer.result.at(-1).results;
  };
  return { id, write, push, ask, rows };
}

test('D1’s HTTP API answers generated requests as Miniflare’s D1 does', async (t) => {
  const miniflare = startMiniflareD1(temporaryDirectory(t));
  t.after(() => miniflare.dispose());
  const { ask } = await pushed('d1-like');
  await Promise.all([miniflare.run([{ sql: SETUP, params: [] }]), ask('query', { sql: SETUP })]);
  const { seed, numRuns } = randomCases(200);
  for (const [n, statements] of fc.sample(requests, { seed, numRuns }).entries()) {
    const [theirs, ours] = await Promise.all([miniflare.run(statements), answered(ask, statements, n)]);
    assert.deepEqual(ours, expected(theirs), `request ${n}: ${JSON.stringify(statements)}`);
  }
});

type Ask = Awaited<ReturnType<typeof pushed>>['ask'];

/** Runs statements in one of the forms of a request, chosen by `n`, and returns the answer. */
async function answered(ask: Ask, statements: Statement[], n: number) {
  // An unterminated name would include the statements after it.
  const isText = statements.every(({ sql, params }) => params.length === 0 && !sql.includes('"no such'));
  const one = statements.length === 1 ? statements[0] : { batch: statements };
  const body = isText ? { sql: statements.map(({ sql }) => sql).join('\n;\n') } : one;
  const isRaw = n % 3 === 0;
  const { success, result, errors, status } = await ask(isRaw ? 'raw' : 'query', body);
  if (!success) {
    assert.deepEqual([status, errors[0]!.code], [400, 7500], JSON.stringify(errors));
    return { failed: errors[0]!.message };
  }
  const objects = ({ columns, rows }: { columns: string[]; rows: unknown[][] }) =>
    rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at]])));
  return result.map(({ results, meta }: { results: never; meta: object }) =>
    compared({ results: isRaw ? objects(results) : results, meta }),
  );
}

function expected(theirs: Answered[] | { failed: string }) {
  if (Array.isArray(theirs)) return theirs.map(compared);
  // Miniflare does not report why a commit fails. Only a foreign key can make it fail.
  const isCommit = theirs.failed.startsWith('internal error');
  return { failed: isCommit ? BROKEN_KEY : theirs.failed.replace('D1_ERROR: ', '') };
}

/** Returns the fields that must be equal, without server and duration. */
function compared({ results, meta }: { results: unknown; meta: object }) {
  const {
    served_by: _,
    duration: __,
    timings: ___,
    total_attempts: ____,
    ...figures
  } = meta as Record<string, unknown>;
  return { results, figures };
}

test('all statements of a request run in one transaction', async () => {
  const { ask, rows } = await pushed('d1-whole');
  await rows(
    'CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE child (p REFERENCES t (id) ON DELETE CASCADE)',
  );
  const insert = { sql: 'INSERT INTO t (a) VALUES (?) RETURNING id, a', params: ['one'] };
  assert.deepEqual(await rows(insert.sql, insert.params), [{ id: 1, a: 'one' }]);
  for (const body of [
    { sql: 'SELECT 1; INSERT INTO t VALUES (9, 1); INSERT INTO nowhere VALUES (1); SELECT 2' },
    { batch: [insert, { sql: 'SELECT * FROM t' }, { sql: 'INSERT INTO t VALUES (1, NULL)' }] },
  ]) {
    const { status, errors, result } = await ask('query', body);
    assert.deepEqual([status, errors[0]!.code, result], [400, 7500, null]);
    assert.match(errors[0]!.message, /^(no such table: nowhere|UNIQUE constraint failed: t\.id): SQLITE_/);
  }
  assert.deepEqual(await rows('SELECT count(*) AS n FROM t'), [{ n: 1 }]);
  const deferred = 'PRAGMA defer_foreign_keys = on; INSERT INTO child VALUES (5);';
  assert.deepEqual((await ask('query', { sql: deferred })).errors, [{ code: 7500, message: BROKEN_KEY }]);
  assert.equal((await ask('query', { sql: `${deferred} INSERT INTO t (id) VALUES (5)` })).success, true);
  // The form in which Wrangler sends migrations.
  const rebuild = `PRAGMA foreign_keys = off; CREATE TABLE new_t (id INTEGER PRIMARY KEY, a); INSERT INTO new_t SELECT * FROM t;
    DROP TABLE t; ALTER TABLE new_t RENAME TO t; PRAGMA foreign_keys = on`;
  assert.equal((await ask('query', { sql: rebuild })).success, true);
  assert.deepEqual(await rows('SELECT p FROM child'), [{ p: 5 }]);
  const broken = await ask('query', { sql: 'PRAGMA foreign_keys = off; DELETE FROM t' });
  assert.match(
    broken.errors[0]!.message,
    /^FOREIGN KEY constraint failed: row 1 of child refers to a missing row of t/,
  );
  assert.match(
    (await ask('query', { sql: 'INSERT INTO child VALUES (77)' })).errors[0]!.message,
    /^FOREIGN KEY/,
  );
});

test('values, columns and metadata have the format of D1’s API', async () => {
  const { ask, id } = await pushed('d1-values');
  const sql = "SELECT ?1 AS a, ?2 AS b, ?3 AS a, ?4 AS d, x'00ff' AS e, 9007199254740993 AS f, 9e999 AS g";
  const params = ['1', true, [0, 255], null];
  const { result } = await ask('query', { sql, params });
  assert.deepEqual(result[0].results, [{ a: [0, 255], b: 1, d: null, e: [0, 255], f: 2 ** 53, g: null }]);
  const { served_by, duration, ...meta } = result[0].meta;
  assert.equal(served_by, 'cellar');
  assert.ok(duration >= 0);
  const raw = await ask('raw', { batch: [{ sql, params }, { sql: 'SELECT 2 AS two WHERE 0' }] });
  assert.deepEqual(raw.result[0].results, {
    columns: ['a', 'b', 'a', 'd', 'e', 'f', 'g'],
    rows: [['1', 1, [0, 255], null, [0, 255], 2 ** 53, null]],
  });
  assert.deepEqual(raw.result[1].results, { columns: ['two'], rows: [] });
  assert.deepEqual([meta.changes, meta.changed_db, meta.rows_written], [0, false, 0]);
  const slow =
    'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT max(i) AS i FROM n';
  const [{ meta: counted }] = (await ask('query', { sql: slow })).result;
  assert.ok(counted.rows_read >= 300_000 && counted.duration > 0, JSON.stringify(counted));

  const write = (body: object) => cellar.call('POST', `/v1/apps/${id}/storage/d1/DB/write`, body);
  const { body } = await write({
    sql: "CREATE TABLE t (a); INSERT INTO t VALUES (x'00ff'), (9e999) RETURNING a",
  });
  assert.deepEqual(
    [body.changes, body.columns, body.rows],
    [2, ['a'], [[{ $bytes: 'AP8=' }], [{ $number: 'Infinity' }]]],
  );
  assert.equal('rows' in (await write({ sql: 'DELETE FROM t' })).body, false);
});

test('unsupported requests are refused with the field or the limit', async () => {
  const { ask } = await pushed('d1-refused');
  const refused = async (body: unknown, status = 400) => {
    const answer = await ask('query', body);
    assert.equal(answer.status, status, JSON.stringify(answer));
    return answer.errors[0]!.message;
  };
  assert.match(await refused({}), /^sql: .*batch/);
  assert.match(await refused({ sql: 'SELECT 1', batch: [] }), /batch/);
  assert.match(await refused({ batch: [{ sql: 1 }] }), /^batch\.0\.sql: /);
  assert.match(await refused({ sql: 'SELECT ?', params: [{ a: 1 }] }), /^params\.0: /);
  assert.match(await refused({ sql: 'SELECT ?', params: [[256]] }), /^params\.0/);
  assert.equal(await refused({ sql: ' -- nothing\n;' }), 'No SQL statements detected.');
  assert.match(await refused({ sql: "SELECT '".padEnd(11_000_000, 'x') }, 413), /10485760/);
  const rows =
    'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT hex(zeroblob(50000)) AS h FROM n';
  await ask('query', { sql: 'CREATE TABLE t (a)' });
  assert.match(
    await refused({ sql: `INSERT INTO t VALUES (1); ${rows}` }),
    /more than 10485760 bytes; ask for fewer/,
  );
  assert.deepEqual((await ask('query', { sql: 'SELECT count(*) AS n FROM t' })).result[0].results, [
    { n: 0 },
  ]);
});

test('Wrangler and a push apply the same migrations once, in the table that the project names', async () => {
  const config = 'migrations_table = "applied"\n';
  const first = {
    'migrations/0001_plans.sql': "CREATE TABLE plans (name TEXT); INSERT INTO plans VALUES ('free');",
  };
  const { write, push, rows } = await pushed('d1-plans', config, first);
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('d1-plans', config), ...first });
  const wrangler = async (...words: string[]) => {
    const { code, stdout, stderr } = await project.wrangler('d1', ...words, '--remote');
    assert.equal(code, 0, stdout + stderr);
    return stdout;
  };
  assert.match(await wrangler('migrations', 'apply', 'd1-plans'), /No migrations to apply/);
  const second = { 'migrations/0002_paid.sql': "INSERT INTO plans VALUES ('paid');" };
  project.write(second);
  assert.match(await wrangler('migrations', 'apply', 'd1-plans'), /0002_paid\.sql/);
  write(second);
  assert.match(await push(), /serves this push/);
  assert.deepEqual(await rows('SELECT name FROM plans'), [{ name: 'free' }, { name: 'paid' }]);
  assert.deepEqual(await rows('SELECT id, name FROM applied'), [
    { id: 1, name: '0001_plans.sql' },
    { id: 2, name: '0002_paid.sql' },
  ]);
  const command = "INSERT INTO plans VALUES ('team') RETURNING rowid, name; SELECT count(*) AS n FROM plans";
  const executed = JSON.parse(await wrangler('execute', 'd1-plans', '--json', '--command', command));
  assert.deepEqual(executed[0].results, [{ rowid: 3, name: 'team' }]);
  assert.deepEqual(executed[1].results, [{ n: 3 }]);
});
