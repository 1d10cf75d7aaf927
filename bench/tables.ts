// Reads a page of a table of a million rows, as `storage.d1.get` does. Compared with the same query in this process,
// and in a process started for it. Their order changes, because a run after a process start finds less in the CPU
// caches. The very first page starts a reader process, which also answers the others.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StorageReaders } from '../runtime/storage/reading.ts';
import { effort } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const ROUNDS = effort(15, 2);
const ROWS = effort(1_000_000, 10_000);
const LIMIT = 50;
/** The order of the three reads: each runs after each of the other two. */
const TURNS = [0, 1, 2, 0, 2, 1];
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

/** Prints the medians in ms. */
export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-tables-'));
  const readers = new StorageReaders();
  try {
    const path = join(directory, 'table.sqlite');
    fill(path);
    for (const [what, asked, rest] of PAGES) {
      const sql = `SELECT * FROM people ${rest} LIMIT ${LIMIT + 1}`;
      const ways = [
        () => readers.ask({ appId: 'app', owner: 'account' }, null, { ...ASKED, ...asked, path }),
        () => queryHere(path, sql),
        () => queryByProcess(path, sql),
      ];
      const times: number[][] = ways.map(() => []);
      for (let round = 0; round < ROUNDS; round++)
        for (const way of TURNS) times[way]!.push(await timed(ways[way]!));
      const [page, bare, started] = times.map(median) as [number, number, number];
      const ratio = page / bare;
      console.log(
        `${what}: ${page.toFixed(2)} ms, in a process that runs already ${bare.toFixed(2)} ms (${ratio.toFixed(2)} times), by one started for it ${started.toFixed(0)} ms`,
      );
    }
  } finally {
    readers.close();
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

function queryHere(path: string, sql: string): void {
  const database = new DatabaseSync(path, { readOnly: true });
  JSON.stringify(database.prepare(sql).all());
  database.close();
}

function queryByProcess(path: string, sql: string): void {
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
