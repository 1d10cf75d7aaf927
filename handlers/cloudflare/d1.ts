// D1: statements become readings and writes of ours.
import * as z from 'zod';
import { splitStatements } from '../../sqlite/statements.js';
import { authorize } from '../access.ts';
import type { SqlParameter } from '../contract/host-storage.ts';
import { operationsByName } from '../contract/index.ts';
import { D1_SQL_BYTES } from '../contract/sizes.ts';
import { Problem } from '../problem.ts';
import { readBytes } from '../transports/body.ts';
import { requireBody } from './assets.ts';
import { type CallContext, call, openCall, run } from './call.ts';
import { CloudflareError, CODES } from './codes.ts';
import { findKept, type Kept, keptOf, nameOfNew, numberedPage } from './kept.ts';

const DATABASES = '/accounts/:account/d1/database';
/** How long a file of SQL that was sent, or is to be fetched, is kept. */
const FILE_S = 3_600;
/** Files of an account that are kept: each may have 10 MiB. */
const FILES = 10;
const FOLDER = 'cloudflare/';
/** What may be read without a try; `WITH` may begin a statement that writes. */
const READS = /^(?:SELECT|VALUES|EXPLAIN|WITH|PRAGMA)\b/i;

const Query = z.object({
  sql: z.string().min(1),
  params: z.array(z.union([z.string(), z.number(), z.boolean(), z.null()])).default([]),
});
const Import = z.discriminatedUnion('action', [
  z.object({ action: z.literal('init'), etag: z.string() }),
  z.object({ action: z.literal('ingest'), etag: z.string(), filename: z.string() }),
  z.object({ action: z.literal('poll'), current_bookmark: z.string().optional() }),
]);
const Export = z.object({
  dump_options: z
    .object({
      no_schema: z.boolean().default(false),
      no_data: z.boolean().default(false),
      tables: z.array(z.string()).default([]),
    })
    .default({ no_schema: false, no_data: false, tables: [] }),
});

export const databaseCalls = [
  call({
    method: 'GET',
    path: DATABASES,
    answer: async (context) => {
      const name = context.url.searchParams.get('name');
      const all = (await keptOf(context, 'databases')).map(shown);
      return numberedPage(context, name === null ? all : all.filter((each) => each.name === name));
    },
  }),
  call({
    method: 'POST',
    path: DATABASES,
    body: z.object({ name: nameOfNew }),
    answer: async ({ at }, { name }) => ({ uuid: name, name, version: 'production', created_at: at }),
  }),
  call({
    method: 'GET',
    path: `${DATABASES}/:database`,
    answer: async (context) => {
      const found = await databaseOf(context);
      const { databases } = await run(context, 'storage.overview', { id: found.app.id });
      const described = databases.find(({ id }) => id === found.id);
      return { ...shown(found), file_size: described?.bytes ?? 0 };
    },
  }),
  call({
    method: 'POST',
    path: `${DATABASES}/:database/query`,
    body: Query,
    bodyLimit: D1_SQL_BYTES,
    answer: async (context, { sql, params }) => query(context, await databaseOf(context), sql, params),
  }),
  call({
    method: 'POST',
    path: `${DATABASES}/:database/import`,
    body: Import,
    answer: async (context, asked) => importFile(context, await databaseOf(context), asked),
  }),
  openCall({
    method: 'PUT',
    path: '/files/:file',
    answer: async ({ env, request, words }) => {
      const name = FOLDER + words.file;
      requireBody(request);
      requireFresh(await env.BUCKET.head(name));
      const sql = await readBytes(request, D1_SQL_BYTES);
      await env.BUCKET.put(name, sql);
      return new Response(null, { status: 200, headers: { etag: `"${await md5(sql)}"` } });
    },
  }),
  openCall({
    method: 'GET',
    path: '/files/:file',
    answer: async ({ env, words }) => {
      const file = requireFresh(await env.BUCKET.get(FOLDER + words.file));
      return new Response(file.body, {
        headers: { 'content-type': 'application/sql', 'cache-control': 'no-store' },
      });
    },
  }),
  call({
    method: 'POST',
    path: `${DATABASES}/:database/export`,
    body: Export,
    answer: async (context, { dump_options: { no_schema: noSchema, no_data: noData, tables } }) => {
      const found = await databaseOf(context);
      const wanted = tables.length > 0 && { tables };
      const { sql } = await run(context, 'storage.d1.export', { ...place(found), ...wanted });
      const file = await newFile(context, partOf(sql, noSchema, noData));
      const result = { filename: `${found.id}.sql`, signed_url: fileUrl(context, file) };
      return { success: true, type: 'export', status: 'complete', at_bookmark: file, messages: [], result };
    },
  }),
];

/** An export without what makes the tables, or without their rows. */
function partOf(sql: string, noSchema: boolean, noData: boolean): string {
  if (!noSchema && !noData) return sql;
  const left = splitStatements(sql).filter(
    (statement) =>
      !(noSchema && /^CREATE\b/i.test(statement.sql)) &&
      !(noData && /^(?:INSERT|DELETE)\b/i.test(statement.sql)),
  );
  return left.map((statement) => `${statement.sql};\n`).join('');
}

function databaseOf(context: CallContext): Promise<Kept> {
  return findKept(context, 'databases', context.words.database!);
}

function place({ app, id }: Kept) {
  return { id: app.id, database_id: id };
}

function shown({ name, app }: Kept) {
  return { uuid: name, name, version: 'production', created_at: app.created_at };
}

/** Runs statements one after another; those that write in a row are one transaction. */
async function query(
  context: CallContext,
  database: Kept,
  text: string,
  params: (string | number | boolean | null)[],
) {
  const statements = splitStatements(text).map(({ sql }) => sql);
  if (params.length > 0 && statements.length > 1)
    throw new CloudflareError(400, CODES.BAD_REQUEST, 'Parameters go with one statement.');
  if (statements.length > 1 && !statements.some((sql) => READS.test(sql))) {
    const done = await run(context, 'storage.d1.import', { ...place(database), sql: text });
    const meta = metaOf(done.changes, done.duration_ms);
    return statements.map((_, at) => answer([], at === statements.length - 1 ? meta : metaOf(0, 0)));
  }
  const results = [];
  for (const sql of statements) results.push(await one(context, database, sql, params));
  return results;
}

async function one(context: CallContext, database: Kept, sql: string, params: SqlParameter[]) {
  if (READS.test(sql) && params.length === 0) {
    try {
      const { columns, rows } = await run(context, 'storage.d1.get', { ...place(database), sql });
      const results = rows.map((row) =>
        Object.fromEntries(columns.map((column, at) => [column, plain(row[at])])),
      );
      return answer(results, metaOf(0, 0, results.length));
    } catch (error) {
      // One that writes is refused there.
      if (
        !(error instanceof Problem) ||
        error.code !== 'query_failed' ||
        /^(?:SELECT|VALUES|EXPLAIN)\b/i.test(sql)
      )
        throw error;
    }
  }
  const written = await run(context, 'storage.d1.write', { ...place(database), sql, params });
  const { changes, duration_ms, last_row_id } = Array.isArray(written) ? written[0]! : written;
  return answer([], { ...metaOf(changes, duration_ms), last_row_id: last_row_id ?? 0 });
}

function answer(results: object[], meta: object) {
  return { results, success: true, meta };
}

function metaOf(changes: number, duration: number, rowsRead = 0) {
  return {
    served_by: 'cellar',
    duration,
    changes,
    last_row_id: 0,
    changed_db: changes > 0,
    size_after: 0,
    rows_read: rowsRead,
    rows_written: changes,
  };
}

/** Bytes as D1 gives them: a list of numbers. A number that JSON has not is a text: D1 rounds it. */
function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value ?? null;
  if ('$bigint' in value) return value.$bigint;
  if ('$number' in value) return value.$number;
  if (!('$bytes' in value)) return value;
  return Array.from(atob(String(value.$bytes)), (character) => character.charCodeAt(0));
}

async function importFile(context: CallContext, database: Kept, asked: z.output<typeof Import>) {
  const { env } = context;
  if (asked.action === 'poll')
    throw new CloudflareError(400, CODES.BAD_REQUEST, 'An import has ended when it is answered here.');
  // Checked before anything is kept for a caller who may not import.
  await authorize(context, operationsByName.get('storage.d1.import')!, { id: database.app.id });
  if (asked.action === 'init') {
    const filename = await newFile(context, '');
    return {
      success: true,
      type: 'import',
      status: 'active',
      messages: [],
      filename,
      upload_url: fileUrl(context, filename),
    };
  }
  const name = FOLDER + asked.filename;
  const file = requireFresh(await env.BUCKET.get(name));
  const sql = await file.text();
  await env.BUCKET.delete(name);
  const { statements, changes, duration_ms } = await run(context, 'storage.d1.import', {
    ...place(database),
    sql,
  });
  const result = {
    num_queries: statements,
    final_bookmark: asked.filename,
    meta: metaOf(changes, duration_ms),
  };
  return {
    success: true,
    type: 'import',
    status: 'complete',
    at_bookmark: asked.filename,
    messages: [],
    result,
  };
}

/** Keeps a file for an hour, under a name that nobody guesses. Those that nobody came for go, and an account's oldest. */
async function newFile({ env, account }: CallContext, content: string): Promise<string> {
  const own = `${account}-`;
  const [all, ofAccount] = await Promise.all([
    env.BUCKET.list({ prefix: FOLDER }),
    env.BUCKET.list({ prefix: FOLDER + own }),
  ]);
  const tooMany = ofAccount.objects
    .sort((a, b) => b.uploaded.getTime() - a.uploaded.getTime())
    .slice(FILES - 1);
  const gone = [...all.objects.filter((file) => !isFresh(file)), ...tooMany];
  if (gone.length > 0) await env.BUCKET.delete([...new Set(gone.map(({ key }) => key))]);
  const name = Array.from(crypto.getRandomValues(new Uint8Array(20)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
  await env.BUCKET.put(FOLDER + own + name, content);
  return own + name;
}

function isFresh({ uploaded }: R2Object): boolean {
  return Date.now() - uploaded.getTime() <= FILE_S * 1000;
}

/** @throws {CloudflareError} for a file that is not there, or whose hour is over */
function requireFresh<File extends R2Object>(file: File | null): File {
  if (file !== null && isFresh(file)) return file;
  throw new CloudflareError(404, CODES.BAD_REQUEST, 'There is no such file, or it has gone after an hour.');
}

function fileUrl({ env }: CallContext, name: string): string {
  return `${env.PUBLIC_API_URL}/client/v4/files/${name}`;
}

async function md5(bytes: Uint8Array): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('MD5', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
