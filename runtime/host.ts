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

/** The part of `RUNNER_DRAIN_S` reserved for processes and databases, after the last requests are cut, in ms. */
const RESERVE_MS = 3_000;
/** How long requests of other hosts may take once those of clients have ended, in ms. */
const FROM_HOSTS_MS = 1_000;
/** A step of the start that takes longer is named in the log, again and again, in ms. */
const SLOW_STEP_MS = 10_000;
const CONTROL_RETRY_MIN_MS = 1_000;
const CONTROL_RETRY_MAX_MS = 30_000;
/** How long its apps may take to move to other hosts before it closes, in ms; longer if `RUNNER_DRAIN_S` is. */
const LEAVE_MS = 60_000;
/** Disk space that the control plane needs to start, in MiB. */
const CONTROL_MB = 8;

/** Parts that can be reloaded while apps run. */
export type Reload = 'control' | 'ui';

/** A running Cellar. */
export class Host {
  readonly config: Config;
  readonly #parts: Parts;
  readonly #spawner: Spawner;
  #welcome: string | null = null;
  readonly #closing = new AbortController();
  #closed: Promise<void> | null = null;

  /**
   * Locks the data directory and opens its contents. Nothing runs yet.
   * @throws {Error} when another host has the directory, a newer Cellar wrote it, or Caddy is configured and missing
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
   * Starts everything: apps and edge first, then the control plane. Resolves when all parts serve.
   * @throws {Error} when a port is taken, the bucket fails a check, or a newer Cellar has used the control plane's database.
   * Call `close` then
   */
  async start(): Promise<Addresses> {
    const { apps, buckets, caddy, disk, geo, hasUsers, known, missed, outbox, paths, previews } = this.#parts;
    const { membership, queue, rounds, snapshots, storage, telemetry, isolation } = this.#parts;
    queue.interruptUnfinished();
    // Apps start meanwhile.
    const bucket = this.#parts.bucket?.start();
    bucket?.catch(() => {});
    telemetry.start();
    // With several hosts it may be of an app that another one has now.
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
    // The host holds the proxy's socket, and the proxy is started again by itself.
    const proxy = this.#parts.bucket
      ?.serve()
      .catch((error: unknown) =>
        log('error', 'the bucket proxy does not start; it is tried again', { error: reason(error) }),
      );
    if (proxy) await shown('starting the bucket proxy', proxy);
    await shown('starting the apps on this disk', apps.resume(false));
    const deployMissed = () => {
      missed.start();
      previews.start();
    };
    // Not awaited: they wait for the bucket, and nothing else does.
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
    // By now the disk has space.
    if (!isWritten) this.#writeAddress(api);
    if (this.#closed) return known.addresses;
    if (membership !== null) await shown('joining the other hosts', membership.join());
    if (this.#parts.movedAway)
      await shown('handing over apps that have moved', this.#parts.movedAway.settle());
    outbox.open();
    await shown('reading what is due', rounds.start());
    if (this.#closed) return known.addresses;
    if (membership !== null) {
      // Only now it is known which apps have other homes.
      membership.admitApps();
      deployMissed();
      resumeInBucket();
    }
    await this.#receiveMail();
    await this.#parts.incomingTcp
      ?.start()
      .catch((error: unknown) => log('error', 'no TCP connections are taken', { error: reason(error) }));
    void snapshots.start();
    telemetry.startCopies();
    if (this.config.RUNNER_OIDC_URL !== null) void checkProvider(this.config.RUNNER_OIDC_URL);
    return known.addresses;
  }

  /** Starts to receive e-mails, if it is configured. Apps serve without it. */
  async #receiveMail(): Promise<void> {
    const { incomingMail, known } = this.#parts;
    if (incomingMail === null) return;
    known.addresses!.mail = await incomingMail.start().catch((error: unknown) => {
      log('error', 'no e-mails are received', { error: reason(error) });
      return null;
    });
  }

  /** Writes the API's address for the command line. On a full disk apps serve without it. @returns whether it was written */
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

  /** The link that makes its first visitor the admin; null once used. It is a secret. */
  get welcome(): string | null {
    return this.#welcome;
  }

  /** Reloads the handlers or the control UI from source, for development. Apps keep running. @throws {Error} why it cannot */
  async reload(what: Reload): Promise<void> {
    if (what === 'control') await this.#parts.control.reload();
    else await this.#parts.ui?.reload();
  }

  /**
   * Drains and closes everything within `RUNNER_DRAIN_S`. Aborts deploys, which restart at the next start. Further calls wait
   * for the same shutdown.
   * @throws the error of the first part that failed to close; the others are closed
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
   * Apps serve without the control plane, so a failed start is retried, and shows in `/ready`.
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
        // The database of a newer Cellar must stay unchanged, and the two control planes are incompatible.
        if (error instanceof ControlError && error.code === 'newer_schema') throw error;
        log('error', 'the control plane does not start; apps serve on', {
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
        'the control plane waits for free disk space; apps serve meanwhile. Remove files from that disk, or enlarge it',
        { free_mb: disk.freeMb, needs_mb: CONTROL_MB, data: paths.root },
      );
    await disk.room(CONTROL_MB, this.#closing.signal);
  }

  /** Frees disk space: removes code that the bucket has, empties the trash, the oldest first, then drops the build caches. */
  async #makeRoom(enough: () => Promise<boolean>): Promise<void> {
    const { codeCache, paths, queue } = this.#parts;
    await codeCache?.makeRoom(enough);
    await emptyTrashUntil(enough, paths.trash);
    await dropCachesUntil(enough, paths.caches, (appId) => queue.isRunning(appId));
  }

  /**
   * Lets load balancers notice that this host is not ready, and then its apps move to the other hosts, if there are any.
   * Everything serves meanwhile.
   */
  async #leave(limitMs: number): Promise<void> {
    const { api, edge, healthChecks, hosts, membership } = this.#parts;
    if (membership === null) return;
    api.leave();
    edge.leave();
    membership.isLeaving = true;
    const others = hosts!.homes.others.filter(({ state }) => state === 'active');
    if (others.length > 0) await sleep(healthChecks.noticedMs());
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
    // Before the port is free: another server on it would get the command line's token.
    await closing.step('address', () => rmSync(paths.address, { force: true }));
    // These steps run in parallel with the next ones. They end at the latest with the parts that they wait for.
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

  /** Answers new requests with 503, and lets those in flight finish. */
  async #drain(graceMs: number): Promise<void> {
    const { api, caddy, edge } = this.#parts;
    await Promise.all([edge.drain(graceMs), api.drain(graceMs)]);
    // Caddy forwards the end of each request and WebSocket, and the edge's answers to new requests meanwhile.
    if (caddy) await caddy.stop();
    await Promise.all([edge.close(0), api.close(0)]);
    // Last, so that requests for an app that has moved away reach its new home.
    await this.#parts.fromHosts?.close(FROM_HOSTS_MS);
    this.#parts.hosts?.close();
  }
}

/** Names a step of the start in the log as long as it takes. */
async function shown(step: string, work: Promise<void>): Promise<void> {
  const from = performance.now();
  const saying = setInterval(
    () => log('info', 'still starting', { step, s: Math.round((performance.now() - from) / 1000) }),
    SLOW_STEP_MS,
  );
  await work.finally(() => clearInterval(saying));
}

/**
 * Returns the secret of the first start's link. It derives from the key, so it never changes; the control plane stores its
 * hash.
 */
function welcomeSecret(key: string): string {
  return createHmac('sha256', key).update('welcome').digest('base64url');
}
