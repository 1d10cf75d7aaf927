// D1 databases and their queries.
import * as z from 'zod';
import type { SqlQuery } from '../../contract/host/host-storage.ts';
import { D1_SQL_BYTES } from '../../contract/sizes.ts';
import { Problem } from '../../problem.ts';
import { fromBase64, toBase64 } from '../../services/base64.ts';
import { runQueries } from '../../services/storage/sql.ts';
import { type CallContext, call, run } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { DATABASES, databaseOf, metaOf } from './d1-common.ts';
import { databaseFileCalls } from './d1-files.ts';
import { type Kept, keptOf, nameOfNew, noJurisdiction, numberedPage } from './kept.ts';

/** A BLOB in D1's JSON, in parameters and in rows: a list of the byte values. */
const bytes = z.array(z.int().min(0).max(255));
const parameter = z.union([z.string(), z.number(), z.boolean(), z.null(), bytes]);
const single = { sql: z.string(), params: z.array(parameter).nullish() };
const Queries = z
  .object({ ...single, sql: single.sql.optional(), batch: z.array(z.object(single)).min(1).optional() })
  .refine(({ sql, batch }) => (sql === undefined) !== (batch === undefined), {
    path: ['sql'],
    error: 'is required unless `batch` is given; give only one of them',
  });

export const databaseCalls = [
  call({
    method: 'GET',
    path: DATABASES,
    as: 'storage.overview',
    answer: async (context) => {
      const name = context.url.searchParams.get('name');
      const all = (await keptOf(context, 'databases')).map(shown);
      return numberedPage(context, name === null ? all : all.filter((each) => each.name === name));
    },
  }),
  call({
    method: 'POST',
    path: DATABASES,
    as: 'apps.create',
    body: z.object({ name: nameOfNew, jurisdiction: noJurisdiction }),
    answer: async ({ at }, { name }) => shownAs(name, at),
  }),
  call({
    method: 'GET',
    path: `${DATABASES}/:database`,
    as: 'storage.overview',
    answer: async (context) => {
      const name = context.words.database!;
      // Wrangler's commands send `fields`, and a deploy does not. A deploy asks about the app's own database, whose name other
      // apps may use too.
      const isDeploy = !context.url.searchParams.has('fields');
      const found = await databaseOf(context).catch((error) => {
        if (!isDeploy) throw error;
        if (error instanceof CloudflareError && error.code === CODES.BAD_REQUEST) return null;
        if (!(error instanceof Problem && error.code === 'forbidden')) throw error;
        throw new CloudflareError(404, CODES.DATABASE_NOT_FOUND, error.message);
      });
      // A deploy binds the `uuid` of the answer. If only the name of a binding matches, the database belongs to another app.
      if (found === null || (isDeploy && found.name !== name)) return shownAs(name, context.at);
      const { databases } = await run(context, 'storage.overview', { id: found.app.id });
      const described = databases.find(({ id }) => id === found.id);
      return { ...shown(found), file_size: described?.bytes ?? 0 };
    },
  }),
  call({
    method: 'POST',
    path: `${DATABASES}/:database/query`,
    as: 'storage.d1.write',
    body: Queries,
    bodyLimit: D1_SQL_BYTES,
    answer: (context, asked) =>
      query(context, asked, (columns, rows) =>
        rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at]]))),
      ),
  }),
  call({
    method: 'POST',
    path: `${DATABASES}/:database/raw`,
    as: 'storage.d1.write',
    body: Queries,
    bodyLimit: D1_SQL_BYTES,
    answer: (context, asked) => query(context, asked, (columns, rows) => ({ columns, rows })),
  }),
  ...databaseFileCalls,
];

function shown({ name, app }: Kept) {
  return shownAs(name, app.created_at);
}

function shownAs(name: string, created_at: string) {
  return { uuid: name, name, version: 'production', created_at };
}

/**
 * Runs all statements of a request in one transaction.
 * @param shape returns the rows of one statement in the call's format
 */
async function query(
  context: CallContext,
  { batch, sql = '', params }: z.output<typeof Queries>,
  shape: (columns: string[], rows: unknown[][]) => object,
) {
  const { app, id } = await databaseOf(context);
  const queries = (batch ?? [{ sql, params }]).map(taken);
  const { done, duration_ms } = await runQueries(context, app.id, id, queries);
  const results = done.flat();
  return results.map(({ columns, rows, meta }, at) => ({
    results: shape(
      columns,
      rows.map((row) => row.map(plain)),
    ),
    success: true,
    meta: metaOf(meta, at === results.length - 1 ? duration_ms : 0),
  }));
}

/** Converts a query to the format of our services. */
function taken({ sql, params }: z.output<z.ZodObject<typeof single>>): SqlQuery {
  const taken = (params ?? []).map((value) =>
    Array.isArray(value) ? { $bytes: toBase64(Uint8Array.from(value)) } : value,
  );
  return { sql, params: taken };
}

/** Converts a value to D1's JSON: bytes become a list of numbers, and numbers that JSON cannot express become null. */
function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('$bytes' in value) return Array.from(fromBase64(String(value.$bytes)));
  return null;
}
