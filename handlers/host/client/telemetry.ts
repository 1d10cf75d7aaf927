// Calls the host about an app's metrics, logs and errors.
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

  /** Reads telemetry of an app or of one of its previews. @throws {Problem} `error_not_found`, `preview_not_found` */
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
   * Follows an app's log, errors or requests as server-sent events, until either side ends the stream.
   * @throws {Problem} `rate_limited` when there are too many listeners
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

  /** Returns the metrics of the host and of every app, in the format of Prometheus. */
  async prometheus(): Promise<string> {
    return (await this.#host.call('GET /metrics', [])).text();
  }

  /** Returns the figures of several apps in one call. */
  async overview(appIds: string[]): Promise<HostOverview> {
    return this.#host.json('POST /overview', [], { body: { app_ids: appIds } });
  }
}
