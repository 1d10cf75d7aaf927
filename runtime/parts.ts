// The parts of a host, each made with what it needs of the others. Nothing runs yet: `host.ts` starts and ends them.
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { openHostStore } from '../sqlite/host/index.ts';
import type { Addresses } from './addresses.ts';
import { type AlertedApp, Alerts } from './alerts/alerts.ts';
import { Deliveries } from './alerts/deliveries.ts';
import { ErrorRates } from './alerts/error-rate.ts';
import { Apps } from './apps/apps.ts';
import { OutwardServices } from './apps/outward-services.ts';
import { Secrets } from './apps/secrets.ts';
import { Services } from './apps/services.ts';
import { FLEET_HEALTH, sites } from './apps/sites.ts';
import { StorageLimits } from './apps/storage-limits.ts';
import { openBundler } from './builds/build.ts';
import { Imports } from './builds/import.ts';
import { MissedDeploys } from './builds/missed-pushes.ts';
import { DeployQueue } from './builds/queue.ts';
import { hasDisk } from './builds/size.ts';
import { type Config, isLocal } from './config.ts';
import { Control } from './control/control-plane.ts';
import { hostService } from './control/host-service.ts';
import { LiveStreams } from './control/live-streams.ts';
import { Outbox } from './control/outbox.ts';
import { pushes } from './control/pushes.ts';
import { Rounds } from './control/rounds.ts';
import { controlSocket } from './control/runtime-program.ts';
import { accessLine } from './edge/access-line.ts';
import { AccessLog } from './edge/access-log.ts';
import { Caddy, findCaddy } from './edge/caddy/caddy.ts';
import { DomainChecks } from './edge/domain-checks.ts';
import { Gateway } from './edge/gateway.ts';
import { Geo } from './edge/geo.ts';
import { letGoWhenCopied } from './fleets/copied.ts';
import { MemoryGauge } from './fleets/memory.ts';
import { Slots } from './fleets/slots.ts';
import { workerdPath } from './fleets/start-cell.ts';
import { throwTrialsAway } from './fleets/trial.ts';
import { WakeFigures } from './fleets/wake-figures.ts';
import { BranchChanges } from './git/branch-changes.ts';
import { writeHooks } from './git/repository.ts';
import type { Level } from './log.ts';
import { claim, keptSecret, type Layout, layout } from './machine/data-directory.ts';
import { DiskWatch } from './machine/disk-watch.ts';
import { endLeftovers } from './machine/leftovers.ts';
import { LoopDelay } from './machine/loop-delay.ts';
import { PublicAddresses } from './machine/private-networks.ts';
import { allUids, appUsers } from './machine/users.ts';
import { Walls } from './machine/walls.ts';
import { appSenders } from './mail/addresses.ts';
import { Mailer } from './mail/mail.ts';
import { copyIntoPreview } from './previews/copied-storage.ts';
import { Previews } from './previews/previews.ts';
import { requireRoom } from './refusal.ts';
import { finishMoves } from './snapshots/moves.ts';
import { storePlace } from './snapshots/place.ts';
import { Snapshots } from './snapshots/snapshots.ts';
import { Looking } from './storage/looking.ts';
import { Buckets } from './storage/r2/buckets.ts';
import { StorageReaders } from './storage/reading.ts';
import { LogFilter } from './telemetry/log-filter.ts';
import type { Source } from './telemetry/log-lines.ts';
import { Telemetry } from './telemetry/telemetry.ts';
import { Ui } from './ui/ui.ts';
import { Uploads } from './uploads/uploads.ts';
import { controlVariables, uiVariables } from './variables.ts';

const DAY_MS = 24 * 3_600_000;

/** What `assemble` makes. */
export type Parts = ReturnType<typeof assemble>;

/**
 * Claims the data directory, opens what is in it, and makes all parts of a host.
 * @throws {Error} when another host has the directory, a newer Cellar wrote it, or Caddy is wanted and missing
 */
export function assemble(config: Config) {
  const paths = layout(config.RUNNER_DATA_DIR);
  /** Known when the ports are. */
  const known: { addresses: Addresses | null } = { addresses: null };
  const readers = new StorageReaders();
  const loopDelay = new LoopDelay();
  /** Proves the host to the control plane and the control UI; new at each boot. */
  const secret = randomBytes(32).toString('base64url');
  const caddy =
    config.RUNNER_EDGE === 'caddy'
      ? new Caddy(findCaddy(), paths.caddy, (hostname, error) => {
          const app = apps.resolve(hostname)?.site;
          if (app !== undefined) alerts.tellOfCertificate(app, hostname, error);
        })
      : null;
  const { release, disk, token, store } = openDataDirectory(config, paths);
  const telemetry = new Telemetry(
    {
      directory: paths.telemetry,
      retentionDays: config.RUNNER_TELEMETRY_RETENTION_DAYS,
      otlp:
        config.OTEL_EXPORTER_OTLP_ENDPOINT === ''
          ? null
          : { endpoint: config.OTEL_EXPORTER_OTLP_ENDPOINT, headers: config.OTEL_EXPORTER_OTLP_HEADERS },
      fleetLog: config.RUNNER_FLEET_LOG,
      releases: paths.allReleases,
    },
    (groups) => {
      for (const group of groups) alerts.tellOfError(group);
    },
  );
  const words = LogFilter.parse(config.RUNNER_FLEET_LOG);
  const say = (source: Source, appId: string, level: Level, text: string, deployId: string | null = null) => {
    if (words.passes(source, level)) telemetry.say(appId, { at: Date.now(), source, level, text, deployId });
  };
  const slots = new Slots(config.RUNNER_WAKE_CONCURRENCY, config.RUNNER_WAKE_TIMEOUT_S * 1000);
  const wakes = new WakeFigures();
  const outbox = new Outbox(store.outbox, (events) => control.call('/internal/host-events', events));
  const alerts = new Alerts({
    store,
    key: keptSecret(paths.alertKey),
    describe: described,
  });
  const errorRates = new ErrorRates({
    alerts,
    minutes: async (appId) => (await telemetry.ask('metrics', { appId, hours: 1 })).items,
  });
  const reachable = new PublicAddresses(config.RUNNER_EGRESS_ALLOW);
  const deliveries = new Deliveries({
    alerts,
    queries: store.alerts,
    reachable,
  });
  const secrets = new Secrets(store, keptSecret(paths.secretsKey));
  const onFacts = () => outbox.notify();
  const workerd = workerdPath();
  const users = appUsers(paths, store.buildUsers, workerd);
  const walls = new Walls(paths.machineName, config.RUNNER_CELL_MAX_MB);
  const wakeTimeoutMs = config.RUNNER_WAKE_TIMEOUT_S * 1000;
  const memory = new MemoryGauge(config.RUNNER_FLEET_MAX_RSS_MB, config.RUNNER_CELL_MAX_MB);
  const buckets = new Buckets({
    paths,
    users,
    service: { maxMb: config.RUNNER_APP_MAX_MB, floorMb: config.RUNNER_DISK_FLOOR_MB },
  });
  const outward = new OutwardServices({
    paths,
    users,
    ai:
      config.RUNNER_AI_URL === ''
        ? null
        : { url: config.RUNNER_AI_URL, key: config.RUNNER_AI_KEY, models: config.RUNNER_AI_MODELS },
    mail: config.RUNNER_SMTP_URL && {
      server: config.RUNNER_SMTP_URL,
      senders: appSenders(config.RUNNER_SMTP_FROM, config.RUNNER_SMTP_APP_SENDERS),
    },
  });
  const services = new Services({
    paths,
    users,
    baseDomain: config.RUNNER_BASE_DOMAIN,
    gateway: () => edge,
    apps: () => apps,
  });
  const apps = new Apps({
    store,
    paths,
    workerd,
    users,
    baseDomain: config.RUNNER_BASE_DOMAIN,
    uiUrl: () => (isLocal(config.RUNNER_BASE_DOMAIN) ? (known.addresses?.ui ?? null) : null),
    idleMs: config.RUNNER_FLEET_IDLE_EVICT_S * 1000 || Number.POSITIVE_INFINITY,
    memoryMb: config.RUNNER_CELL_MAX_MB,
    cacheMb: config.RUNNER_FLEET_ASSET_CACHE_MB,
    slots,
    memory,
    secrets,
    buckets,
    services: (id) => services.access(id),
    outward,
    egress: config.RUNNER_EGRESS_ALLOW,
    wakes,
    wake: (id) => control.wake(id, wakeTimeoutMs),
    output: (id, deployId) => telemetry.outputOf(id, deployId),
    say: (id, level, text) => say('supervisor', id, level, text),
    onFailure: (id, failure) => telemetry.failed(id, { at: Date.now(), ...failure }),
    onFacts,
    onUsage: (id, usage) => telemetry.usage(id, usage),
    onNamed: (id, slug) => telemetry.name(id, slug),
    onDeleted: (id) => {
      services.forget(id);
      telemetry.forget(id);
    },
  });
  const looking = new Looking({
    store,
    paths,
    apps,
    users,
    readers,
  });
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
    keep: {
      count: config.RUNNER_SNAPSHOT_KEEP,
      days: config.RUNNER_SNAPSHOT_KEEP_DAYS,
      youngMs: 's3' in place ? DAY_MS : 0,
    },
    everyMs: config.RUNNER_SNAPSHOT_EVERY_H * 3_600_000 || null,
    hasUsers: () => store.apps.all().some(({ wanted }) => users(wanted.id).cell !== null),
  });
  const buildLimits = {
    stepTimeoutMs: config.RUNNER_BUILD_TIMEOUT_S * 1000,
    worktreeMb: config.RUNNER_BUILD_MAX_MB,
    cacheMb: config.RUNNER_BUILD_CACHE_MB,
    floorMb: config.RUNNER_DISK_FLOOR_MB,
    memoryMb: config.RUNNER_BUILD_MEMORY_MB,
  };
  const copying = {
    store,
    paths,
    apps,
    snapshots,
    users,
    sizeOf: (appId: string) => storage.sizeOf(appId),
    limits: { maxMb: config.RUNNER_APP_MAX_MB, floorMb: config.RUNNER_DISK_FLOOR_MB },
  };
  const queue = new DeployQueue({
    store,
    paths,
    apps,
    secrets,
    limits: buildLimits,
    users,
    walls,
    say: (appId, deployId, level, text) => say('build', appId, level, text, deployId),
    snapshot: async (appId) => {
      requireRoom(disk);
      if (apps.originOf(appId) !== appId) throw new Error('previews are not in snapshots');
      return snapshots.takeForClasses(appId, apps.get(appId)?.wanted.slug ?? appId);
    },
    copyIntoPreview: (appId, log, signal) => copyIntoPreview(copying, appId, log, signal),
    onFacts,
  });
  const uploads = new Uploads({
    paths,
    store,
    apps,
    secrets,
    assetsMb: config.RUNNER_BUILD_MAX_MB,
  });
  const previews = new Previews({
    store,
    paths,
    apps,
    queue,
  });
  const changes = new BranchChanges();
  const missed = new MissedDeploys({
    store,
    paths,
    queue,
    changes,
    paused: () => disk.short,
    hasRoom: () => hasDisk(paths.root, config.RUNNER_BUILD_MAX_MB, config.RUNNER_DISK_FLOOR_MB),
    everyMs: config.RUNNER_FLEET_DEPLOY_POLL_S * 1000,
  });
  const mailer = new Mailer(config.RUNNER_SMTP_URL, config.RUNNER_SMTP_FROM);
  const control = new Control({
    directory: paths.control,
    bundles: paths.compiled,
    workerd,
    secret,
    onRestart: () => void rounds.reconcile(),
    variables: () => controlVariables(config, known.addresses!, token),
    host: hostService({
      secret,
      store,
      paths,
      disk,
      apps,
      secrets,
      looking,
      queue,
      imports: new Imports({ paths, walls, limits: buildLimits, reachable }),
      mailer,
      loopDelay,
      telemetry,
      streams: new LiveStreams(),
      memory,
      slots,
      wakes,
      controlPlane: () => ({ answers: control.answers, restarts: control.restarts }),
      changes,
      uploads,
      previews,
      outbox,
      alerts,
      deliveries,
      snapshots,
      storageLimits: storage,
      domains: new DomainChecks({
        baseDomain: config.RUNNER_BASE_DOMAIN,
        certificates: caddy && paths.caddy,
      }),
      users,
      buckets,
      storageNames: (appId) => store.apps.storageNames(appId),
      controlUi: { url: config.RUNNER_UI_URL, token },
      onPush: pushes({
        apps,
        queue,
        previews,
        outbox,
        urlOf: (slug) => known.addresses!.app.replace('{slug}', slug),
      }),
    }),
  });
  const ui =
    config.RUNNER_UI_URL === ''
      ? new Ui({
          directory: paths.ui,
          storage: paths.signIn,
          apiSocket: controlSocket(paths.control),
          workerd,
          variables: () =>
            uiVariables(config, known.addresses!, {
              token,
              secret,
              signIn: keptSecret(paths.signInKey),
            }),
        })
      : null;
  const rounds = new Rounds({
    control,
    trash: paths.trash,
    tick,
    listApps: () => apps.observeAll(),
    sweepEveryMs: config.RUNNER_SLEEP_AFTER_H === 0 ? null : config.RUNNER_SLEEP_SWEEP_S * 1000,
  });
  const resolve = sites({
    baseDomain: config.RUNNER_BASE_DOMAIN,
    control,
    ui: ui ?? config.RUNNER_UI_URL,
    apps,
    failing,
    limits: {
      clientRpm: config.SERVICE_EDGE_RPM,
      gitRpm: config.SERVICE_EDGE_GIT_RPM,
      appRpm: config.SERVICE_EDGE_APP_RPM,
    },
  });
  const trustedProxies = config.RUNNER_TRUSTED_PROXIES;
  const api = new Gateway({ resolve: resolve.api, trustedProxies, holdTimeoutMs: wakeTimeoutMs });
  const accessLog = new AccessLog(paths.accessLog);
  const geo = new Geo(config.RUNNER_GEOIP_DB);
  const edge = new Gateway({
    resolve: resolve.edge,
    locate: (address) => geo.locate(address),
    trustedProxies,
    holdTimeoutMs: wakeTimeoutMs,
  });
  edge.onEnd((record) => {
    accessLog.write(accessLine(record));
    if (apps.get(record.site) && record.path !== FLEET_HEALTH) telemetry.record(record);
  });

  /** About once a second. */
  function tick(): void {
    void memory.sample();
    apps.tick();
    previews.tick();
    alerts.lookAtDisk(disk.shortage);
    errorRates.tick();
    deliveries.tick();
  }

  /** An app as alerts show it. */
  function described(appId: string): AlertedApp | null {
    const app = apps.get(appId);
    if (app === undefined) return null;
    const { slug } = app.wanted;
    return { id: appId, slug, url: known.addresses?.app.replace('{slug}', slug) ?? null };
  }

  /** What `/ready` says is not well. */
  function failing(): string[] {
    const failing = control.answers ? [] : ['control plane'];
    if (disk.short) failing.push('disk');
    if (caddy && caddy.problem !== null) failing.push('caddy');
    if (outbox.refused.length > 0) failing.push('outbox');
    return failing;
  }

  return {
    accessLog,
    api,
    apps,
    buckets,
    caddy,
    control,
    deliveries,
    disk,
    edge,
    geo,
    known,
    loopDelay,
    mailer,
    missed,
    outbox,
    outward,
    paths,
    previews,
    queue,
    readers,
    release,
    rounds,
    snapshots,
    storage,
    store,
    telemetry,
    ui,
    users,
    walls,
  };
}

/** Claims the data directory, ends and removes what a killed host left in it, and opens the host's own facts. */
function openDataDirectory(config: Config, paths: Layout) {
  const release = claim(paths);
  finishMoves(paths.restoring);
  // Before anything is written.
  const disk = new DiskWatch({
    directory: paths.root,
    ballast: paths.ballast,
    floorMb: config.RUNNER_DISK_FLOOR_MB,
  });
  const token = config.RUNNER_TOKEN || keptSecret(paths.token);
  keptSecret(paths.apiKey, 'cellar_');
  keptSecret(paths.signInKey);
  writeHooks(paths.hooks);
  const store = openHostStore(paths.database);
  letGoWhenCopied(paths, store.buildUsers);
  endLeftovers(paths.builds, allUids(store.buildUsers));
  rmSync(paths.builds, { recursive: true, force: true });
  mkdirSync(paths.builds, { mode: 0o700 });
  openBundler(paths.compiled);
  throwTrialsAway(paths);
  return { release, disk, token, store };
}
