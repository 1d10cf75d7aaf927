// Totals of apps since the telemetry thread's start, for Prometheus. Separate from stored figures: a counter must not
// decrease when old data is removed.
import type { HostStats } from '../../../handlers/contract/admin.ts';
import type { Immediate, Part, Taken } from '../part.ts';
import { type Family, labelsText, prometheusText, type Sample } from './prometheus.ts';

/** Upper bounds of durations, in s: the default buckets of Prometheus. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;
const MS = 1000;

interface Total {
  /** Requests by status class. */
  requests: number[];
  rateLimited: number;
  shed: number;
  bytesIn: number;
  bytesOut: number;
  heldMs: number;
  durationMs: number;
  /** Number of durations between the previous bound and each bound. The last number has no upper bound. */
  durations: number[];
  cpuMs: number;
  memoryBytes: number;
  processes: number;
  wakes: number;
}

export class Totals implements Part {
  readonly name = 'totals';
  readonly dropped = {};
  readonly answers: Immediate<'prometheus'> = {
    // As bytes, which are transferred to the host's thread without a copy: the text of many apps has megabytes.
    prometheus: ({ stats }) =>
      new TextEncoder().encode(prometheusText([...hostFamilies(stats), ...this.#appFamilies()])),
  };
  /** Slugs of all apps, by id. */
  readonly #names: ReadonlyMap<string, string>;
  readonly #totals = new Map<string, Total>();

  /** @param names slugs of all apps by id, kept current by the caller */
  constructor(names: ReadonlyMap<string, string>) {
    this.#names = names;
  }

  take({ requests, usage }: Pick<Taken, 'requests' | 'usage'>): void {
    for (const request of requests) {
      const total = this.#of(request.appId);
      const found = Math.min(Math.max(Math.floor(request.status / 100), 1), CLASSES.length) - 1;
      total.requests[found]!++;
      if (request.status === 429) total.rateLimited++;
      if (request.refused === 'shed') total.shed++;
      total.bytesIn += request.bytesIn;
      total.bytesOut += request.bytesOut;
      total.heldMs += request.heldMs;
      // A WebSocket's duration depends on its user: it is not a latency.
      if (request.upgraded) continue;
      total.durationMs += request.durationMs;
      const bound = BOUNDS.findIndex((each) => request.durationMs <= each * MS);
      total.durations[bound === -1 ? BOUNDS.length : bound]!++;
    }
    for (const { appId, cpuMs, memoryBytes, processes, wakes } of usage) {
      const total = this.#of(appId);
      total.cpuMs += cpuMs;
      // The memory is the largest of a batch, in which the last process may have ended.
      total.memoryBytes = processes === 0 ? 0 : memoryBytes;
      total.processes = processes;
      total.wakes += wakes;
    }
  }

  forget(appId: string): boolean {
    this.#totals.delete(appId);
    return false;
  }

  apps(): string[] {
    return [...this.#totals.keys()];
  }

  #of(appId: string): Total {
    let total = this.#totals.get(appId);
    if (total === undefined) {
      total = nothing();
      this.#totals.set(appId, total);
    }
    return total;
  }

  #appFamilies(): Family[] {
    const named = ([appId, total]: [string, Total]): App => ({
      labels: labelsText({ app: this.#names.get(appId) ?? appId }),
      total,
    });
    const apps = [...this.#totals].map(named);
    // Apps without requests have a request counter of 0: Prometheus loses the first increments of a counter that starts
    // higher. Their other series are omitted: each costs Prometheus memory, and thousands of apps may sleep.
    const quiet = [...this.#names.keys()]
      .filter((appId) => !this.#totals.has(appId))
      .map((appId) => named([appId, NOTHING]));
    const sum = (name: string, help: string, of: (total: Total) => number): Family => ({
      name: `cellar_app_${name}`,
      type: 'counter',
      help,
      samples: apps.map(({ labels, total }) => ({ labels, value: of(total) })),
    });
    return [
      {
        name: 'cellar_app_requests_total',
        type: 'counter',
        help: 'Requests to the app at the edge, by class of HTTP status.',
        samples: requestSamples([...apps, ...quiet]),
      },
      sum(
        'rate_limited_total',
        'Requests to the app that a rate limit refused (429).',
        ({ rateLimited }) => rateLimited,
      ),
      sum(
        'shed_total',
        'Requests to the app that were refused because the host had too little memory (503).',
        ({ shed }) => shed,
      ),
      sum('received_bytes_total', 'Bytes in the bodies of requests to the app.', ({ bytesIn }) => bytesIn),
      sum('sent_bytes_total', 'Bytes in the bodies of responses of the app.', ({ bytesOut }) => bytesOut),
      sum(
        'held_seconds_total',
        'Time that requests to the app waited in its queue, such as during a start.',
        ({ heldMs }) => heldMs / MS,
      ),
      sum('cpu_seconds_total', 'CPU time of the processes of the app.', ({ cpuMs }) => cpuMs / MS),
      sum('wakes_total', 'Starts of the sleeping or hibernating app.', ({ wakes }) => wakes),
      {
        name: 'cellar_app_memory_bytes',
        type: 'gauge',
        help: 'Private memory of the processes of the app at the last sample.',
        samples: apps.map(({ labels, total }) => ({ labels, value: total.memoryBytes })),
      },
      {
        name: 'cellar_app_processes',
        type: 'gauge',
        help: 'Processes of the app that served requests at the last sample.',
        samples: apps.map(({ labels, total }) => ({ labels, value: total.processes })),
      },
      {
        name: 'cellar_app_request_duration_seconds',
        type: 'histogram',
        help: 'Duration of requests to the app, from the headers of the request to the end of the response.',
        samples: durationSamples(apps),
      },
    ];
  }
}

interface App {
  /** Formatted by `labelsText`. */
  labels: string;
  total: Total;
}

function nothing(): Total {
  return {
    requests: CLASSES.map(() => 0),
    rateLimited: 0,
    shed: 0,
    bytesIn: 0,
    bytesOut: 0,
    heldMs: 0,
    durationMs: 0,
    durations: [...BOUNDS, null].map(() => 0),
    cpuMs: 0,
    memoryBytes: 0,
    processes: 0,
    wakes: 0,
  };
}

const NOTHING = nothing();

const CLASS_LABELS = CLASSES.map((status) => labelsText({ status }));

function* requestSamples(apps: App[]): Generator<Sample> {
  for (const { labels, total } of apps)
    for (const [index, status] of CLASS_LABELS.entries())
      yield { labels: `${labels},${status}`, value: total.requests[index]! };
}

const BOUND_LABELS = [...BOUNDS.map(String), '+Inf'].map((le) => labelsText({ le }));

function* durationSamples(apps: App[]): Generator<Sample> {
  for (const { labels, total } of apps) {
    let below = 0;
    for (const [index, bound] of BOUND_LABELS.entries()) {
      below += total.durations[index]!;
      yield { suffix: '_bucket', labels: `${labels},${bound}`, value: below };
    }
    yield { suffix: '_sum', labels, value: total.durationMs / MS };
    yield { suffix: '_count', labels, value: below };
  }
}

/** Figures of the host, its gateway and its control plane. */
function hostFamilies(stats: HostStats): Family[] {
  const one = (type: Family['type'], name: string, help: string, value: number): Family => ({
    name: `cellar_${name}`,
    type,
    help,
    samples: [{ labels: '', value }],
  });
  const { queues, cells, wakes, memory, disk, telemetry, control_plane, event_loop_delay, bucket } = stats;
  return [
    one(
      'gauge',
      'start_time_seconds',
      'Unix time at which the host started.',
      Date.parse(stats.started_at) / MS,
    ),
    one(
      'gauge',
      'host_resident_memory_bytes',
      'Resident memory of the process of the host.',
      stats.rss_bytes,
    ),
    one(
      'gauge',
      'gateway_loop_delay_p50_seconds',
      "Delay of the event loop of the gateway's thread in the last two minutes: the median.",
      event_loop_delay.p50_ms / MS,
    ),
    one(
      'gauge',
      'gateway_loop_delay_p99_seconds',
      "Delay of the event loop of the gateway's thread in the last two minutes: the 99th percentile.",
      event_loop_delay.p99_ms / MS,
    ),
    one('gauge', 'cells', 'Running processes of apps.', cells.running),
    one('gauge', 'cells_memory_bytes', 'Private memory of all processes of apps.', cells.memory_bytes),
    one('gauge', 'open_streams', 'Requests and upgraded connections that are open.', cells.open_streams),
    one('counter', 'wakes_total', 'Starts of apps for which requests waited.', wakes.count),
    one(
      'counter',
      'wakes_failed_total',
      'Starts of apps for which requests waited, and which failed.',
      wakes.failed,
    ),
    one(
      'gauge',
      'memory_used_bytes',
      'Memory that counts against RUNNER_FLEET_MAX_RSS_MB.',
      memory.used_bytes,
    ),
    one(
      'gauge',
      'memory_limit_bytes',
      'Memory that Cellar and its apps may use (RUNNER_FLEET_MAX_RSS_MB).',
      memory.limit_bytes,
    ),
    one('gauge', 'disk_free_bytes', 'Free space on the disk of the data directory.', disk.free_bytes),
    one(
      'gauge',
      'disk_floor_bytes',
      'Space that must stay free on the disk of the data directory (RUNNER_DISK_FLOOR_MB).',
      disk.floor_bytes,
    ),
    {
      name: 'cellar_queue_length',
      type: 'gauge',
      help: 'Length of each queue of Cellar.',
      samples: Object.entries(queues).map(([queue, value]) => ({ labels: labelsText({ queue }), value })),
    },
    {
      name: 'cellar_telemetry_dropped_total',
      type: 'counter',
      help: 'Telemetry that was dropped because a limit was reached, by kind.',
      samples: Object.entries(telemetry.dropped).map(([what, value]) => ({
        labels: labelsText({ what }),
        value,
      })),
    },
    ...(bucket === null
      ? []
      : [
          one(
            'gauge',
            'bucket_up',
            'Whether the bucket can be used: 1 if so, else 0.',
            Number(bucket.problem === null),
          ),
        ]),
    {
      name: 'cellar_bucket_requests_total',
      type: 'counter',
      help: 'Requests of apps to the bucket. Lists are writes, as in the price lists of stores.',
      samples: (bucket?.apps ?? []).flatMap(({ slug, writes, reads, deletes }) =>
        Object.entries({ writes, reads, deletes }).map(([kind, value]) => ({
          labels: labelsText({ app: slug, kind }),
          value,
        })),
      ),
    },
    one(
      'gauge',
      'control_plane_up',
      'Whether the control plane answers: 1 if so, else 0.',
      Number(control_plane.answers),
    ),
    one('counter', 'control_plane_restarts_total', 'Restarts of the control plane.', control_plane.restarts),
  ];
}
