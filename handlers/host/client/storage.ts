// Calls the host about an app's storage, except for the objects of its buckets.
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

/** For making the copy and reading all of it, in ms. */
const COPY_DEADLINE_MS = 40 * 60_000;
const WRITE_REFUSALS = ['storage_not_found', 'query_failed', 'app_unavailable', 'host_unavailable'] as const;

export class Storage {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** Lists all storage of an app. */
  async overview(appId: string): Promise<Result<'storage.overview'>> {
    const [kept, buckets] = await Promise.all([
      this.#host.look<Omit<Result<'storage.overview'>, 'buckets'>>('GET /apps/:id/storage', appId),
      this.#host.json('GET /apps/:id/buckets', [appId]),
    ]);
    return { ...kept, buckets };
  }

  /** Returns a copy of all storage of an app, as a body to forward. @throws {Problem} `rate_limited`, `insufficient_storage` */
  async copy(appId: string): Promise<Response> {
    const options = { refusals: ['app_not_found', 'rate_limited'], deadlineMs: COPY_DEADLINE_MS } as const;
    return this.#host.call('GET /apps/:id/copy', [appId], options);
  }

  async database(appId: string, body: DatabaseQuestion): Promise<Looked<Result<'storage.d1.get'>>> {
    return this.#host.look('POST /apps/:id/storage/d1', appId, body);
  }

  /** Exports a database as SQL. @throws {Problem} `answer_too_large` */
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

  /** Changes a value through a process of the app. @throws {Problem} with its message, or why there is no process */
  async writeValue(appId: string, body: KvWrite): Promise<void> {
    const options = { body, refusals: WRITE_REFUSALS, deadlineMs: READ_DEADLINE_MS };
    await this.#host.call('POST /apps/:id/storage/kv/write', [appId], options).catch(maybeDone);
  }

  /** Runs queries in one transaction through a process of the app. @throws {Problem} without a process */
  async query(
    appId: string,
    database: string,
    queries: SqlQuery[],
  ): Promise<DatabaseAnswer<StatementResult[][]>> {
    return this.#sql('POST /apps/:id/storage/query', appId, database, JSON.stringify(queries));
  }

  /** Runs an SQL file in one transaction through a process of the app. @throws {Problem} without a process */
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
