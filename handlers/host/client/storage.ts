// What an app keeps, but for the contents of its buckets, asked of the host.
import { READ_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type {
  DatabaseAnswer,
  DatabaseQuestion,
  ExportQuestion,
  ImportResult,
  KeysQuestion,
  KvWrite,
  Looked,
  ObjectQuestion,
  SqlQuery,
  StatementResult,
} from '../../contract/host/host-storage.ts';
import type { Result } from '../../contract/index.ts';
import { type HostConnection, maybeDone } from './connection.ts';

/** To make it, and to read its last byte, in ms. */
const COPY_DEADLINE_MS = 40 * 60_000;
const WRITE_REFUSALS = ['storage_not_found', 'query_failed', 'app_unavailable', 'host_unavailable'] as const;

export class Storage {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** All that an app keeps. */
  async overview(appId: string): Promise<Result<'storage.overview'>> {
    const [kept, buckets] = await Promise.all([
      this.#host.look<Omit<Result<'storage.overview'>, 'buckets'>>('GET /apps/:id/storage', appId),
      this.#host.json('GET /apps/:id/buckets', [appId]),
    ]);
    return { ...kept, buckets };
  }

  /** A copy of all that an app keeps, as a body to pass on. @throws {Problem} `rate_limited`, `insufficient_storage` */
  async copy(appId: string): Promise<Response> {
    const options = { refusals: ['app_not_found', 'rate_limited'], deadlineMs: COPY_DEADLINE_MS } as const;
    return this.#host.call('GET /apps/:id/copy', [appId], options);
  }

  async database(appId: string, body: DatabaseQuestion): Promise<Looked<Result<'storage.d1.get'>>> {
    return this.#host.look('POST /apps/:id/storage/d1', appId, body);
  }

  /** A database as SQL. @throws {Problem} `answer_too_large` */
  async exportDatabase(appId: string, body: ExportQuestion): Promise<Result<'storage.d1.export'>> {
    return this.#host.look('POST /apps/:id/storage/export', appId, body);
  }

  async objects(appId: string, body: ObjectQuestion): Promise<Looked<Result<'storage.do.get'>>> {
    return this.#host.look('POST /apps/:id/storage/do', appId, body);
  }

  async kvKeys(appId: string, body: KeysQuestion): Promise<Looked<Result<'storage.kv.list'>>> {
    return this.#host.look('POST /apps/:id/storage/kv', appId, body);
  }

  async kvValue(appId: string, body: KeysQuestion): Promise<Result<'storage.kv.get'>> {
    return this.#host.look('POST /apps/:id/storage/kv', appId, body);
  }

  /** Has a process of the app change a value. @throws {Problem} with its own words, or why there is no process */
  async writeValue(appId: string, body: KvWrite): Promise<void> {
    const options = { body, refusals: WRITE_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    await this.#host.call('POST /apps/:id/storage/kv/write', [appId], options).catch(maybeDone);
  }

  /** Has a process of the app run queries as one transaction. @throws {Problem} when none can */
  async query(
    appId: string,
    database: string,
    queries: SqlQuery[],
  ): Promise<DatabaseAnswer<StatementResult[][]>> {
    return this.#sql('POST /apps/:id/storage/query', appId, database, JSON.stringify(queries));
  }

  /** Has a process of the app run a file of SQL as one transaction. @throws {Problem} when none can */
  async importDatabase(appId: string, database: string, sql: string): Promise<DatabaseAnswer<ImportResult>> {
    return this.#sql('POST /apps/:id/storage/import', appId, database, sql);
  }

  async #sql<Answer>(
    name: 'POST /apps/:id/storage/query' | 'POST /apps/:id/storage/import',
    appId: string,
    database: string,
    body: string,
  ): Promise<Answer> {
    const given = { query: { database }, bytes: new Blob([body]) };
    const options = { ...given, refusals: WRITE_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    return (await this.#host.call(name, [appId], options).catch(maybeDone)).json();
  }
}
