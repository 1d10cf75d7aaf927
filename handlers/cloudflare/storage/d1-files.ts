// Import and export of D1 databases as SQL files, which Wrangler uploads and downloads at separate URLs.
import * as z from 'zod';
import { splitStatements } from '../../../sqlite/statements.js';
import { D1_SQL_BYTES } from '../../contract/sizes.ts';
import { runFile } from '../../services/storage/sql.ts';
import { readBytes } from '../../transports/body.ts';
import { holdBody } from '../../transports/large-bodies.ts';
import { type CallContext, call, openCall, run } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { requireBody } from '../workers/assets.ts';
import { DATABASES, databaseOf, metaOf } from './d1-common.ts';
import type { Kept } from './kept.ts';

/** Lifetime of an uploaded or exported SQL file, in s. */
const FILE_LIFETIME_S = 3_600;
/** Maximum stored files of an account. An uploaded file may have 10 MiB. */
const FILES_LIMIT = 10;
/** Matches names of files: an account's id and 20 random bytes. Long names are refused, because KV would throw. */
const NAME = /^[\w-]{1,200}$/;

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
      compatibility: z
        .literal('d1', 'must be d1, or left out: Cellar exports in no other format')
        .default('d1'),
    })
    .default({ no_schema: false, no_data: false, tables: [], compatibility: 'd1' }),
});

export const databaseFileCalls = [
  call({
    method: 'POST',
    path: `${DATABASES}/:database/import`,
    as: 'storage.d1.import',
    body: Import,
    answer: async (context, asked) => importFile(context, await databaseOf(context), asked),
  }),
  openCall({
    method: 'PUT',
    path: '/files/:file',
    answer: async (context) => {
      const { env, request, words } = context;
      const name = words.file!;
      requireBody(request);
      // Checks first that the file exists. Otherwise anybody could use up the shared limit of large bodies with invented names.
      await requireFile(await stored(env, name)).cancel();
      holdBody(request, name.split('-', 1)[0]!);
      const sql = await readBytes(request, D1_SQL_BYTES);
      await keep(env, name, sql);
      return new Response(null, { status: 200, headers: { etag: `"${await md5(sql)}"` } });
    },
  }),
  openCall({
    method: 'GET',
    path: '/files/:file',
    answer: async ({ env, words }) => {
      return new Response(requireFile(await stored(env, words.file!)), {
        headers: { 'content-type': 'application/sql', 'cache-control': 'no-store' },
      });
    },
  }),
  call({
    method: 'POST',
    path: `${DATABASES}/:database/export`,
    as: 'storage.d1.export',
    body: Export,
    answer: async (context, { dump_options: { no_schema: noSchema, no_data: noData, tables } }) => {
      const found = await databaseOf(context);
      const wanted = tables.length > 0 && { tables };
      const { sql } = await run(context, 'storage.d1.export', {
        id: found.app.id,
        database_id: found.id,
        ...wanted,
      });
      const file = await newFile(context, partOf(sql, noSchema, noData));
      const result = { filename: `${found.id}.sql`, signed_url: fileUrl(context, file) };
      return { success: true, type: 'export', status: 'complete', at_bookmark: file, messages: [], result };
    },
  }),
];

/** Returns an export, without the schema or without the rows if requested. */
function partOf(sql: string, noSchema: boolean, noData: boolean): string {
  if (!noSchema && !noData) return sql;
  const left = splitStatements(sql).filter(
    (statement) =>
      !(noSchema && /^CREATE\b/i.test(statement.sql)) &&
      !(noData && /^(?:INSERT|DELETE)\b/i.test(statement.sql)),
  );
  return left.map((statement) => `${statement.sql};\n`).join('');
}

async function importFile(context: CallContext, database: Kept, asked: z.output<typeof Import>) {
  const { env } = context;
  if (asked.action === 'poll')
    throw new CloudflareError(
      400,
      CODES.BAD_REQUEST,
      'No import is in progress: an import is complete when its request is answered.',
    );
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
  const sql = await new Response(requireFile(await stored(env, asked.filename))).text();
  await env.FILES.delete(asked.filename);
  const { done, duration_ms } = await runFile(context, database.app.id, database.id, sql);
  const { statements, changes, ...size } = done;
  const figures = { changes, changed_db: changes > 0, last_row_id: 0, ...size };
  const result = {
    num_queries: statements,
    final_bookmark: asked.filename,
    meta: metaOf(figures, duration_ms),
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

/**
 * Stores a file for an hour under an unguessable name, which it returns. Deletes the account's oldest files above
 * `FILES_LIMIT`.
 */
async function newFile({ env, account }: CallContext, content: string): Promise<string> {
  const own = `${account}-`;
  const { keys } = await env.FILES.list({ prefix: own });
  const byAge = keys.sort((a, b) => b.expiration! - a.expiration!);
  await Promise.all(byAge.slice(FILES_LIMIT - 1).map((file) => env.FILES.delete(file.name)));
  const random = Array.from(crypto.getRandomValues(new Uint8Array(20)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
  await keep(env, own + random, content);
  return own + random;
}

function keep({ FILES }: CallContext['env'], name: string, content: string | Uint8Array): Promise<void> {
  return FILES.put(name, content, { expirationTtl: FILE_LIFETIME_S });
}

/** Returns the content of a file; null when no file has the name. */
async function stored({ FILES }: CallContext['env'], name: string): Promise<ReadableStream | null> {
  return NAME.test(name) ? FILES.get(name, 'stream') : null;
}

/** Returns the file. @throws {CloudflareError} for a file that does not exist or has expired */
function requireFile<File>(file: File | null): File {
  if (file !== null) return file;
  throw new CloudflareError(
    404,
    CODES.BAD_REQUEST,
    'The file of the import or export does not exist. Such files are removed after an hour: start again.',
  );
}

function fileUrl({ env }: CallContext, name: string): string {
  return `${env.PUBLIC_API_URL}/client/v4/files/${name}`;
}

async function md5(bytes: Uint8Array): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('MD5', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
