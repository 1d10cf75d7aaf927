// Assembles a host from its parts. Nothing runs yet: `host.ts` starts and ends them.
import type { SealedCertificate } from '../handlers/contract/host/client-certificates.ts';
import type { AppReportsAnswer } from '../handlers/contract/host/host-calls.ts';
import type { AlertedApp } from './alerts/alerts.ts';
import type { Config } from './config.ts';
import { Outbox } from './control/outbox.ts';
import { PeriodicJobs } from './control/rounds.ts';
import { Caddy, findCaddy } from './edge/caddy/caddy.ts';
import { MovedAway } from './hosts/moved-away.ts';
import { logRarely, reason } from './log.ts';
import { makeApps } from './parts/apps.ts';
import { makeBase } from './parts/base.ts';
import { makeControl } from './parts/control.ts';
import { makeDeploys } from './parts/deploys.ts';
import { makeEdge } from './parts/edge.ts';
import { makeHosts } from './parts/hosts.ts';
import { makeMembership } from './parts/membership.ts';
import { makeObservability } from './parts/observability.ts';

const HOUR_MS = 3_600_000;

export type Parts = ReturnType<typeof assemble>;

/**
 * Locks the data directory, opens its contents, and makes all parts of a host.
 * @throws {Error} when another host uses the directory, a newer Cellar wrote it, `RUNNER_BUCKET` is missing for the control
 *   plane's data, or Caddy is configured and missing
 */
export function assemble(config: Config) {
  // First, so that a missing Caddy fails before the data directory is locked.
  const caddyProgram = config.RUNNER_EDGE === 'caddy' ? findCaddy() : null;
  const base = makeBase(config);
  const { paths, store, disk } = base;
  const caddy =
    caddyProgram &&
    new Caddy(caddyProgram, paths.caddy, (hostname, error) => {
      const app = appParts.apps.resolve(hostname)?.site;
      if (app !== undefined) observability.alerts.reportCertificate(app, hostname, error);
    });
  const synced = async (appIds: string[]) => {
    await store.synced();
    await Promise.all(appIds.map((id) => base.bucket?.records.stored(id)));
  };
  const outbox = new Outbox({ outbox: store.outbox, synced }, (events) =>
    controlParts.control.call('/internal/host-events', events).catch((error: unknown) => {
      // While the bucket is unavailable, an error response does not mean that a fact was rejected. The outbox retries after
      // an error without a status.
      throw base.bucket?.problem ? new Error(reason(error)) : error;
    }),
  );
  const onFacts = () => outbox.notify();
  const observability = makeObservability(base, described, {
    isApp: (hostname) => appParts.apps.resolve(hostname) !== undefined,
    ownerOf: (appId) => apps.ownerOf(appId),
    send: async (reports) =>
      (await controlParts.control.call('/internal/app-reports', reports)) as AppReportsAnswer,
    isPreview: (appId) => apps.originOf(appId) !== appId,
  });
  const hosts = makeHosts(base, () => appParts.apps);
  const appParts = makeApps(base, observability, {
    edge: () => edgeParts.edge,
    hosts,
    leaving: hosts && {
      self: hosts.homes.self,
      endDeploys: (id) => deploys.queue.interrupt(id),
      left: (id, to, hostname) => {
        hosts.homes.moved(id, to);
        return hosts.resolve(hostname)?.backend ?? hosts.app(id);
      },
    },
    onRestored,
    onFacts,
    askStoreSecret: async (asked) =>
      (await controlParts.control.call('/internal/store-secret', asked)) as string | null,
  });
  const { apps } = appParts;
  if (hosts !== null) {
    apps.onAdded = () => hosts.peers.announce();
    apps.others = hosts;
  }
  if (base.bucket) base.bucket.onBack = () => apps.bucketIsBack();
  const deploys = makeDeploys(
    base,
    observability,
    appParts,
    onFacts,
    async (asked) =>
      (await controlParts.control.call('/internal/client-certificate', asked)) as SealedCertificate | null,
  );
  const controlParts = makeControl(
    base,
    observability,
    appParts,
    deploys,
    outbox,
    hosts,
    () => void rounds.reconcile(),
  );
  const { control, ui } = controlParts;
  const edgeParts = makeEdge(base, {
    apps,
    control,
    ui,
    hosts,
    depths: appParts.depths,
    failing,
    warnings,
    telemetry: observability.telemetry,
  });
  const rounds = new PeriodicJobs({
    control,
    trash: paths.trash,
    forgetDeleted: () => apps.deletions.forgetKept(),
    removeFolders: async () => base.bucket?.removals.run(),
    leads: () => hosts?.homes.leads ?? true,
    removeAbandoned: hosts && (async () => base.bucket?.removeAbandoned()),
    storeReleases: () => deploys.unstored.run(),
    trimCode: async () => deploys.codeCache?.trim(),
    refreshIsolation: () => base.isolation.refresh(),
    tick,
    sweep: () => apps.sweep(config.RUNNER_SLEEP_AFTER_H * HOUR_MS),
    sweepEveryMs: config.RUNNER_SLEEP_AFTER_H === 0 ? null : config.RUNNER_SLEEP_SWEEP_S * 1000,
  });

  const movedAway = base.homes && new MovedAway(base.homes, apps);
  const membership = makeMembership(base, {
    ...{ apps, control, movedAway },
    unanswered: () => hosts?.peers.unanswered ?? [],
    reconcile: () => rounds.reconcile(),
  });
  if (hosts !== null && membership !== null) {
    hosts.askNow = () => membership.reportNow();
    hosts.homes.onAwaited = () => void membership.reportNow();
    hosts.homes.onDeleted = (appId) => observability.telemetry.forget(appId);
  }

  /** Called about once a second. */
  function tick(): void {
    void appParts.memory.sample();
    apps.tick();
    deploys.previews.tick();
    deploys.splits.tick();
    deploys.sources.tick();
    observability.alerts.lookAtDisk(disk.shortage);
    const { bucket, homes } = base;
    // Until the first check of the bucket has ended, an outage from before the host's start may still continue.
    if (bucket === null || bucket.problem !== null || bucket.clockMs !== null)
      observability.bucketOutage.look(bucket?.problem ?? null);
    if (homes?.isKnown) observability.hostOutages.look(homes.others);
    appParts.checks.tick();
    observability.deliveries.tick();
    // Syncs the writes that no caller waits for, so that a power cut loses about one second of them.
    store.synced().catch((error: unknown) =>
      logRarely('error', "the host's database could not be synced to the disk; Cellar tries again", {
        error: reason(error),
      }),
    );
    base.bucket?.records.storeAll().catch((error: unknown) =>
      logRarely('warn', 'the records of apps could not be written to the bucket; Cellar tries again', {
        error: reason(error),
      }),
    );
  }

  /** Loads alerts, and resumes deploys. Call it when an app or a preview has come from another host, or was undeleted. */
  function onRestored(appId: string): void {
    observability.alerts.load(appId);
    deploys.queue.interruptUnfinishedOf(appId);
    if (apps.get(appId)?.preview) deploys.previews.arrived(appId);
    else deploys.missed.arrived(appId);
  }

  /** Returns an app as alerts show it; null for an app that this host does not have. */
  function described(appId: string): AlertedApp | null {
    const app = apps.get(appId);
    if (app === undefined) return null;
    const { slug } = app.wanted;
    return { id: appId, slug, url: base.urlOf(slug) };
  }

  /** Returns the names of failed parts, as `/ready` shows them. */
  function failing(): string[] {
    // Apps on this disk serve while the bucket is unavailable and the control plane has failed for this reason. Then
    // `warnings` reports the bucket.
    const failing = control.answers || base.bucket?.problem ? [] : ['control plane'];
    if (disk.short) failing.push('disk');
    if (caddy && caddy.problem !== null) failing.push('caddy');
    if (outbox.refused.length > 0 && !base.bucket?.problem) failing.push('outbox');
    // With several hosts, load balancers can use another host, so this one reports that it is not ready.
    if (hosts !== null && base.bucket?.problem) failing.push('bucket');
    const problem = membership?.problem ?? null;
    if (problem !== null) failing.push(problem);
    return failing;
  }

  /** Returns the names of problems that `/ready` reports with status 200. */
  function warnings(): string[] {
    const warnings = appParts.snapshots.isNewestDamaged ? ['snapshots'] : [];
    if (base.bucket && base.bucket.problem !== null) warnings.push('bucket');
    if (base.homes?.others.some(({ state }) => state === 'silent')) warnings.push('hosts');
    return warnings;
  }

  return {
    ...base,
    ...observability,
    ...appParts,
    ...deploys,
    ...controlParts,
    ...edgeParts,
    caddy,
    hosts,
    outbox,
    rounds,
    movedAway,
    membership,
  };
}
