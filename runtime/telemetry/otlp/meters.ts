// The metrics that are exported by OTLP. OpenTelemetry keeps and exports each combination of attributes until `close`.
import type { Counter, Gauge, Histogram } from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  MeterProvider,
  PeriodicExportingMetricReader,
  type PushMetricExporter,
} from '@opentelemetry/sdk-metrics';

/** Export interval, in ms. */
const EVERY_MS = 60_000;
/** Maximum combinations of attributes, such as of app, method and status, that a metric gets between two exports. */
const CARDINALITY = 10_000;
/** Bucket bounds of the histogram of durations, in s, as OpenTelemetry recommends for HTTP requests. */
const BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Counts the data points of the newest export. */
class CountingReader extends PeriodicExportingMetricReader {
  points = 0;

  override async collect(...options: Parameters<PeriodicExportingMetricReader['collect']>) {
    const result = await super.collect(...options);
    const metrics = result.resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
    this.points = metrics.reduce((sum, { dataPoints }) => sum + dataPoints.length, 0);
    return result;
  }
}

export class Meters {
  readonly duration: Histogram;
  readonly cpu: Counter;
  readonly memory: Gauge;
  readonly wakes: Counter;
  readonly #reader: CountingReader;
  readonly #provider: MeterProvider;

  /** @param timeoutMs the exporter's own time limit, retries included */
  constructor(scope: string, exporter: PushMetricExporter, timeoutMs: number) {
    this.#reader = new CountingReader({
      exporter,
      exportIntervalMillis: EVERY_MS,
      exportTimeoutMillis: timeoutMs,
    });
    this.#provider = new MeterProvider({
      resource: resourceFromAttributes({ 'service.name': 'cellar' }),
      views: [{ instrumentName: '*', aggregationCardinalityLimit: CARDINALITY }],
      readers: [this.#reader],
    });
    const meter = this.#provider.getMeter(scope);
    this.duration = meter.createHistogram('http.server.request.duration', {
      unit: 's',
      advice: { explicitBucketBoundaries: BOUNDARIES },
    });
    this.cpu = meter.createCounter('cellar.app.cpu.time', { unit: 's' });
    this.memory = meter.createGauge('cellar.app.memory.usage', { unit: 'By' });
    this.wakes = meter.createCounter('cellar.app.wakes', { unit: '{wake}' });
  }

  /** Number of series (combinations of attributes) of all metrics at the last export. */
  get series(): number {
    return this.#reader.points;
  }

  /** Exports everything once more, and ends. */
  close(): Promise<void> {
    return this.#provider.shutdown();
  }
}
