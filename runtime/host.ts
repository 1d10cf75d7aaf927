// The host: puts the parts together, in the order that lets apps serve first, and takes them apart again.
import { createHmac, randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { HostEvents } from '../handlers/contract/host-calls.ts';
import { type HostStore, openHostStore } from '../sqlite/host/index.ts';
import { type Addresses, addresses } from './addresses.ts';
import { Ai } from './ai/ai.ts';
import { type AlertedApp, Alerts } from './alerts/alerts.ts';
import { Deliveries } from './alerts/deliveries.ts';
import { ErrorRates } from './alerts/error-rate.ts';
import { Apps } from './apps/apps.ts';
import { Secrets } from './apps/secrets.ts';
import { Services } from './apps/services.ts';
import { FLEET_HEALTH, sites } from './apps/sites.ts';
import { StorageLimits } from './apps/storage-limits.ts';
import { closeBundler, openBundler } from './builds/build.ts';
import { dropCachesUntil } from './builds/cache.ts';
import { Imports } from './builds/import.ts';
import { MissedDeploys } from './builds/missed-pushes.ts';
import { registryEndpoints } from './builds/network-settings.ts';
import { pushes } from './builds/pushes.ts';
import { DeployQueue } from './builds/queue.ts';
import { hasDisk } from './builds/size.ts';
import { Closing, within } from './closing.ts';
import { type Config, isLocal } from './config.ts';
import { Control, ControlError } from './control/control-plane.ts';
import { hostService } from './control/host-service.ts';
import { LiveStreams } from './control/live-streams.ts';
import { Outbox } from './control/outbox.ts';
import { requireRoom } from './control/refusal.ts';
import { Rounds } from './control/rounds.ts';
import { controlSocket } from './control/runtime-program.ts';
import { accessLine } from './edge/access-line.ts';
import { AccessLog } from './edge/access-log.ts';
import { Caddy, findCaddy } from './edge/caddy/caddy.ts';
import { startInFront } from './edge/caddy/front.ts';
import { DomainChecks } from './edge/domain-checks.ts';
import { Gateway } from './edge/gateway.ts';
import { Geo } from './edge/geo.ts';
import { spares, workerdPath } from './fleets/cell.ts';
import { MemoryGauge } from './fleets/memory.ts';
import { Slots } from './fleets/slots.ts';
import { throwTrialsAway } from './fleets/trial.ts';
import { WakeFigures } from './fleets/wake-figures.ts';
import { BranchChanges } from './git/branch-changes.ts';
import { writeHooks } from './git/repository.ts';
import { type Level, log, reason } from './log.ts';
import { letGoWhenCopied } from './machine/copied.ts';
import { claim, keptSecret, type Layout, layout } from './machine/data-directory.ts';
import { DiskWatch } from './machine/disk-watch.ts';
import { endLeftovers } from './machine/leftovers.ts';
import { LoopDelay } from './machine/loop-delay.ts';
import { PublicAddresses } from './machine/private-networks.ts';
import { emptyTrashUntil } from './machine/trash.ts';
import { type AppUsers, allUids, appUsers } from './machine/users.ts';
import { Walls } from './machine/walls.ts';
import { threads } from './machine/worker.ts';
import { Mailer } from './mail/mail.ts';
import { copyIntoPreview } from './previews/copied-storage.ts';
import { Previews } from './previews/previews.ts';
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

/** What is left of the time for an end when the last requests are cut: processes and databases need some of it. */
const RESERVE_MS = 3_000;
const DAY_MS = 24 * 3_600_000;
const CONTROL_RETRY_MIN_MS = 1_000;
const CONTROL_RETRY_MAX_MS = 30_000;
/** Room on the disk that the control plane needs to start, in MiB. */
const CONTROL_MB = 4;
/** Caddy stays so long while the edge drains: until WebSockets are closed. */
const CADDY_STAYS_MS = 1_500;

const VERSION: string = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version;

/** What can be loaded again while apps run. */
export type Reload = 'control' | 'ui';

/** A running Cellar. */
export class Host {
  readonly config: Config;
  readonly paths: Layout;
  readonly #release: () => void;
  readonly #store: HostStore;
  readonly #users: (appId: string) => AppUsers;
  readonly #walls: Walls;
  readonly #buckets: Buckets;
  readonly #ai: Ai;
  readonly #readers = new StorageReaders();
  readonly #apps: Apps;
  readonly #queue: DeployQueue;
  readonly #missed: MissedDeploys;
  readonly #previews: Previews;
  readonly #alerts: Alerts;
  readonly #deliveries: Deliveries;
  readonly #errorRates: ErrorRates;
  readonly #outbox: Outbox;
  readonly #control: Control;
  /** Null when another control UI than Cellar's own is used. */
  readonly #mailer: Mailer;
  readonly #ui: Ui | null;
  readonly #api: Gateway;
  readonly #edge: Gateway;
  readonly #geo: Geo;
  readonly #accessLog: AccessLog;
  readonly #telemetry: Telemetry;
  /** In front of the edge, or null when the edge is reached directly. */
  readonly #caddy: Caddy | null;
  readonly #secret = randomBytes(32).toString('base64url');
  readonly #token: string;
  #addresses: Addresses | null = null;
  #welcome: string | null = null;
  readonly #disk: DiskWatch;
  readonly #storage: StorageLimits;
  readonly #memory: MemoryGauge;
  readonly #loopDelay = new LoopDelay();
  readonly #rounds: Rounds;
  readonly #snapshots: Snapshots;
  readonly #closing = new AbortController();
  #closed: Promise<void> | null = null;

  /**
   * Claims the data directory and opens what is in it. Nothing runs yet.
   * @throws {Error} when another host has the directory, a newer Cellar wrote it, or Caddy is wanted and missing
   */
  constructor(config: Config) {
    this.config = config;
    this.paths = layout(config.RUNNER_DATA_DIR);
    this.#caddy =
      config.RUNNER_EDGE === 'caddy'
        ? new Caddy(findCaddy(), this.paths.caddy, (hostname, error) => {
            const app = this.#apps.resolve(hostname)?.site;
            if (app !== undefined) this.#alerts.tellOfCertificate(app, hostname, error);
          })
        : null;
    this.#release = claim(this.paths);
    finishMoves(this.paths.restoring);
    // Before anything is written.
    this.#disk = new DiskWatch({
      directory: this.paths.root,
      ballast: this.paths.ballast,
      floorMb: config.RUNNER_DISK_FLOOR_MB,
    });
    this.#token = config.RUNNER_TOKEN || keptSecret(this.paths.token);
    keptSecret(this.paths.apiKey, 'cellar_');
    keptSecret(this.paths.signInKey);
    writeHooks(this.paths.hooks);
    this.#store = openHostStore(this.paths.database);
    letGoWhenCopied(this.paths, this.#store.buildUsers);
    endLeftovers(this.paths.builds, allUids(this.#store.buildUsers));
    rmSync(this.paths.builds, { recursive: true, force: true });
    mkdirSync(this.paths.builds, { mode: 0o700 });
    // Node's own variable says where the host keeps what it compiles, and so where its bundler does.
    openBundler(process.env.NODE_COMPILE_CACHE ?? this.paths.compiled);
    throwTrialsAway(this.paths);

    this.#telemetry = new Telemetry(
      {
        directory: this.paths.telemetry,
        retentionDays: config.RUNNER_TELEMETRY_RETENTION_DAYS,
        otlp:
          config.OTEL_EXPORTER_OTLP_ENDPOINT === ''
            ? null
            : { endpoint: config.OTEL_EXPORTER_OTLP_ENDPOINT, headers: config.OTEL_EXPORTER_OTLP_HEADERS },
        fleetLog: config.RUNNER_FLEET_LOG,
        releases: this.paths.allReleases,
      },
      (groups) => {
        for (const group of groups) this.#alerts.tellOfError(group);
      },
    );
    const words = LogFilter.parse(config.RUNNER_FLEET_LOG);
    const say = (
      source: Source,
      appId: string,
      level: Level,
      text: string,
      deployId: string | null = null,
    ) => {
      if (words.passes(source, level))
        this.#telemetry.say(appId, { at: Date.now(), source, level, text, deployId });
    };
    const slots = new Slots(config.RUNNER_WAKE_CONCURRENCY, config.RUNNER_WAKE_TIMEOUT_S * 1000);
    const wakes = new WakeFigures();
    this.#outbox = new Outbox(this.#store.outbox, (events) => this.#deliver(events));
    this.#alerts = new Alerts({
      store: this.#store,
      key: keptSecret(this.paths.alertKey),
      describe: (appId) => this.#described(appId),
    });
    this.#errorRates = new ErrorRates({
      alerts: this.#alerts,
      minutes: async (appId) => (await this.#telemetry.ask('metrics', { appId, hours: 1 })).items,
    });
    const reachable = new PublicAddresses(config.RUNNER_EGRESS_ALLOW);
    this.#deliveries = new Deliveries({
      alerts: this.#alerts,
      queries: this.#store.alerts,
      reachable,
    });
    const secrets = new Secrets(this.#store, keptSecret(this.paths.secretsKey));
    const onFacts = () => this.#outbox.notify();
    const workerd = workerdPath();
    this.#users = appUsers(this.paths, this.#store.buildUsers, workerd);
    this.#walls = new Walls(this.paths.machineName);
    const wakeTimeoutMs = config.RUNNER_WAKE_TIMEOUT_S * 1000;
    this.#memory = new MemoryGauge(config.RUNNER_FLEET_MAX_RSS_MB, config.RUNNER_CELL_MAX_MB);
    this.#buckets = new Buckets({
      paths: this.paths,
      users: this.#users,
      service: { maxMb: config.RUNNER_APP_MAX_MB, floorMb: config.RUNNER_DISK_FLOOR_MB },
    });
    this.#ai = new Ai({
      paths: this.paths,
      users: this.#users,
      server: {
        url: config.RUNNER_AI_URL,
        key: config.RUNNER_AI_KEY,
        models: config.RUNNER_AI_MODELS,
      },
    });
    const services = new Services({
      paths: this.paths,
      users: this.#users,
      baseDomain: config.RUNNER_BASE_DOMAIN,
      gateway: () => this.#edge,
      apps: () => this.#apps,
    });
    this.#apps = new Apps({
      store: this.#store,
      paths: this.paths,
      workerd,
      users: this.#users,
      baseDomain: config.RUNNER_BASE_DOMAIN,
      uiUrl: () => (isLocal(config.RUNNER_BASE_DOMAIN) ? (this.#addresses?.ui ?? null) : null),
      idleMs: config.RUNNER_FLEET_IDLE_EVICT_S * 1000 || Number.POSITIVE_INFINITY,
      memoryMb: config.RUNNER_CELL_MAX_MB,
      cacheMb: config.RUNNER_FLEET_ASSET_CACHE_MB,
      slots,
      memory: this.#memory,
      secrets,
      buckets: this.#buckets,
      services: (id) => services.access(id),
      ai: this.#ai,
      egress: config.RUNNER_EGRESS_ALLOW,
      wakes,
      wake: (id) => this.#control.wake(id, wakeTimeoutMs),
      output: (id, deployId) => this.#telemetry.outputOf(id, deployId),
      say: (id, level, text) => say('supervisor', id, level, text),
      onFailure: (id, failure) => this.#telemetry.failed(id, { at: Date.now(), ...failure }),
      onFacts,
      onUsage: (id, usage) => this.#telemetry.usage(id, usage),
      onNamed: (id, slug) => this.#telemetry.name(id, slug),
      onDeleted: (id) => {
        services.forget(id);
        this.#telemetry.forget(id);
      },
    });
    const looking = new Looking({
      store: this.#store,
      paths: this.paths,
      apps: this.#apps,
      users: this.#users,
      readers: this.#readers,
    });
    this.#storage = new StorageLimits({
      held: this.#store.held,
      maxMb: config.RUNNER_APP_MAX_MB,
      disk: this.#disk,
      apps: () => this.#apps.storages(),
    });
    const place = storePlace(config, this.paths);
    this.#snapshots = new Snapshots({
      store: this.#store,
      paths: this.paths,
      place,
      keep: {
        count: config.RUNNER_SNAPSHOT_KEEP,
        days: config.RUNNER_SNAPSHOT_KEEP_DAYS,
        youngMs: 's3' in place ? DAY_MS : 0,
      },
      everyMs: config.RUNNER_SNAPSHOT_EVERY_H * 3_600_000 || null,
      hasUsers: () => this.#store.apps.all().some(({ wanted }) => this.#users(wanted.id).cell !== null),
    });
    const buildLimits = {
      stepTimeoutMs: config.RUNNER_BUILD_TIMEOUT_S * 1000,
      worktreeMb: config.RUNNER_BUILD_MAX_MB,
      cacheMb: config.RUNNER_BUILD_CACHE_MB,
      floorMb: config.RUNNER_DISK_FLOOR_MB,
      memoryMb: config.RUNNER_BUILD_MEMORY_MB,
    };
    const copying = {
      store: this.#store,
      paths: this.paths,
      apps: this.#apps,
      snapshots: this.#snapshots,
      users: this.#users,
      sizeOf: (appId: string) => this.#storage.sizeOf(appId),
      limits: { maxMb: config.RUNNER_APP_MAX_MB, floorMb: config.RUNNER_DISK_FLOOR_MB },
    };
    this.#queue = new DeployQueue({
      store: this.#store,
      paths: this.paths,
      apps: this.#apps,
      secrets,
      limits: buildLimits,
      users: this.#users,
      walls: this.#walls,
      say: (appId, deployId, level, text) => say('build', appId, level, text, deployId),
      snapshot: async (appId) => {
        requireRoom(this.#disk);
        if (this.#apps.originOf(appId) !== appId) throw new Error('previews are not in snapshots');
        return this.#snapshots.takeForClasses(appId, this.#apps.get(appId)?.wanted.slug ?? appId);
      },
      copyIntoPreview: (appId, log, signal) => copyIntoPreview(copying, appId, log, signal),
      onFacts,
    });
    const uploads = new Uploads({
      paths: this.paths,
      store: this.#store,
      apps: this.#apps,
      secrets,
      assetsMb: config.RUNNER_BUILD_MAX_MB,
    });
    this.#previews = new Previews({
      store: this.#store,
      paths: this.paths,
      apps: this.#apps,
      queue: this.#queue,
    });
    const changes = new BranchChanges();
    this.#missed = new MissedDeploys({
      store: this.#store,
      paths: this.paths,
      queue: this.#queue,
      changes,
      paused: () => this.#disk.short,
      hasRoom: () => hasDisk(this.paths.root, config.RUNNER_BUILD_MAX_MB, config.RUNNER_DISK_FLOOR_MB),
      everyMs: config.RUNNER_FLEET_DEPLOY_POLL_S * 1000,
    });
    this.#mailer = new Mailer(config.RUNNER_SMTP_URL, config.RUNNER_SMTP_FROM);
    this.#control = new Control({
      directory: this.paths.control,
      workerd,
      secret: this.#secret,
      onRestart: () => void this.#rounds.reconcile(),
      variables: () => this.#controlVariables(),
      host: hostService({
        secret: this.#secret,
        store: this.#store,
        paths: this.paths,
        disk: this.#disk,
        apps: this.#apps,
        secrets,
        looking,
        queue: this.#queue,
        imports: new Imports({ paths: this.paths, walls: this.#walls, limits: buildLimits, reachable }),
        mailer: this.#mailer,
        loopDelay: this.#loopDelay,
        telemetry: this.#telemetry,
        streams: new LiveStreams(),
        memory: this.#memory,
        slots,
        wakes,
        controlPlane: () => ({ answers: this.#control.answers, restarts: this.#control.restarts }),
        changes,
        uploads,
        previews: this.#previews,
        outbox: this.#outbox,
        alerts: this.#alerts,
        deliveries: this.#deliveries,
        snapshots: this.#snapshots,
        storageLimits: this.#storage,
        domains: new DomainChecks({
          baseDomain: config.RUNNER_BASE_DOMAIN,
          certificates: this.#caddy && this.paths.caddy,
        }),
        users: this.#users,
        buckets: this.#buckets,
        storageNames: (appId) => this.#store.apps.storageNames(appId),
        controlUi: { url: config.RUNNER_UI_URL, token: this.#token },
        onPush: pushes({
          apps: this.#apps,
          queue: this.#queue,
          previews: this.#previews,
          outbox: this.#outbox,
          urlOf: (slug) => this.#addresses!.app.replace('{slug}', slug),
        }),
      }),
    });
    this.#ui =
      config.RUNNER_UI_URL === ''
        ? new Ui({
            directory: this.paths.ui,
            storage: this.paths.signIn,
            apiSocket: controlSocket(this.paths.control),
            workerd,
            variables: () => this.#uiVariables(),
          })
        : null;
    this.#rounds = new Rounds({
      control: this.#control,
      trash: this.paths.trash,
      tick: () => this.#tick(),
      listApps: () => this.#apps.observeAll(),
      sweepEveryMs: config.RUNNER_SLEEP_AFTER_H === 0 ? null : config.RUNNER_SLEEP_SWEEP_S * 1000,
    });
    const resolve = sites({
      baseDomain: config.RUNNER_BASE_DOMAIN,
      control: this.#control,
      ui: this.#ui ?? config.RUNNER_UI_URL,
      apps: this.#apps,
      failing: () => this.#failing(),
      limits: {
        clientRpm: config.SERVICE_EDGE_RPM,
        gitRpm: config.SERVICE_EDGE_GIT_RPM,
        appRpm: config.SERVICE_EDGE_APP_RPM,
      },
    });
    const trustedProxies = config.RUNNER_TRUSTED_PROXIES;
    this.#api = new Gateway({ resolve: resolve.api, trustedProxies, holdTimeoutMs: wakeTimeoutMs });
    this.#accessLog = new AccessLog(this.paths.accessLog);
    this.#geo = new Geo(config.RUNNER_GEOIP_DB);
    this.#edge = new Gateway({
      resolve: resolve.edge,
      locate: (address) => this.#geo.locate(address),
      trustedProxies,
      holdTimeoutMs: wakeTimeoutMs,
    });
    this.#edge.onEnd((record) => {
      this.#accessLog.write(accessLine(record));
      if (this.#apps.get(record.site) && record.path !== FLEET_HEALTH) this.#telemetry.record(record);
    });
  }

  /**
   * Starts everything: apps and edge first, then the control plane. Resolves when all of it serves.
   * @throws {Error} when a port is taken, or a newer Cellar has used the control plane's database. Close it then
   */
  async start(): Promise<Addresses> {
    this.#queue.interruptUnfinished();
    this.#telemetry.start();
    this.#telemetry.keepOnly(this.#apps.memories().map(({ id }) => id));
    await this.#geo.look();
    const { RUNNER_PORT, RUNNER_EDGE_PORT, RUNNER_BASE_DOMAIN } = this.config;
    const api = await this.#api.listen(RUNNER_PORT, '127.0.0.1');
    const host = isLocal(RUNNER_BASE_DOMAIN) ? '127.0.0.1' : '::';
    const edge = this.#caddy
      ? await startInFront(this.#caddy, {
          config: this.config,
          directory: this.paths.caddy,
          edge: this.#edge,
          api,
        })
      : await this.#edge.listen(RUNNER_EDGE_PORT, host);
    this.#addresses = addresses(this.config, { api, edge });
    this.#rounds.startTicking();
    this.#disk.start({ makeRoom: (enough) => this.#makeRoom(enough), onLook: () => this.#storage.look() });
    const users = this.#apps.memories().map(({ id }) => this.#users(id));
    const network = {
      egress: this.config.RUNNER_EGRESS_ALLOW,
      ownPorts: [api, edge],
    };
    await this.#walls.open(users, this.paths.builds, registryEndpoints, network);
    this.#buckets.warm();
    await this.#apps.resume();
    if (this.#closed) return this.#addresses;
    this.#missed.start();
    this.#previews.start();
    await this.#startControl();
    if (this.#closed) return this.#addresses;
    this.#outbox.open();
    await this.#rounds.start();
    spares.prepare();
    void this.#snapshots.start();
    return this.#addresses;
  }

  /** The link that makes whoever opens it first the admin; null when it was used. It is a secret. */
  get welcome(): string | null {
    return this.#welcome;
  }

  /**
   * Drains and ends everything within `RUNNER_DRAIN_S`; deploys are given up and taken up again at the next start.
   * Calling it again waits for the same end.
   * @throws what the first part that did not end in order threw; the others have ended
   */
  /** Loads the handlers or the control UI again from their sources, for who works on them. Apps run on. @throws {Error} why it cannot */
  async reload(what: Reload): Promise<void> {
    if (what === 'control') await this.#control.reload();
    else await this.#ui?.reload();
  }

  close(): Promise<void> {
    this.#closing.abort();
    const limitMs = this.config.RUNNER_DRAIN_S * 1000;
    this.#closed ??= within(limitMs, this.#close(limitMs));
    return this.#closed;
  }

  /**
   * Apps serve without the control plane, so a failure to start it is tried again, and shows in `/ready`.
   * @throws {ControlError} when a newer Cellar has used its database
   */
  async #startControl(): Promise<void> {
    for (let delay = CONTROL_RETRY_MIN_MS; !this.#closed; delay = Math.min(2 * delay, CONTROL_RETRY_MAX_MS)) {
      // On a full disk its process would die as soon as it starts, again and again.
      await this.#disk.room(CONTROL_MB, this.#closing.signal);
      if (this.#closed) return;
      try {
        const secret = welcomeSecret(keptSecret(this.paths.signInKey));
        const boot = { api_key: keptSecret(this.paths.apiKey), welcome: secret };
        const { welcome } = await this.#control.start(boot);
        if (welcome && this.#ui !== null) this.#welcome = `${this.#addresses!.ui}/welcome?token=${secret}`;
        return;
      } catch (error) {
        if (this.#closed) return;
        // Its database must be left as it is, and what the two planes say of each other would be wrong.
        if (error instanceof ControlError && error.code === 'newer_schema') throw error;
        log('error', 'the control plane does not start; apps serve on', {
          error: reason(error),
          retry_ms: delay,
        });
        await sleep(delay, undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    }
  }

  /** Trash goes first, the oldest first of all, then what builds have kept. */
  async #makeRoom(enough: () => Promise<boolean>): Promise<void> {
    await emptyTrashUntil(enough, this.paths.trash);
    await dropCachesUntil(enough, this.paths.caches, (appId) => this.#queue.isRunning(appId));
  }

  #tick(): void {
    void this.#memory.sample();
    this.#apps.tick();
    this.#previews.tick();
    this.#alerts.lookAtDisk(this.#disk.shortage);
    this.#errorRates.tick();
    this.#deliveries.tick();
  }

  async #close(limitMs: number): Promise<void> {
    const closing = new Closing();
    // These end by themselves, at the latest when what they ask has gone.
    const ending = [
      closing.step('deploys', () => this.#queue.close()),
      closing.step('rounds', () => this.#rounds.stop()),
      closing.step('snapshots', () => this.#snapshots.stop()),
      closing.step('disk watch', () => this.#disk.stop()),
      closing.step('storage limits', () => this.#storage.stop()),
      closing.step('missed deploys', () => this.#missed.stop()),
    ];
    this.#geo.close();
    await closing.step('edge', () => this.#drain(Math.max(limitMs / 2, limitMs - RESERVE_MS)));
    await closing.step('control UI', () => this.#ui?.close());
    await closing.step('access log', () => this.#accessLog.close());
    await closing.step('apps', () => this.#apps.close());
    await closing.step('spare processes', () => spares.close());
    await closing.step('telemetry', () => this.#telemetry.close());
    await closing.step('storage readers', () => this.#readers.close());
    await closing.step('buckets', () => this.#buckets.close());
    await closing.step('AI service', () => this.#ai.close());
    await closing.step('bundler', closeBundler);
    await closing.step('walls', () => this.#walls.close());
    await closing.step('threads', () => threads.close());
    await closing.step('loop delay', () => this.#loopDelay.stop());
    ending.push(closing.step('alerts', () => this.#deliveries.stop()));
    ending.push(closing.step('outbox', () => this.#outbox.stop()));
    await closing.step('e-mails', () => this.#mailer.stop());
    await closing.step('control plane', () => this.#control.stop());
    await Promise.all(ending);
    await closing.step('database', () => this.#store.close());
    await closing.step('data directory', this.#release);
    closing.throwFirst();
  }

  /** Takes no more requests, and lets those in flight end. */
  async #drain(graceMs: number): Promise<void> {
    const drained = Promise.all([this.#edge.close(graceMs), this.#api.close(graceMs)]);
    if (this.#caddy) {
      // Not at once: Caddy closes the WebSockets it carries with a code of its own.
      await Promise.race([drained, sleep(Math.min(CADDY_STAYS_MS, graceMs), undefined, { ref: false })]);
      await this.#caddy.stop();
    }
    await drained;
  }

  #controlVariables(): Record<string, string> {
    const { api, git, app, ui } = this.#addresses!;
    return {
      RUNNER_TOKEN: this.#token,
      PUBLIC_API_URL: api,
      PUBLIC_GIT_URL: git,
      PUBLIC_UI_URL: ui,
      PUBLIC_APP_URL: app,
      BASE_DOMAIN: this.config.RUNNER_BASE_DOMAIN,
      RUNNER_MAX_APPS_PER_USER: String(this.config.RUNNER_MAX_APPS_PER_USER),
      RUNNER_SLEEP_AFTER_H: String(this.config.RUNNER_SLEEP_AFTER_H),
      RUNNER_TELEMETRY_RETENTION_DAYS: String(this.config.RUNNER_TELEMETRY_RETENTION_DAYS),
      RUNNER_WAKE_TIMEOUT_S: String(this.config.RUNNER_WAKE_TIMEOUT_S),
      RUNNER_UI_URL: this.config.RUNNER_UI_URL,
      RUNNER_CORS_ORIGINS: this.config.RUNNER_CORS_ORIGINS.join(','),
      MAIL: this.config.RUNNER_SMTP_URL === null ? 'off' : 'on',
      RUNNER_PUSH_TO_CREATE:
        this.config.RUNNER_PUSH_TO_CREATE || (isLocal(this.config.RUNNER_BASE_DOMAIN) ? 'on' : 'off'),
      SERVICE_EDGE_RPM: String(this.config.SERVICE_EDGE_RPM),
      SERVICE_EDGE_APP_RPM: String(this.config.SERVICE_EDGE_APP_RPM),
    };
  }

  #uiVariables(): Record<string, string> {
    const { api, git, app, ui } = this.#addresses!;
    return {
      RUNNER_TOKEN: this.#token,
      HOST_SECRET: this.#secret,
      SIGN_IN_KEY: keptSecret(this.paths.signInKey),
      PUBLIC_UI_URL: ui,
      PUBLIC_API_URL: api,
      PUBLIC_GIT_URL: git,
      PUBLIC_APP_URL: app,
      MAIL: this.config.RUNNER_SMTP_URL === null ? 'off' : 'on',
      VERSION,
      SERVICE_RATE_LIMIT_RPM: String(this.config.SERVICE_RATE_LIMIT_RPM),
      SERVICE_AUTH_RATE_LIMIT: String(this.config.SERVICE_AUTH_RATE_LIMIT),
    };
  }

  /** An app as alerts show it. */
  #described(appId: string): AlertedApp | null {
    const app = this.#apps.get(appId);
    if (app === undefined) return null;
    const { slug } = app.wanted;
    return { id: appId, slug, url: this.#addresses?.app.replace('{slug}', slug) ?? null };
  }

  #deliver(events: HostEvents): Promise<unknown> {
    return this.#control.call('/internal/host-events', events);
  }

  #failing(): string[] {
    const failing = this.#control.answers ? [] : ['control plane'];
    if (this.#disk.short) failing.push('disk');
    if (this.#caddy && this.#caddy.problem !== null) failing.push('caddy');
    if (this.#outbox.refused.length > 0) failing.push('outbox');
    return failing;
  }
}

/** The secret of the first start's link. It is the same at each start, and nobody has to keep it: its hash is kept. */
function welcomeSecret(key: string): string {
  return createHmac('sha256', key).update('welcome').digest('base64url');
}
