// The parts that run apps: apps and their processes, their services, and their storage.

import type { StoreSecret } from '../../handlers/contract/host/store-secrets.ts';
import { Checks } from '../alerts/checks.ts';
import { Apps } from '../apps/apps.ts';
import type { AppHosts } from '../apps/known/apps-options.ts';
import { OutwardServices } from '../apps/outward-services.ts';
import { Services } from '../apps/services.ts';
import { StorageLimits } from '../apps/storage-limits.ts';
import { StoreSecrets } from '../apps/store-secrets.ts';
import { bucketPlace } from '../bucket/place.ts';
import { smallObjects } from '../bucket/s3-store.ts';
import { isLocal } from '../config.ts';
import type { Gateway } from '../edge/gateway.ts';
import { MemoryGauge } from '../fleets/admission/memory.ts';
import { Slots } from '../fleets/admission/slots.ts';
import { WakeFigures } from '../fleets/admission/wake-figures.ts';
import { CallDepths } from '../hosts/call-depths.ts';
import type { Hosts } from '../hosts/hosts.ts';
import { appSenders } from '../mail/addresses.ts';
import { IncomingMail } from '../mail/incoming/incoming-mail.ts';
import { Moves } from '../move/moves.ts';
import { HostLease } from '../snapshots/host-lease.ts';
import { Snapshots, type SnapshotsHosts } from '../snapshots/snapshots.ts';
import { storePlace } from '../snapshots/store/place.ts';
import { Buckets } from '../storage/r2/buckets.ts';
import { StorageReaders } from '../storage/reading.ts';
import { StorageQueries } from '../storage/storage-queries.ts';
import { IncomingTcp } from '../tcp/incoming-tcp.ts';
import type { Base } from './base.ts';
import type { ObservabilityParts } from './observability.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export type AppParts = ReturnType<typeof makeApps>;

/** Dependencies of apps on parts that are made later. */
interface Later {
  edge: () => Gateway;
  /** The other hosts; null for the only host. */
  hosts: Hosts | null;
  /** Lets apps move to other hosts; null for the only host. */
  leaving: Omit<AppHosts, 'ended'> | null;
  /** Called when an app or a preview has come from another host, or was undeleted. */
  onRestored: (id: string) => void;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
  /** Asks the control plane for an encrypted secret of a Secrets Store, as base64; null: there is none. */
  askStoreSecret: (asked: StoreSecret) => Promise<string | null>;
}

export function makeApps(
  base: Base,
  { alerts, telemetry, say }: ObservabilityParts,
  { edge, hosts, leaving, onRestored, onFacts, askStoreSecret }: Later,
) {
  const { config, paths, store, hasUsers, users, secrets, disk } = base;
  const slots = new Slots(config.RUNNER_WAKE_CONCURRENCY, base.wakeTimeoutMs);
  const wakes = new WakeFigures();
  const memory = new MemoryGauge(config.RUNNER_FLEET_MAX_RSS_MB, config.RUNNER_CELL_MAX_MB);
  const buckets = new Buckets({
    paths,
    users,
    service: { maxMb: config.RUNNER_APP_MAX_MB, floorMb: config.RUNNER_DISK_FLOOR_MB },
    clusterOf: (appId) => apps.clusterOf(appId),
  });
  const mail = config.RUNNER_SMTP_URL && {
    server: config.RUNNER_SMTP_URL,
    senders: appSenders(config.RUNNER_SMTP_FROM, config.RUNNER_SMTP_APP_SENDERS),
  };
  const outward = new OutwardServices({
    paths,
    users,
    ai:
      config.RUNNER_AI_URL === ''
        ? null
        : { url: config.RUNNER_AI_URL, key: config.RUNNER_AI_KEY, models: config.RUNNER_AI_MODELS },
    browser:
      config.RUNNER_BROWSER === '' && config.RUNNER_BROWSER_URL === ''
        ? null
        : {
            program: config.RUNNER_BROWSER,
            url: config.RUNNER_BROWSER_URL,
            isolation: base.isolation,
            egress: config.RUNNER_EGRESS_ALLOW,
          },
    containers:
      config.RUNNER_CONTAINER_ENGINE === ''
        ? null
        : {
            engine: config.RUNNER_CONTAINER_ENGINE,
            say: (id, text) => say('supervisor', id, 'warn', text),
            isolation: base.isolation,
            egress: config.RUNNER_EGRESS_ALLOW,
          },
    mail,
  });
  const depths = new CallDepths();
  const incomingMail =
    config.RUNNER_MAIL_PORT === null
      ? null
      : new IncomingMail({
          port: config.RUNNER_MAIL_PORT,
          isLocal: isLocal(config.RUNNER_BASE_DOMAIN),
          name: config.RUNNER_BASE_DOMAIN,
          tls:
            config.RUNNER_MAIL_TLS_CERT === ''
              ? null
              : { cert: config.RUNNER_MAIL_TLS_CERT, key: config.RUNNER_MAIL_TLS_KEY },
          outgoing: mail,
          ...{ paths, users, gateway: edge, apps: () => apps, hosts, depths },
        });
  const incomingTcp =
    config.RUNNER_TCP_PORTS === null
      ? null
      : new IncomingTcp({
          ports: config.RUNNER_TCP_PORTS,
          isLocal: isLocal(config.RUNNER_BASE_DOMAIN),
          ...{ paths, users, gateway: edge, apps: () => apps, hosts, depths },
        });
  const services = new Services({
    store: store.apps,
    paths,
    users,
    baseDomain: config.RUNNER_BASE_DOMAIN,
    gateway: edge,
    apps: () => apps,
    hosts,
    depths,
    storeSecrets: new StoreSecrets(secrets, askStoreSecret),
  });
  const apps = new Apps({
    store,
    bucket: base.bucket,
    hosts: leaving && {
      ...leaving,
      // The telemetry of an app that has moved away stays on this host, where people can still look at it.
      ended: (id) => {
        services.forget(id);
        alerts.forget(id);
      },
    },
    paths,
    workerd: base.workerd,
    users,
    baseDomain: config.RUNNER_BASE_DOMAIN,
    uiUrl: () => (isLocal(config.RUNNER_BASE_DOMAIN) ? (base.known.addresses?.ui ?? null) : null),
    idleMs: config.RUNNER_FLEET_IDLE_EVICT_S * 1000 || Number.POSITIVE_INFINITY,
    memoryMb: config.RUNNER_CELL_MAX_MB,
    cpuMaxMs: config.RUNNER_CELL_CPU_MAX_S * 1000,
    cacheMb: config.RUNNER_FLEET_ASSET_CACHE_MB,
    timesCalls: config.RUNNER_TRACE_CALLS === 'on',
    cronSeconds: config.RUNNER_CRON_SECONDS === 'on',
    slots,
    memory,
    secrets,
    buckets,
    services: (id) => services.access(id),
    outward,
    egress: config.RUNNER_EGRESS_ALLOW,
    wakes,
    output: (id, deployId) => telemetry.outputOf(id, deployId),
    say: (id, level, text) => say('supervisor', id, level, text),
    onFailure: (id, failure, isOfDeploy) => {
      telemetry.failed(id, { at: Date.now(), ...failure });
      // A failed deploy has an alert of its own.
      if (!isOfDeploy) alerts.reportCrash(id, failure);
    },
    onFacts,
    onRestored,
    onUsage: (id, usage) => telemetry.usage(id, usage),
    onNamed: (id, slug) => telemetry.name(id, slug),
    onDeleted: (id) => {
      services.forget(id);
      telemetry.forget(id);
    },
  });
  const readers = new StorageReaders();
  const storageQueries = new StorageQueries({ store, paths, apps, users, readers });
  const storage = new StorageLimits({
    held: store.held,
    maxMb: config.RUNNER_APP_MAX_MB,
    disk,
    apps: () => apps.storages(),
  });
  const place = storePlace(config, paths);
  const snapshots = new Snapshots({
    store,
    paths,
    place,
    bucket: bucketPlace(config),
    keep: {
      count: config.RUNNER_SNAPSHOT_KEEP,
      hourly: config.RUNNER_SNAPSHOT_HOURLY,
      days: config.RUNNER_SNAPSHOT_KEEP_DAYS,
      youngMs: 's3' in place ? DAY_MS : 0,
    },
    floorMb: config.RUNNER_DISK_FLOOR_MB,
    everyMs: config.RUNNER_SNAPSHOT_EVERY_H * HOUR_MS || null,
    hourly: config.RUNNER_SNAPSHOT_HOURLY > 0 ? { everyMs: HOUR_MS, hasRoom: () => !disk.short } : null,
    verifyMs: config.RUNNER_SNAPSHOT_VERIFY_H * HOUR_MS || null,
    hasUsers,
    holdBuckets: (appId, isHeld) => buckets.hold(appId, isHeld),
    hosts: hosts && hostsOfSnapshots(base, apps, hosts),
    onDamaged: (damaged) => alerts.reportSnapshots(damaged),
    onTaken: (failed) =>
      alerts.reportSnapshot((appId) =>
        failed instanceof Error ? failed.message : (failed.find(({ app }) => app === appId)?.error ?? null),
      ),
  });
  const checks = new Checks({
    alerts,
    minutes: async (appId) => (await telemetry.ask('metrics', { appId, hours: 1 })).items,
    memoryMb: (appId) => config.RUNNER_CELL_MAX_MB * Math.max(1, apps.processes(appId)),
    lastRequestAt: (appId) => {
      const app = apps.get(appId);
      return app === undefined || app.wanted.desired_state === 'stopped' ? null : app.lastRequestAt;
    },
    // To read the queues of an app in the bucket, its process must run. Each reading would keep the process from going idle.
    backlogs: async (appId) =>
      apps.processes(appId) === 0 || apps.clusterOf(appId) !== null ? null : storageQueries.queues({ appId }),
  });
  const moves = new Moves({
    ...{ store, paths, apps, snapshots, users, buckets, bucket: base.bucket, place: bucketPlace(config) },
    ...{ workerd: base.workerd, memoryMb: config.RUNNER_CELL_MAX_MB, floorMb: config.RUNNER_DISK_FLOOR_MB },
  });
  return {
    apps,
    depths,
    moves,
    slots,
    wakes,
    memory,
    buckets,
    outward,
    incomingMail,
    incomingTcp,
    readers,
    storageQueries,
    storage,
    snapshots,
    checks,
  };
}

function hostsOfSnapshots({ config }: Base, apps: Apps, { homes }: Hosts): SnapshotsHosts {
  const { self } = homes;
  const leases = { store: smallObjects(bucketPlace(config)!), self };
  return {
    self,
    leases: { take: new HostLease('snapshot', leases), verify: new HostLease('verification', leases) },
    hasLocal: () => apps.hasLocal,
    leftOut: () => homes.localElsewhere(),
  };
}
