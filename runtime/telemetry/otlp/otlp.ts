// Sends data to an OTLP/HTTP endpoint with OpenTelemetry's own packages: spans and metrics of requests, metrics of apps'
// processes, and logs. Loaded only when an endpoint is set.
import {
  type Attributes,
  type Counter,
  type Gauge,
  type Histogram,
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
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import type { Level, LogRecord } from '../logs/log-lines.ts';
import type { Part, Taken } from '../part.ts';
import type { OtlpOptions } from '../protocol.ts';
import { type CountedRequest, isError } from '../traces/request-lines.ts';
import { OtlpQueue } from './otlp-queue.ts';

const SCOPE = { name: 'cellar' };
/** Export interval of metrics, in ms. */
const METRICS_EVERY_MS = 60_000;
/** Time limit of one export, retries included, in ms. */
const TIMEOUT_MS = 10_000;
/** Maximum combinations of attributes that a metric has, such as of app, method and status. */
const CARDINALITY = 10_000;
/** Bounds of durations, in s: those that OpenTelemetry advises for HTTP requests. */
const BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const SEVERITIES: Record<Level, SeverityNumber> = {
  debug: SeverityNumber.DEBUG,
  info: SeverityNumber.INFO,
  warn: SeverityNumber.WARN,
  error: SeverityNumber.ERROR,
};
const NO_SPAN = '';
/** HTTP methods to export. All others are exported as `_OTHER`, because clients may invent any method. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'CONNECT', 'TRACE']);

/** The part of telemetry that exports to other systems. It stores nothing on the disk. */
export class Otlp implements Part {
  readonly name = 'otlp';
  readonly answers = {};
  readonly #nameOf: (appId: string) => string;
  readonly #spans: OtlpQueue<ReadableSpan>;
  readonly #records: OtlpQueue<ReadableLogRecord>;
  readonly #meters: MeterProvider;
  readonly #duration: Histogram;
  readonly #cpu: Counter;
  readonly #memory: Gauge;
  readonly #wakes: Counter;
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
    this.#meters = new MeterProvider({
      resource: resourceFromAttributes({ 'service.name': 'cellar' }),
      views: [{ instrumentName: '*', aggregationCardinalityLimit: CARDINALITY }],
      readers: [
        new PeriodicExportingMetricReader({
          exporter: new OTLPMetricExporter(to('metrics')),
          exportIntervalMillis: METRICS_EVERY_MS,
          exportTimeoutMillis: TIMEOUT_MS,
        }),
      ],
    });
    const meter = this.#meters.getMeter(SCOPE.name);
    this.#duration = meter.createHistogram('http.server.request.duration', {
      unit: 's',
      advice: { explicitBucketBoundaries: BOUNDARIES },
    });
    this.#cpu = meter.createCounter('cellar.app.cpu.time', { unit: 's' });
    this.#memory = meter.createGauge('cellar.app.memory.usage', { unit: 'By' });
    this.#wakes = meter.createCounter('cellar.app.wakes', { unit: '{wake}' });
  }

  get dropped(): Record<string, number> {
    return { otlp_spans: this.#spans.dropped, otlp_logs: this.#records.dropped };
  }

  take({ requests, usage }: Pick<Taken, 'requests' | 'usage'>): void {
    for (const request of requests) {
      const attributes = attributesOf(request);
      // The user decides how long a WebSocket lasts.
      if (!request.upgraded)
        this.#duration.record(request.durationMs / 1000, { ...attributes, ...this.#app(request.appId) });
      this.#spans.add(this.#span(request, attributes));
    }
    for (const { appId, cpuMs, memoryBytes, processes, wakes } of usage) {
      const app = this.#app(appId);
      if (cpuMs > 0) this.#cpu.add(cpuMs / 1000, app);
      // The memory is the largest of a batch, in which the last process may have ended. A gauge keeps its last value.
      if (processes === 0) this.#memory.record(0, app);
      else if (memoryBytes > 0) this.#memory.record(memoryBytes, app);
      if (wakes > 0) this.#wakes.add(wakes, app);
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

  /** Forgets the app's resources. Its queued spans and log records are still sent. */
  forget(appId: string): boolean {
    for (const [key, { attributes }] of this.#resources)
      if (attributes['cellar.app.id'] === appId) this.#resources.delete(key);
    return false;
  }

  /** Sends the queued items once. */
  async close(): Promise<void> {
    await Promise.allSettled([this.#spans.close(), this.#records.close(), this.#meters.shutdown()]);
  }

  #app(appId: string): Attributes {
    return { 'cellar.app.id': appId, 'cellar.app.slug': this.#nameOf(appId) };
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

/** Converts ms to seconds and nanoseconds. */
function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
