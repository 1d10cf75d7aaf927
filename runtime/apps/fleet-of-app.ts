// Creates the fleet of an app, with the user, directories, secrets and services of the app's processes.
import type { ProcessState } from '../../handlers/contract/host/host-calls.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import type { AppCluster } from '../bucket/app-cluster.ts';
import type { AppCode } from '../bucket/code/app-code.ts';
import type { Layout } from '../disk/data-directory.ts';
import type { MemoryGauge } from '../fleets/admission/memory.ts';
import type { Slots } from '../fleets/admission/slots.ts';
import type { WakeFigures } from '../fleets/admission/wake-figures.ts';
import { Fleet } from '../fleets/life/fleet.ts';
import type { ProcessFailure } from '../fleets/life/supervisor.ts';
import type { ServiceAccess } from '../fleets/process/service-access.ts';
import type { AppUsers } from '../isolation/users.ts';
import type { Level } from '../log.ts';
import type { OutputSink } from '../processes/output-sink.ts';
import type { Buckets } from '../storage/r2/buckets.ts';
import type { StoredActivity } from './known/kept-activity.ts';
import type { OutwardServices } from './outward-services.ts';
import { reportedApp, restsAtLeast } from './preview-app.ts';
import type { Secrets } from './secrets.ts';

export interface FleetsOptions {
  paths: Layout;
  /** Path of the workerd program. */
  workerd: string;
  /** Returns the users that run an app's builds and its process. */
  users: (appId: string) => AppUsers;
  /** Idle time after which an app hibernates, in ms; `Infinity` for never. */
  idleMs: number;
  /** Memory limit of one app's process, in MiB. */
  memoryMb: number;
  /** Maximum uninterrupted CPU time of a process, in ms, whatever its app configures. */
  cpuMaxMs?: number;
  /** Size of the Cache API's storage for each app, in MiB; 0 for no cache. */
  cacheMb: number;
  /** Whether the calls that a request waits for are timed. Default: false. */
  timesCalls?: boolean;
  /** Whether crons may have a field for seconds. Default: false. */
  cronSeconds?: boolean;
  slots: Slots;
  memory: MemoryGauge;
  secrets: Secrets;
  buckets: Buckets;
  /** Returns an app's access to other apps. */
  services: (id: string) => ServiceAccess;
  outward: OutwardServices;
  /** Private addresses and CIDR ranges that apps may reach. */
  egress: readonly string[];
  /** Returns the URL of the control UI, for error pages of apps under development; null for no such pages. */
  uiUrl: () => string | null;
  wakes: WakeFigures;
  /** Returns where a process of a release writes its output. */
  output: (id: string, deployId: string) => OutputSink;
  /** Called when a release did not start, or its process exited by itself. `isOfDeploy`: whether this makes its deploy fail. */
  onFailure: (id: string, failure: ProcessFailure, isOfDeploy: boolean) => void;
}

interface Listeners {
  owner: () => string;
  vars: () => Record<string, unknown>;
  say: (level: Level, words: string) => void;
  onState: (state: ProcessState) => void;
  onAsleep: (asleep: boolean) => void;
  onRest: (rest: { dueAt: number | null } | null) => Promise<void>;
}

interface FleetApp {
  id: string;
  /** What the preview shows; null for an app that is not a preview. */
  preview: PreviewRow | null;
  /** Set for an app that keeps its data in the bucket. */
  cluster: AppCluster | null;
  /** Set for an app that keeps its code in the bucket. */
  code: AppCode | null;
}

export function fleetOf(
  { id, preview, cluster, code }: FleetApp,
  activity: StoredActivity,
  options: FleetsOptions,
  listeners: Listeners,
): Fleet {
  const { paths, idleMs } = options;
  const reported = reportedApp({ id, preview });
  const version = preview !== null && reported !== id ? preview.versionId : null;
  const countsFor = () => ({ family: preview?.parentId ?? id, owner: listeners.owner() });
  return new Fleet({
    appId: id,
    directories: { run: paths.run(id), data: paths.data(id) },
    workerd: options.workerd,
    user: options.users(id).cell,
    idleMs: preview === null || version !== null ? idleMs : restsAtLeast(idleMs),
    memoryMb: options.memoryMb,
    ...(options.cpuMaxMs !== undefined && { cpuMaxMs: options.cpuMaxMs }),
    cacheMb: options.cacheMb,
    timesCalls: options.timesCalls ?? false,
    cronSeconds: options.cronSeconds ?? false,
    lastRequestAt: activity.atBoot(id)?.lastRequestAt ?? null,
    slots: options.slots,
    memory: options.memory,
    secrets: () => options.secrets.values(preview?.parentId ?? id),
    openKey: (key) => options.secrets.openKey(key),
    buckets: options.buckets.access(id),
    services: options.services(id),
    hostServices: {
      ...options.outward.access(id, countsFor),
      vectors: options.buckets.vectors(id, countsFor),
    },
    containers: () => options.outward.containersOf(id),
    egress: options.egress,
    cluster: cluster ?? undefined,
    load: code?.load,
    uiUrl: options.uiUrl,
    wakes: options.wakes,
    version,
    output: (deployId) => options.output(reported, version ?? deployId),
    onFailure: (failure) =>
      options.onFailure(reported, { ...failure, deployId: version ?? failure.deployId }, false),
    ...listeners,
  });
}
