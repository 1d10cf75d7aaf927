// Runs SQL of an app's owner in the app's D1 database. REST, RPC and Cloudflare's API share this code.
import type { Context } from '../../context.ts';
import type {
  DatabaseAnswer,
  ImportResult,
  SqlQuery,
  StatementResult,
} from '../../contract/host/host-storage.ts';
import { sentence } from '../../host/host-client.ts';
import { Problem } from '../../problem.ts';

/** SQLite refused a statement. The transaction of all statements was rolled back. */
export class QueryFailed extends Problem {
  /** SQLite's error message. */
  readonly words: string;
  constructor(words: string) {
    super('query_failed', sentence(words.replace(/\.$/, '')));
    this.words = words;
  }
}

/**
 * Runs queries in one transaction.
 * @returns the results of each query's statements, and the duration of all queries, in ms
 * @throws {QueryFailed}; {Problem} when no process of the app can run the queries
 */
export async function runQueries(
  { host }: Context,
  appId: string,
  database: string,
  queries: SqlQuery[],
): Promise<{ done: StatementResult[][]; duration_ms: number }> {
  const given = { query: { database }, body: new Blob([JSON.stringify(queries)]) };
  return doneOf(await host.call('POST /apps/:id/storage/query', { id: appId }, given));
}

/** Runs an SQL file in one transaction. @throws as `runQueries` does */
export async function runFile(
  { host }: Context,
  appId: string,
  database: string,
  sql: string,
): Promise<{ done: ImportResult; duration_ms: number }> {
  const given = { query: { database }, body: new Blob([sql]) };
  return doneOf(await host.call('POST /apps/:id/storage/import', { id: appId }, given));
}

function doneOf<Done>(answer: DatabaseAnswer<Done>): { done: Done; duration_ms: number } {
  if ('failed' in answer) throw new QueryFailed(answer.failed);
  return answer;
}
