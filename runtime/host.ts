// The host: starts its parts, in the order that lets apps serve first, and ends them.
import { createHmac } from 'node:crypto';
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Addresses, addresses } from './addresses.ts';
import { closeFolderThreads } from './bucket/app-cluster.ts';
import { closeTransfers } from './bucket/code/code-folder.ts';
import { dropCachesUntil } from './builds/commands/cache.ts';
import { registryEndpoints } from './builds/commands/network-settings.ts';
import { closeBundler } from './builds/release/build.ts';
import { Shutdown, within } from './closing.ts';
import { type Config, isLocal } from './config.ts';
import { ControlError } from './control/control-calls.ts';
import { keptSecret, type Layout, writeAtomic } from './disk/data-directory.ts';
import { emptyTrashUntil } from './disk/trash.ts';
import { startCaddyProxy } from './edge/caddy/front.ts';
import { sourceThreads } from './git/source-thread.ts';
import { log, reason } from './log.ts';
import { moveThreads } from './move/move-threads.ts';
import { assemble, type Parts } from './parts.ts';
import { Spawner } from './processes/spawner.ts';
import { threads } from './threads/worker.ts';
import { checkProvider } from './ui/provider-check.ts';

/** Part of `RUNNER_DRAIN_S`, at most half, in which processes end and databases close after requests were cut, in ms. */
const RESERVE_MS = 3_000;
/** Shortest time for requests from other hosts once the requests of clients have ended, in ms. */
const FROM_HOSTS_MIN_MS = 1_000;
/** How often the log names a slow step of the start, in ms. */
const SLOW_STEP_MS = 10_000;
const CONTROL_RETRY_MIN_MS = 1_000;
const CONTROL_RETRY_MAX_MS = 30_000;
/** Timeout for the apps of a stopping host to move to other hosts, in ms. `RUNNER_DRAIN_S` applies when it is longer. */
const LEAVE_MS = 60_000;
/** Disk space that the control plane needs to start, in MiB. */
const CONTROL_MB = 8;

/** Parts that can be reloaded while apps run. */
export type Reload = 'control' | 'ui';

export class Host {
  readonly config: Config;
  readonly #parts: Parts;
  readonly #spawner: Spawner;
  #welcome: string | null = null;
  readonly #closing = new AbortController();
  #closed: Promise<void> | null = null;

  /**
   * Locks the data directory and opens its contents. Nothing runs yet.
   * @throws {Error} when another host uses the directory, a newer Cellar wrote it, `RUNNER_BUCKET` is missing for the
   *   control plane's data, or Caddy is configured and missing
   */
  constructor(config: Config) {
    this.config = config;
    this.#parts = assemble(config);
    this.#spawner = new Spawner(this.#parts.paths.spawner);
  }

  get paths(): Layout {
    return this.#parts.paths;
  }

  /**
   * Starts the parts: first the gateways and the apps on this disk, then the control plane. Resolves when these serve, or
   * early once `close` was called. Apps in the bucket may still be starting. Call `close` after an error.
   * @throws {Error} when a port is taken, the bucket fails a check, a newer Cellar has used the control plane's database, or
   *   the control plane refuses this host
   */
  async start(): Promise<Addresses> {
    const { apps, buckets, caddy, disk, geo, hasUsers, known, missed, outbox, paths, previews } = this.#parts;
    const { membership, queue, rounds, snapshots, storage, telemetry, isolation } = this.#parts;
    queue.interruptUnfinished();
    // Not awaited yet, so that apps on this disk start while the bucket is checked.
    const bucket = this.#parts.bucket?.start();
    bucket?.catch(() => {});
    telemetry.start();
    // With several hosts, `#startCopies` does this later: the telemetry may belong to an app that now runs on another host.
    if (this.config.RUNNER_ADDRESS === null) telemetry.keepOnly(apps.memories().map(({ id }) => id));
    await geo.look();
    const { RUNNER_PORT, RUNNER_EDGE_PORT, RUNNER_BASE_DOMAIN } = this.config;
    const api = await this.#parts.api.listen(RUNNER_PORT, '127.0.0.1');
    const isWritten = this.#writeAddress(api);
    const host = isLocal(RUNNER_BASE_DOMAIN) ? '127.0.0.1' : '::';
    const front = { config: this.config, directory: paths.caddy, edge: this.#parts.edge, api };
    const edge = caddy
      ? await startCaddyProxy(caddy, front)
      : await this.#parts.edge.listen(RUNNER_EDGE_PORT, host);
    known.addresses = addresses(this.config, { api, edge });
    const { RUNNER_ADDRESS } = this.config;
    if (RUNNER_ADDRESS !== null)
      await this.#parts.fromHosts!.listenHosts(RUNNER_ADDRESS.port, RUNNER_ADDRESS.host);
    rounds.startTicking();
    disk.start({ makeRoom: (enough) => this.#makeRoom(enough), onLook: () => storage.look() });
    const users = hasUsers ? apps.memories().map(({ id }) => this.#parts.users(id)) : null;
    const openPorts = this.#parts.bucket ? [this.#parts.bucket.port] : [];
    const betweenHosts = RUNNER_ADDRESS === null ? [] : [RUNNER_ADDRESS.port, RUNNER_ADDRESS.port + 1];
    const ownPorts = [api, edge, ...betweenHosts];
    const proxies = this.#parts.outward.proxies();
    const network = { egress: this.config.RUNNER_EGRESS_ALLOW, ownPorts, proxies, openPorts };
    await shown(
      'preparing the isolation of apps',
      isolation.open(users, paths.builds, registryEndpoints, network),
    );
    await this.#spawner.open();
    buckets.warm();
    // A failed start is only logged: the host holds the proxy's socket, and starts the proxy again by itself.
    const proxy = this.#parts.bucket
      ?.serve()
      .catch((error: unknown) =>
        log('error', 'the bucket proxy does not start; Cellar tries again', { error: reason(error) }),
      );
    if (proxy) await shown('starting the bucket proxy', proxy);
    await shown('starting the apps on this disk', apps.resume(false));
    const deployMissed = () => {
      missed.start();
      previews.start();
    };
    // Not awaited: these starts wait for the bucket, which must not delay the other parts.
    const resumeInBucket = () =>
      void apps
        .resume(true)
        .then(() => rounds.storeReleases())
        .then(() => this.#parts.codeCache?.trim());
    if (membership === null) resumeInBucket();
    if (bucket) await shown('checking the bucket', bucket);
    if (this.#closed) return known.addresses;
    if (membership === null) deployMissed();
    await shown('starting the control plane', this.#startControl());
    // The first try failed on a full disk. By now `#startControl` has waited for free space.
    if (!isWritten) this.#writeAddress(api);
    if (this.#closed) return known.addresses;
    if (membership !== null) await shown('joining the other hosts', membership.join());
    if (this.#parts.movedAway)
      await shown('handing over apps that have moved', this.#parts.movedAway.settle());
    outbox.open();
    await shown('reading when crons and alarms of apps are due', rounds.start());
    if (this.#closed) return known.addresses;
    if (membership !== null) {
      // Before joining, this host does not know which of its apps have moved to other hosts.
      membership.admitApps();
      deployMissed();
      resumeInBucket();
    }
    await this.#receiveMail();
    await this.#parts.incomingTcp
      ?.start()
      .catch((error: unknown) =>
        log('error', 'TCP connections for apps cannot be accepted', { error: reason(error) }),
      );
    void snapshots.start();
    this.#startCopies();
    if (this.config.RUNNER_OIDC_URL !== null) void checkProvider(this.config.RUNNER_OIDC_URL);
    return known.addresses;
  }

  /** Starts the copies of telemetry. With several hosts, first removes the telemetry of apps that no longer exist. */
  #startCopies(): void {
    const { apps, homes, telemetry } = this.#parts;
    if (homes === null) {
      telemetry.startCopies(null);
      return;
    }
    const appIds = [...homes.appIds, ...apps.memories().map(({ id }) => id)];
    telemetry.keepOnly(appIds);
    telemetry.startCopies({ notLost: homes.notLost(), apps: appIds });
  }

  /** Starts to receive e-mails, if a port is set. A failure is only logged, because apps serve without e-mails. */
  async #receiveMail(): Promise<void> {
    const { incomingMail, known } = this.#parts;
    if (incomingMail === null) return;
    known.addresses!.mail = await incomingMail.start().catch((error: unknown) => {
      log('error', 'e-mails for apps cannot be received', { error: reason(error) });
      return null;
    });
  }

  /**
   * Writes the API's address for the command line. Only logs a failure, as on a full disk: apps serve without this file.
   * @returns whether it was written
   */
  #writeAddress(port: number): boolean {
    try {
      writeAtomic(this.#parts.paths.address, `http://127.0.0.1:${port}\n`);
      return true;
    } catch (error) {
      log('warn', 'could not write the file from which `cellar` reads the address of the API', {
        error: reason(error),
      });
      return false;
    }
  }

  /** The secret link that makes its first visitor the admin; null if it was used before this start, or without own UI. */
  get welcome(): string | null {
    return this.#welcome;
  }

  /**
   * Reloads the handlers or the control UI from source, for development. Apps keep running.
   * @throws {Error} when the new code cannot be bundled or started
   */
  async reload(what: Reload): Promise<void> {
    if (what === 'control') await this.#parts.control.reload();
    else await this.#parts.ui?.reload();
  }

  /**
   * Moves the apps in the bucket to other hosts, if there are any. Then drains and closes all parts within `RUNNER_DRAIN_S`.
   * Aborts deploys; the next start retries them. Further calls return the same promise.
   * @throws the error of the first part that failed to close; the other parts are closed. Or {Error} after `RUNNER_DRAIN_S`
   */
  close(): Promise<void> {
    this.#closing.abort();
    const limitMs = this.config.RUNNER_DRAIN_S * 1000;
    this.#closed ??= this.#leave(Math.max(limitMs, LEAVE_MS)).then(() =>
      within(limitMs, this.#close(limitMs)),
    );
    return this.#closed;
  }

  /**
   * Starts the control plane. Retries a failed start, because apps serve meanwhile; `/ready` reports it.
   * @throws {ControlError} when a newer Cellar has used its database
   */
  async #startControl(): Promise<void> {
    const { control, known, paths, ui } = this.#parts;
    for (let delay = CONTROL_RETRY_MIN_MS; !this.#closed; delay = Math.min(2 * delay, CONTROL_RETRY_MAX_MS)) {
      await this.#roomForControl();
      if (this.#closed) return;
      try {
        const secret = welcomeSecret(keptSecret(paths.signInKey));
        const boot = { api_key: keptSecret(paths.apiKey), welcome: secret };
        const { welcome } = await control.start(boot);
        if (welcome && ui !== null) this.#welcome = `${known.addresses!.ui}/welcome?token=${secret}`;
        return;
      } catch (error) {
        if (this.#closed) return;
        // This control plane must not change the database of a newer Cellar, so a retry would fail too.
        if (error instanceof ControlError && error.code === 'newer_schema') throw error;
        log('error', 'the control plane does not start; apps are still served', {
          error: reason(error),
          retry_ms: delay,
        });
        await sleep(delay, undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    }
  }

  /** Waits for disk space: on a full disk the control plane would crash again and again. */
  async #roomForControl(): Promise<void> {
    const { disk, paths } = this.#parts;
    if (disk.freeMb < CONTROL_MB)
      log(
        'warn',
        'the control plane waits for free disk space; apps are still served. Remove files from that disk, or enlarge it',
        { free_mb: disk.freeMb, needs_mb: CONTROL_MB, data: paths.root },
      );
    await disk.room(CONTROL_MB, this.#closing.signal);
  }

  /**
   * Frees disk space until `enough` resolves with true: removes code that the bucket has too, then trash (oldest first),
   * then build caches.
   */
  async #makeRoom(enough: () => Promise<boolean>): Promise<void> {
    const { codeCache, paths, queue } = this.#parts;
    await codeCache?.makeRoom(enough);
    await emptyTrashUntil(enough, paths.trash);
    await dropCachesUntil(enough, paths.caches, (appId) => queue.isRunning(appId));
  }

  /**
   * Makes `/ready` fail, and waits until load balancers have noticed, if other hosts serve. Then moves the apps in the bucket
   * to these hosts. Everything serves meanwhile. Does nothing on the only host.
   */
  async #leave(limitMs: number): Promise<void> {
    const { api, edge, fromHosts, healthChecks, hosts, membership } = this.#parts;
    if (membership === null) return;
    for (const gateway of [api, edge, fromHosts!]) gateway.leave();
    membership.isLeaving = true;
    // Another host may serve again since the last report. While this host still starts, a report could take long.
    if (hosts!.homes.isKnown) await membership.reportNow();
    // A draining host serves too.
    if (hosts!.homes.others.some(({ state }) => state !== 'silent')) await sleep(healthChecks.noticedMs());
    await membership.leave(limitMs);
  }

  async #close(limitMs: number): Promise<void> {
    const {
      accessLog,
      outward,
      apps,
      buckets,
      control,
      deliveries,
      disk,
      geo,
      loopDelay,
      mailer,
      missed,
      moves,
      appReports,
      outbox,
      paths,
      queue,
      readers,
      release,
      rounds,
      snapshots,
      sources,
      storage,
      store,
      telemetry,
      ui,
      unstored,
      isolation,
    } = this.#parts;
    const closing = new Shutdown();
    // First of all: once the port is free, another server could listen on it and get the command line's token.
    await closing.step('address', () => rmSync(paths.address, { force: true }));
    // Not awaited yet: these steps run while the parts below close. Each ends once the parts that it waits for have closed.
    const ending = [
      closing.step('deploys', () => queue.close()),
      closing.step('fetches', () => sources.stop()),
      closing.step('moves', () => moves.stop()),
      closing.step('rounds', () => rounds.stop()),
      closing.step('snapshots', () => snapshots.stop()),
      closing.step('disk watch', () => disk.stop()),
      closing.step('storage limits', () => storage.stop()),
      closing.step('missed deploys', () => missed.stop()),
      closing.step('unstored releases', () => unstored.stop()),
      closing.step('code cache', () => this.#parts.codeCache?.stop()),
    ];
    geo.close();
    await closing.step('e-mails in', () => this.#parts.incomingMail?.close());
    await closing.step('TCP', () => this.#parts.incomingTcp?.close());
    await closing.step('edge', () => this.#drain(Math.max(limitMs / 2, limitMs - RESERVE_MS)));
    await closing.step('control UI', () => ui?.close());
    await closing.step('access log', () => accessLog.close());
    await closing.step('apps', () => apps.close());
    await closing.step('telemetry', () => telemetry.close());
    await closing.step('storage readers', () => readers.close());
    await closing.step('buckets', () => buckets.close());
    await closing.step('AI and mail services', () => outward.close());
    await closing.step('bundler', closeBundler);
    await closing.step('isolation', () => isolation.close());
    await closing.step('threads', () => {
      threads.close();
      moveThreads.close();
      closeFolderThreads();
      closeTransfers();
      sourceThreads.close();
    });
    await closing.step('loop delay', () => loopDelay.stop());
    ending.push(closing.step('alerts', () => deliveries.stop()));
    ending.push(closing.step('reports of apps', () => appReports.stop()));
    ending.push(closing.step('outbox', () => outbox.stop()));
    await closing.step('e-mails', () => mailer.stop());
    await closing.step('control plane', () => control.stop());
    await closing.step('bucket', () => this.#parts.bucket?.close());
    await Promise.all(ending);
    await closing.step('spawner', () => this.#spawner.close());
    await closing.step('database', () => store.close());
    await closing.step('data directory', release);
    closing.throwFirst();
  }

  /** Answers new requests with 503, and waits up to `graceMs` for requests in flight. */
  async #drain(graceMs: number): Promise<void> {
    const { api, caddy, edge, fromHosts } = this.#parts;
    const endsAt = performance.now() + graceMs;
    await Promise.all([edge.drain(graceMs), api.drain(graceMs)]);
    // Caddy stops only now: until then it forwards the last responses, and the 503 for new requests.
    if (caddy) await caddy.stop();
    await Promise.all([edge.close(0), api.close(0)]);
    // Last, so that requests from other hosts for an app that has moved away still reach its new host.
    await fromHosts?.close(Math.max(FROM_HOSTS_MIN_MS, endsAt - performance.now()));
    this.#parts.hosts?.close();
  }
}

/** Waits for a step of the start, and logs its name every `SLOW_STEP_MS` until then. */
async function shown(step: string, work: Promise<void>): Promise<void> {
  const from = performance.now();
  const saying = setInterval(
    () => log('info', 'still starting', { step, s: Math.round((performance.now() - from) / 1000) }),
    SLOW_STEP_MS,
  );
  await work.finally(() => clearInterval(saying));
}

/**
 * Returns the secret in the link that makes the first visitor the admin. It derives from `key`, so it never changes. The
 * control plane stores the secret's hash.
 */
function welcomeSecret(key: string): string {
  return createHmac('sha256', key).update('welcome').digest('base64url');
}
