// Runs a query over data points. Called in a thread of its own, which is ended at the deadline.

import { openTelemetryReader } from '../../../sqlite/telemetry/database.ts';
import { type DatapointReads, datapointReads } from '../../../sqlite/telemetry/datapoints.ts';
import { type Written, write } from './formats.ts';
import { parse, type Statement } from './parser.ts';
import { type Result, select, type Table } from './select.ts';
import { UTC } from './times.ts';
import { SqlError } from './tokens.ts';
import { type Column, FLOAT64, STRING, UINT32, type Value } from './types.ts';

/** How many blobs, and how many doubles, a data point has. */
const MEMBERS = 20;
const numbers = Array.from({ length: MEMBERS }, (_, i) => i + 1);

const COLUMNS: Column[] = [
  { name: 'dataset', type: STRING },
  { name: 'timestamp', type: { name: 'DateTime', zone: UTC } },
  { name: '_sample_interval', type: UINT32 },
  { name: 'index1', type: STRING },
  ...numbers.map((n) => ({ name: `blob${n}`, type: STRING })),
  ...numbers.map((n) => ({ name: `double${n}`, type: FLOAT64 })),
];

/** A query that cannot be run. The message has the place in the query, if there is one. */
export class QueryRefused extends Error {}

/** Apps on other hosts have points of the dataset too. */
export class DatasetSpread extends Error {}

/**
 * Runs a query over the data points of some apps.
 * @param path the path of the database
 * @param elsewhere names of datasets of apps on other hosts
 * @returns null when none of the apps has points of the dataset, or when SHOW TABLES finds no dataset
 * @throws {QueryRefused} for an invalid query, or one that needs too much memory
 * @throws {DatasetSpread} when apps on other hosts have points of the dataset too
 */
export function query(
  path: string,
  appIds: string[],
  sql: string,
  elsewhere: readonly string[] = [],
): Written | null {
  try {
    const { statement, format } = parse(sql);
    const database = openTelemetryReader(path);
    try {
      const result = resultOf(statement, datapointReads(database, appIds), elsewhere);
      return result && write(result, format);
    } finally {
      database.close();
    }
  } catch (error) {
    throw error instanceof SqlError ? new QueryRefused(error.message + place(sql, error.at)) : error;
  }
}

function place(sql: string, at: number | null): string {
  if (at === null) return '';
  const lines = sql.slice(0, at).split('\n');
  return ` (line ${lines.length}, column ${lines.at(-1)!.length + 1})`;
}

class NoDataset extends Error {}

function resultOf(statement: Statement, reads: DatapointReads, elsewhere: readonly string[]): Result | null {
  if (statement.kind === 'select') {
    try {
      return select(statement, (name) => dataset(reads, name, elsewhere));
    } catch (error) {
      if (error instanceof NoDataset) return null;
      throw error;
    }
  }
  if (statement.kind === 'tables') {
    const names = [...new Set([...reads.datasets(), ...elsewhere])].sort();
    return names.length === 0
      ? null
      : table(
          ['dataset', 'type'],
          names.map((name) => [name, 'native']),
        );
  }
  if (statement.kind === 'timezone') return table(['timezone'], [[UTC]]);
  return table(
    ['timezone'],
    [UTC, ...Intl.supportedValuesOf('timeZone')].map((name) => [name]),
  );
}

function table(names: string[], rows: Value[][]): Result {
  return { columns: names.map((name) => ({ name, type: STRING })), rows, beforeLimit: rows.length };
}

function dataset(reads: DatapointReads, name: string, elsewhere: readonly string[]): Table {
  if (!reads.has(name)) throw new NoDataset();
  if (elsewhere.includes(name))
    throw new DatasetSpread(
      'apps on several hosts have written to this dataset: move them to one host by `cellar move --host`, or query with a key for one app',
    );
  return { columns: COLUMNS, rows: rowsOf(reads, name) };
}

/** Yields rows of `COLUMNS`. A missing blob is the empty text, a missing double 0. No point is left out by sampling. */
function* rowsOf(reads: DatapointReads, name: string): Generator<Value[]> {
  for (const { at, dataset, index, blobs, doubles } of reads.scan(name)) {
    const texts = JSON.parse(blobs) as (string | null)[];
    const values = JSON.parse(doubles) as (number | null)[];
    const row: Value[] = [dataset, Math.floor(at / 1_000), 1, index ?? ''];
    for (let n = 0; n < MEMBERS; n++) row.push(texts[n] ?? '');
    for (let n = 0; n < MEMBERS; n++) row.push(values[n] ?? 0);
    yield row;
  }
}
