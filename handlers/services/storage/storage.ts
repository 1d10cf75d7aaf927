// Reads and changes an app's storage.
import type * as z from 'zod';
import type { Context } from '../../context.ts';
import type { KvWrite, StatementResult } from '../../contract/host/host-storage.ts';
import type { Result } from '../../contract/index.ts';
import { KV_METADATA_BYTES } from '../../contract/sizes.ts';
import type { kvValue } from '../../contract/storage/storage.ts';
import { byteLength } from '../../contract/text.ts';
import { hashOf } from '../../secrets.ts';
import { invalidInput } from '../../transports/validate.ts';
import { fromBase64 } from '../base64.ts';
import { decodeCursor, encodeCursor } from '../cursor.ts';
import type { Service } from '../types.ts';
import { runFile, runQueries } from './sql.ts';

type SqlValue = Result<'storage.d1.get'>['rows'][number][number];

const overview: Service<'storage.overview'> = async (context, { id }) => {
  const [kept, buckets, vector_indexes] = await Promise.all([
    context.host.call('GET /apps/:id/storage', { id }),
    context.host.call('GET /apps/:id/buckets', { id }),
    context.host.call('GET /apps/:id/vectors', { id }),
  ]);
  return { ...kept, buckets, vector_indexes };
};

const databaseGet: Service<'storage.d1.get'> = async (context, { id, database_id, cursor, ...asked }) => {
  const question = tableQuestion(asked);
  const list = await listName('storage.d1.get', id, database_id, asked.table, asked.sort, asked.filter);
  const after = decodeCursor(list, cursor, 1)?.[0] ?? null;
  const body = { ...question, database: database_id, after };
  const { next, ...answer } = await context.host.call('POST /apps/:id/storage/d1', { id }, { body });
  return { ...answer, next_cursor: encodeCursor(list, next === null ? null : [next]) };
};

const objectsGet: Service<'storage.do.get'> = async (context, { id, class_name, cursor, ...input }) => {
  const { object_id = null, name = null, key = null, ...asked } = input;
  if (object_id !== null && name !== null) throw oneOf('name', 'id');
  if (object_id === null && name === null)
    for (const field of ['key', 'sql', 'table'] as const)
      if (input[field] !== undefined)
        throw invalidInput([
          { path: field, message: 'needs object_id or name, because it reads one object' },
        ]);
  const question = { ...tableQuestion(asked), class_name, object: object_id, name, key };
  const { table, sort, filter } = asked;
  const list = await listName('storage.do.get', id, class_name, object_id, name, table, sort, filter);
  const after = decodeCursor(list, cursor, 1)?.[0] ?? null;
  const body = { ...question, after };
  const { next, ...answer } = await context.host.call('POST /apps/:id/storage/do', { id }, { body });
  return { ...answer, next_cursor: encodeCursor(list, next === null ? null : [next]) };
};

const databaseWrite: Service<'storage.d1.write'> = async (context, input) => {
  const { id, database_id, sql, params, statements } = input;
  if ((sql === undefined) === (statements === undefined))
    throw oneOf('statements', 'sql; exactly one of them is required');
  if (statements && params) throw oneOf('params', 'statements, which have their own');
  const all = statements ?? [{ sql: sql!, params }];
  const queries = all.map(({ sql, params = [] }) => ({ sql, params }));
  const { done, duration_ms } = await runQueries(context, id, database_id, queries);
  const written = done.map((results, at) => writtenOf(results, at === done.length - 1 ? duration_ms : 0));
  return statements ? written : written[0]!;
};

/** Returns the result of a query with several statements: the sum of their changes, and the rows of the last statement. */
function writtenOf(results: StatementResult[], duration_ms: number) {
  const { meta, columns = [], rows = [] } = results.at(-1) ?? {};
  const last = meta?.last_row_id;
  return {
    changes: results.reduce((sum, { meta }) => sum + meta.changes, 0),
    last_row_id: Number.isSafeInteger(last) ? last! : null,
    duration_ms,
    ...(columns.length > 0 && { columns, rows: rows as SqlValue[][] }),
  };
}

const databaseExport: Service<'storage.d1.export'> = async (context, { id, database_id, tables }) => {
  const body = { database: database_id, tables };
  return context.host.call('POST /apps/:id/storage/export', { id }, { body });
};

const databaseImport: Service<'storage.d1.import'> = async (context, { id, database_id, sql }) => {
  const { done, duration_ms } = await runFile(context, id, database_id, sql);
  return { statements: done.statements, changes: done.changes, duration_ms };
};

const kvPut: Service<'storage.kv.put'> = async (context, { value_base64, ...entry }) => {
  await putValue(context, entry, new Blob([fromBase64(value_base64)]));
  return { key: entry.key };
};

/**
 * Sets the value of a key. The caller must have authorized the request.
 * @param value the value, of a known length. A stream is not buffered
 */
export async function putValue(
  context: Context,
  { id, namespace_id, key, expires_at, metadata = null }: z.output<typeof kvValue>,
  value: Blob | ReadableStream<Uint8Array>,
): Promise<void> {
  if (byteLength(JSON.stringify(metadata)) > KV_METADATA_BYTES)
    throw invalidInput([
      { path: 'metadata', message: `must have at most ${KV_METADATA_BYTES} bytes as JSON` },
    ]);
  const expiration = expires_at === undefined ? null : Math.floor(Date.parse(expires_at) / 1000);
  const write = JSON.stringify({ of: namespace_id, key, expiration, metadata } satisfies KvWrite);
  const given = { query: { write }, body: value };
  await context.host.call('PUT /apps/:id/storage/kv/value', { id }, given);
}

const kvDelete: Service<'storage.kv.delete'> = async (context, { id, namespace_id, key }) => {
  const body = { of: namespace_id, key, expiration: null, metadata: null };
  return context.host.call('POST /apps/:id/storage/kv/delete', { id }, { body });
};

const kvList: Service<'storage.kv.list'> = async (
  context,
  { id, namespace_id, prefix = '', limit, cursor },
) => {
  const list = await listName('storage.kv.list', id, namespace_id, prefix);
  const after = decodeCursor(list, cursor, 1)?.[0] ?? null;
  const body = { namespace: namespace_id, key: null, prefix, after, limit };
  const { next, items } = await context.host.call('POST /apps/:id/storage/kv', { id }, { body });
  return { items, next_cursor: encodeCursor(list, next === null ? null : [next]) };
};

const kvGet: Service<'storage.kv.get'> = async (context, { id, namespace_id, key }) => {
  const body = { namespace: namespace_id, key, prefix: '', after: null, limit: 1 };
  return context.host.call('POST /apps/:id/storage/kv/get', { id }, { body });
};

export const storageServices = {
  'storage.overview': overview,
  'storage.d1.get': databaseGet,
  'storage.do.get': objectsGet,
  'storage.kv.list': kvList,
  'storage.kv.get': kvGet,
  'storage.d1.write': databaseWrite,
  'storage.d1.export': databaseExport,
  'storage.d1.import': databaseImport,
  'storage.kv.put': kvPut,
  'storage.kv.delete': kvDelete,
};

/**
 * Checks that fields fit together, such as `sql` without `table`. Missing fields become null.
 * @throws {Problem} `invalid_input`
 */
function tableQuestion(asked: {
  sql?: string | undefined;
  table?: string | undefined;
  sort?: string | undefined;
  filter?: string | undefined;
  limit: number;
}) {
  const { sql = null, table = null, sort = null, filter = null, limit } = asked;
  if (sql !== null && table !== null) throw oneOf('sql', 'table');
  for (const [path, value] of Object.entries({ sort, filter }))
    if (value !== null && table === null) throw invalidInput([{ path, message: 'needs table' }]);
  return { sql, table, sort, filter, limit };
}

function oneOf(path: string, other: string) {
  return invalidInput([{ path, message: `cannot be given together with ${other}` }]);
}

/** Returns a short name for a list with filters: a hash, because each cursor of the list contains the name. */
async function listName(...words: (string | null | undefined)[]): Promise<string> {
  return (await hashOf(JSON.stringify(words))).slice(0, 24);
}
