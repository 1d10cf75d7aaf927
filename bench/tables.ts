// A page of a table of a million rows, as `storage.d1.get` reads it, beside the same query by a process started for it, and
// by one that runs already. In alternating rounds of one run.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StorageReaders } from '../runtime/storage/reading.ts';
import { effort, isQuick } from './effort.ts';
import { median } from './figures.ts';

const ROUNDS = effort(15, 2);
const ROWS = effort(1_000_000, 10_000);
const MOST = 3;
const LIMIT = 50;
const ASKED = {
  kind: 'database',
  sql: null,
  table: 'people',
  sort: null,
  filter: null,
  after: null,
  limit: LIMIT,
};
const PAGES: [what: string, asked: object, sql: string][] = [
  ['in the middle, by key', { after: `[${ROWS / 2}]` }, `WHERE id > ${ROWS / 2} ORDER BY id`],
  ['sorted without an index', { sort: '-n' }, 'ORDER BY n DESC'],
  ['filtered', { filter: "name LIKE '%999'" }, "WHERE name LIKE '%999' ORDER BY id"],
];

/** Prints the medians in ms, and fails when a page takes more than 3 times the query by a process of its own. */
export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-tables-'));
  try {
    const path = join(directory, 'table.sqlite');
    fill(path);
    const readers = new StorageReaders();
    for (const [what, asked, rest] of PAGES) {
      const sql = `SELECT * FROM people ${rest} LIMIT ${LIMIT + 1}`;
      const times: [number[], number[], number[]] = [[], [], []];
      for (let round = 0; round < ROUNDS; round++) {
        times[0].push(await timed(() => readers.ask('app', null, { ...ASKED, ...asked, path })));
        times[1].push(await timed(() => started(path, sql)));
        times[2].push(await timed(() => here(path, sql)));
      }
      const [page, process, bare] = times.map(median) as [number, number, number];
      const ratio = page / process;
      console.log(
        `${what}: ${page.toFixed(0)} ms, by a process started for it ${process.toFixed(0)} ms (${ratio.toFixed(2)} times), in one that runs ${bare.toFixed(1)} ms`,
      );
      if (ratio > MOST && !isQuick) globalThis.process.exitCode = 1;
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function fill(path: string): void {
  const database = new DatabaseSync(path);
  database.exec(`PRAGMA journal_mode = WAL; CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, n REAL); BEGIN;
    WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < ${ROWS})
    INSERT INTO people SELECT i, 'name ' || i, i / 3.0 FROM s; COMMIT`);
  database.close();
}

function here(path: string, sql: string): void {
  const database = new DatabaseSync(path, { readOnly: true });
  JSON.stringify(database.prepare(sql).all());
  database.close();
}

function started(path: string, sql: string): void {
  const program = `const { DatabaseSync } = require('node:sqlite');
    const database = new DatabaseSync(${JSON.stringify(path)}, { readOnly: true });
    console.log(JSON.stringify(database.prepare(${JSON.stringify(sql)}).all()));`;
  execFileSync(process.execPath, ['--no-warnings', '-e', program]);
}

async function timed(work: () => unknown): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}
