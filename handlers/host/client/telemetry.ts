// What the host has counted, logged and grouped of an app, asked of the host.
import { CALL_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type { HostCalls, HostOverview, TelemetryAnswers } from '../../contract/host/host-routes.ts';
import type { GroupedError } from '../../contract/telemetry/grouped-errors.ts';
import type { HostConnection, Query } from './connection.ts';

const STREAMS = {
  logs: 'GET /apps/:id/telemetry/logs/stream',
  errors: 'GET /apps/:id/telemetry/errors/stream',
  requests: 'GET /apps/:id/telemetry/requests/stream',
} as const;

export class Telemetry {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** What the host's telemetry says of an app, or of a preview of it. @throws {Problem} `error_not_found`, `preview_not_found` */
  async read<Name extends keyof TelemetryAnswers>(
    name: Name,
    id: string,
    query?: Omit<TelemetryAnswers[Name]['params'], 'appId'> & { preview?: string | undefined },
  ): Promise<TelemetryAnswers[Name]['answer']> {
    const call: keyof HostCalls = `GET /apps/:id/telemetry/${name}`;
    const options = { query: query as Query, refusals: ['error_not_found', 'preview_not_found'] } as const;
    return this.#host.json(call, [id], options) as Promise<TelemetryAnswers[Name]['answer']>;
  }

  /** @throws {Problem} `error_not_found` */
  async setErrorStatus(
    appId: string,
    body: HostCalls['PUT /apps/:id/telemetry/errors/status']['body'],
  ): Promise<GroupedError> {
    const options = { body, refusals: ['error_not_found'] } as const;
    return this.#host.json('PUT /apps/:id/telemetry/errors/status', [appId], options);
  }

  /**
   * The log of an app, or its errors, as they come, as server-sent events. It lasts until either side ends it.
   * @throws {Problem} `rate_limited` when too many listen
   */
  async follow(kind: keyof typeof STREAMS, appId: string, query: Query): Promise<ReadableStream<Uint8Array>> {
    const head = new AbortController();
    const timer = setTimeout(() => head.abort(new Error('no answer in time')), CALL_DEADLINE_MS);
    try {
      const refusals = ['rate_limited', 'preview_not_found'] as const;
      const options = { query, refusals, signal: head.signal };
      const response = await this.#host.call(STREAMS[kind], [appId], options);
      return response.body!;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The host's figures and every app's, as Prometheus reads them. */
  async prometheus(): Promise<string> {
    return (await this.#host.call('GET /metrics', [])).text();
  }

  /** What these apps do, all at once. */
  async overview(appIds: string[]): Promise<HostOverview> {
    return this.#host.json('POST /overview', [], { body: { app_ids: appIds } });
  }
}
