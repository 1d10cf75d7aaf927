// Statistics of the host, for its operators.
import type { HostStats } from '../../handlers/contract/admin.ts';
import type { HostOverview } from '../../handlers/contract/host/host-routes.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { Apps } from '../apps/apps.ts';
import type { StorageLimits } from '../apps/storage-limits.ts';
import type { Bucket } from '../bucket/bucket.ts';
import type { CodeCache } from '../bucket/code/code-cache.ts';
import { type BucketPrices, monthlyCost } from '../bucket/proxy/prices.ts';
import type { DeployQueue } from '../builds/queue/queue.ts';
import type { DiskWatch } from '../disk/disk-watch.ts';
import type { MemoryGauge } from '../fleets/admission/memory.ts';
import type { Slots } from '../fleets/admission/slots.ts';
import type { WakeFigures } from '../fleets/admission/wake-figures.ts';
import type { LoopDelay } from '../resources/loop-delay.ts';
import type { Snapshots } from '../snapshots/snapshots.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import type { Outbox } from './outbox.ts';

export interface StatsOptions {
  store: HostStore;
  disk: DiskWatch;
  apps: Apps;
  storageLimits: StorageLimits;
  queue: DeployQueue;
  loopDelay: LoopDelay;
  telemetry: Telemetry;
  outbox: Outbox;
  memory: MemoryGauge;
  slots: Slots;
  wakes: WakeFigures;
  snapshots: Snapshots;
  /** Null without a bucket. */
  bucket: Bucket | null;
  /** Null without a bucket. */
  codeCache: CodeCache | null;
  /** Null: costs are not estimated. */
  bucketPrices: BucketPrices | null;
  /** Returns whether the control plane's process answers, and how often it was restarted. */
  controlPlane: () => { answers: boolean; restarts: number };
}

const MB = 1024 * 1024;
/** Maximum number of apps in a list. */
const APPS_SHOWN = 200;
const startedAt = new Date(performance.timeOrigin).toISOString();

/** Returns figures of several apps. Reads no database but telemetry's. */
export async function hostOverview(
  { memory, telemetry, apps: known }: Pick<StatsOptions, 'memory' | 'telemetry' | 'apps'>,
  appIds: string[],
): Promise<HostOverview> {
  const [figures, open] = await Promise.all([
    telemetry.ask('metrics/overview', { appIds }),
    telemetry.ask('errors/open', { appIds }),
  ]);
  const { used, limit } = memory.figures;
  // Telemetry may still have the memory of a process that ended in the last minutes.
  const runs = (id: string) => known.observe(id)?.process_state === 'running';
  const apps = Object.entries(figures).map(([id, each]) => [
    id,
    {
      ...each,
      memory_bytes: runs(id) ? each.memory_bytes : null,
      processes: known.processes(id),
      open_errors: open[id]!,
    },
  ]);
  return { memory: { used_bytes: used, limit_bytes: limit }, apps: Object.fromEntries(apps) };
}

export async function hostStats(parts: StatsOptions): Promise<HostStats> {
  const { disk, memory, queue, outbox } = parts;
  const { used, limit, cells, inCells } = memory.figures;
  const deploys = queue.counts;
  const telemetry = await parts.telemetry.stats();
  return {
    started_at: startedAt,
    rss_bytes: process.memoryUsage.rss(),
    event_loop_delay: parts.loopDelay.recent,
    cells: {
      running: cells,
      memory_bytes: inCells,
      open_streams: parts.apps.openStreams,
    },
    apps: heaviest(parts),
    wakes: parts.wakes.counts,
    memory: { used_bytes: used, limit_bytes: Math.round(limit), over: memory.over },
    disk: { free_bytes: disk.freeMb * MB, floor_bytes: disk.floorMb * MB, short: disk.short },
    queues: {
      deploys_running: deploys.running,
      deploys_waiting: deploys.waiting,
      starts_waiting: parts.slots.waiting,
      outbox: parts.store.outbox.size(),
      outbox_refused: outbox.refused.length,
    },
    telemetry: {
      waiting: telemetry.waiting,
      dropped: telemetry.dropped,
      files: telemetry.files ?? {},
      restarts: telemetry.restarts,
    },
    control_plane: parts.controlPlane(),
    snapshots: parts.snapshots.state,
    bucket: bucketStats(parts),
  };
}

function bucketStats({ bucket, bucketPrices, codeCache, apps }: StatsOptions): HostStats['bucket'] {
  if (bucket === null) return null;
  const elapsedMs = performance.now();
  const counted = [...bucket.counts].flatMap(([id, counts]) => {
    const slug = apps.get(id)?.wanted.slug;
    if (slug === undefined) return [];
    const { writes, reads, deletes } = counts;
    return [
      { id, slug, writes, reads, deletes, monthly_usd: monthlyCost([counts], bucketPrices, elapsedMs) },
    ];
  });
  const all = counted.toSorted((a, b) => b.writes + b.reads - (a.writes + a.reads));
  return {
    problem: bucket.problem,
    code_bytes: codeCache?.bytes ?? null,
    monthly_usd: monthlyCost([...bucket.counts.values()], bucketPrices, elapsedMs),
    apps: all.slice(0, APPS_SHOWN),
  };
}

/** Returns the apps that use most memory; of equal ones, those that use most disk. */
function heaviest({ apps, storageLimits }: StatsOptions): HostStats['apps'] {
  const all = apps.memories().map((app) => ({ ...app, disk_bytes: storageLimits.sizeOf(app.id) }));
  return all
    .toSorted(
      (a, b) =>
        (b.memory_bytes ?? -1) - (a.memory_bytes ?? -1) || (b.disk_bytes ?? -1) - (a.disk_bytes ?? -1),
    )
    .slice(0, APPS_SHOWN);
}
