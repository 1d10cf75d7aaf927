// Sends data to an OTLP/HTTP endpoint with OpenTelemetry's own packages: spans and metrics of requests, metrics of apps'
// processes, and logs. Loaded only when an endpoint is set.
import { STATUS_CODES } from 'node:http';
import {
  type Attributes,
  type HrTime,
  SeverityNumber,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
} from '@opentelemetry/api';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-http';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { type Resource, resourceFromAttributes } from '@opentelemetry/resources';
import type { ReadableLogRecord } from '@opentelemetry/sdk-logs';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import type { Level, LogRecord } from '../logs/log-lines.ts';
import type { Part, Taken } from '../part.ts';
import type { OtlpOptions } from '../protocol.ts';
import { type CountedRequest, isError } from '../traces/request-lines.ts';
import { Meters } from './meters.ts';
import { OtlpQueue } from './otlp-queue.ts';

const SCOPE = { name: 'cellar' };
/** Time limit of one export, retries included, in ms. */
const TIMEOUT_MS = 10_000;
/**
 * Maximum series of all metrics. Above it, all series are restarted. 3,000 apps with 7 pairs of method and status have
 * 30,000 series. Measured with 40,000 series of durations: they take 42 MB. An export has 21 MB, and blocks the thread
 * for 0.2 s.
 */
const SERIES_MAX = 40_000;
/** Time until all series are restarted after an app was deleted or renamed, in ms. */
const STALE_MS = 3_600_000;
const SEVERITIES: Record<Level, SeverityNumber> = {
  debug: SeverityNumber.DEBUG,
  info: SeverityNumber.INFO,
  warn: SeverityNumber.WARN,
  error: SeverityNumber.ERROR,
};
const NO_SPAN = '';
/** HTTP methods to export. All others are exported as `_OTHER`, because clients may invent any method. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'CONNECT', 'TRACE']);
/** Status of a request whose client left before the response began. */
const CLIENT_LEFT = 499;

/** The part of telemetry that exports to other systems. It stores nothing on the disk. */
export class Otlp implements Part {
  readonly name = 'otlp';
  readonly answers = {};
  readonly #nameOf: (appId: string) => string;
  readonly #spans: OtlpQueue<ReadableSpan>;
  readonly #records: OtlpQueue<ReadableLogRecord>;
  readonly #startMeters: () => Meters;
  #meters: Meters;
  /** Resolves when all earlier meters are closed. */
  #closed: Promise<unknown> = Promise.resolve();
  /** Slugs of the apps that have series, by app id. */
  readonly #slugs = new Map<string, string>();
  /** When the first app with series was deleted or renamed, in ms since 1970; null: not yet. */
  #staleAt: number | null = null;
  readonly #resources = new Map<string, Resource>();

  /** @param nameOf returns an app's slug, or its id while the slug is not known */
  constructor({ endpoint, headers }: OtlpOptions, nameOf: (appId: string) => string) {
    this.#nameOf = nameOf;
    const to = (path: string) => ({
      url: `${endpoint.replace(/\/$/, '')}/v1/${path}`,
      headers,
      timeoutMillis: TIMEOUT_MS,
    });
    this.#spans = new OtlpQueue(new OTLPTraceExporter(to('traces')));
    this.#records = new OtlpQueue(new OTLPLogExporter(to('logs')));
    this.#startMeters = () => new Meters(SCOPE.name, new OTLPMetricExporter(to('metrics')), TIMEOUT_MS);
    this.#meters = this.#startMeters();
  }

  get dropped(): Record<string, number> {
    return { otlp_spans: this.#spans.dropped, otlp_logs: this.#records.dropped };
  }

  take({ requests, usage }: Pick<Taken, 'requests' | 'usage'>): void {
    const { duration, cpu, memory, wakes: wakeups } = this.#meters;
    for (const request of requests) {
      const attributes = attributesOf(request);
      // The user decides how long a WebSocket lasts.
      if (!request.upgraded)
        duration.record(request.durationMs / 1000, {
          ...attributes,
          'http.response.status_code': knownStatus(request.status),
          ...this.#app(request.appId),
        });
      this.#spans.add(this.#span(request, attributes));
    }
    for (const { appId, cpuMs, memoryBytes, processes, wakes } of usage) {
      const app = this.#app(appId);
      if (cpuMs > 0) cpu.add(cpuMs / 1000, app);
      // The memory is the largest of a batch, in which the last process may have ended. A gauge keeps its last value.
      if (processes === 0) memory.record(0, app);
      else if (memoryBytes > 0) memory.record(memoryBytes, app);
      if (wakes > 0) wakeups.add(wakes, app);
    }
  }

  /** Exports a record of an app's log. */
  log(appId: string, { at, level, source, text, fields, traceId, release }: LogRecord): void {
    const time = hrTime(at);
    this.#records.add({
      hrTime: time,
      hrTimeObserved: time,
      severityText: level,
      severityNumber: SEVERITIES[level],
      body: text,
      // A line has the app's trace id, but no span id.
      ...(traceId === null
        ? {}
        : { spanContext: { traceId, spanId: NO_SPAN, traceFlags: TraceFlags.SAMPLED } }),
      resource: this.#resource(appId),
      instrumentationScope: SCOPE,
      attributes: {
        ...Object.fromEntries(Object.entries(fields ?? {}).filter(([, value]) => value !== null)),
        'cellar.source': source,
        ...(release === null ? {} : { 'cellar.deploy.id': release }),
      } as Attributes,
      droppedAttributesCount: 0,
    });
  }

  /** Restarts all series of metrics if there are too many, or if some are of deleted or renamed apps. */
  prune(now: number): boolean {
    const isStale = this.#staleAt !== null && now - this.#staleAt >= STALE_MS;
    if (!isStale && this.#meters.series <= SERIES_MAX) return false;
    this.#closeMeters();
    this.#meters = this.#startMeters();
    this.#slugs.clear();
    this.#staleAt = null;
    return false;
  }

  /** Forgets the app's resources and, within an hour, its metrics. Its queued spans and log records are still sent. */
  forget(appId: string): boolean {
    if (this.#slugs.delete(appId)) this.#staleAt ??= Date.now();
    for (const [key, { attributes }] of this.#resources)
      if (attributes['cellar.app.id'] === appId) this.#resources.delete(key);
    return false;
  }

  /** Sends the queued items once. */
  async close(): Promise<void> {
    this.#closeMeters();
    await Promise.allSettled([this.#spans.close(), this.#records.close(), this.#closed]);
  }

  #closeMeters(): void {
    // A failed export has been retried. OpenTelemetry reports it.
    const closing = this.#meters.close().catch(() => {});
    this.#closed = Promise.all([this.#closed, closing]).then(() => {});
  }

  #app(appId: string): Attributes {
    const slug = this.#nameOf(appId);
    const known = this.#slugs.get(appId);
    if (known !== slug) {
      if (known !== undefined) this.#staleAt ??= Date.now();
      this.#slugs.set(appId, slug);
    }
    return { 'cellar.app.id': appId, 'cellar.app.slug': slug };
  }

  /** Returns the OpenTelemetry resource of an app: a service named by the app's slug. After a rename it is a new one. */
  #resource(appId: string): Resource {
    const slug = this.#nameOf(appId);
    const key = `${appId} ${slug}`;
    let resource = this.#resources.get(key);
    if (resource === undefined) {
      resource = resourceFromAttributes({
        'service.name': slug,
        'service.namespace': 'cellar',
        'cellar.app.id': appId,
      });
      this.#resources.set(key, resource);
    }
    return resource;
  }

  #span(request: CountedRequest, attributes: Attributes): ReadableSpan {
    const { traceId, spanId, parentSpanId, endedAt, durationMs, path, host, userAgent } = request;
    const sampled = { traceId, traceFlags: TraceFlags.SAMPLED };
    return {
      name: String(attributes['http.request.method']),
      kind: SpanKind.SERVER,
      spanContext: () => ({ ...sampled, spanId }),
      ...(parentSpanId === null
        ? {}
        : { parentSpanContext: { ...sampled, spanId: parentSpanId, isRemote: true } }),
      startTime: hrTime(endedAt - durationMs),
      endTime: hrTime(endedAt),
      duration: hrTime(durationMs),
      status: { code: isError(request) ? SpanStatusCode.ERROR : SpanStatusCode.UNSET },
      attributes: {
        ...attributes,
        'url.path': path,
        'server.address': host,
        'user_agent.original': userAgent,
        'http.request.body.size': request.bytesIn,
        'http.response.body.size': request.bytesOut,
        'cellar.held_ms': request.heldMs,
        'cellar.wake_ms': request.wakeMs,
        ...(request.cellStart === null ? {} : { 'cellar.cell_start': request.cellStart }),
        ...(request.release === null ? {} : { 'cellar.deploy.id': request.release }),
        ...(request.refused === null ? {} : { 'error.type': request.refused }),
      },
      links: [],
      events: [],
      ended: true,
      resource: this.#resource(request.appId),
      instrumentationScope: SCOPE,
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    };
  }
}

function attributesOf({ method, status }: CountedRequest): Attributes {
  return {
    'http.request.method': METHODS.has(method) ? method : '_OTHER',
    'http.response.status_code': status,
  };
}

/** Returns a registered status; for any other, the first of its class. Otherwise an app could create many series. */
function knownStatus(status: number): number {
  const isKnown = status === CLIENT_LEFT || STATUS_CODES[status] !== undefined;
  return isKnown ? status : Math.floor(status / 100) * 100;
}

/** Converts ms to seconds and nanoseconds. */
function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
