// A receiver of telemetry by OTLP/HTTP, as JSON.
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

interface Attribute {
  key: string;
  value: Record<string, unknown>;
}

// biome-ignore lint/suspicious/noExplicitAny: OTLP as JSON
type Json = any;

/** Records received messages by path. */
export class OtlpReceiver {
  readonly got = new Map<string, Json[]>();
  headers: IncomingHttpHeaders = {};
  status = 200;
  readonly #server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request));
    this.headers = request.headers;
    if (this.status === 200) this.got.set(request.url!, [...(this.got.get(request.url!) ?? []), body]);
    response.writeHead(this.status, { 'content-type': 'application/json' }).end('{}');
  });

  static async start(): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver();
    receiver.#server.listen(0, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/otlp`;
  }

  /** Returns all spans, with the attributes of their service. */
  spans() {
    return (this.got.get('/otlp/v1/traces') ?? []).flatMap(({ resourceSpans }) =>
      resourceSpans.flatMap(({ resource, scopeSpans }: Json) =>
        scopeSpans.flatMap(({ spans }: Json) =>
          spans.map((span: Json) => ({
            ...span,
            service: valuesOf(resource.attributes),
            attributes: valuesOf(span.attributes),
          })),
        ),
      ),
    );
  }

  /** Returns all log records, with the attributes of their service. */
  logs() {
    return (this.got.get('/otlp/v1/logs') ?? []).flatMap(({ resourceLogs }) =>
      resourceLogs.flatMap(({ resource, scopeLogs }: Json) =>
        scopeLogs.flatMap(({ logRecords }: Json) =>
          logRecords.map((record: Json) => ({
            ...record,
            service: valuesOf(resource.attributes),
            attributes: valuesOf(record.attributes),
          })),
        ),
      ),
    );
  }

  /** Returns the data points of a metric, from all deliveries. */
  points(name: string) {
    return (this.got.get('/otlp/v1/metrics') ?? []).flatMap(({ resourceMetrics }) =>
      resourceMetrics.flatMap(({ scopeMetrics }: Json) =>
        scopeMetrics.flatMap(({ metrics }: Json) =>
          metrics
            .filter((metric: Json) => metric.name === name)
            .flatMap(({ histogram, sum, gauge }: Json) => (histogram ?? sum ?? gauge).dataPoints)
            .map((point: Json) => ({ ...point, attributes: valuesOf(point.attributes) })),
        ),
      ),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

function valuesOf(attributes: Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
