// Alerts: reports events of an app to the webhooks and e-mail addresses that its owner has set.
import { createHmac } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { Verified } from '../../handlers/contract/admin.ts';
import type { DeployFact, ObservedApp } from '../../handlers/contract/host/host-calls.ts';
import type { AlertSettings } from '../../handlers/contract/host/host-routes.ts';
import type { KnownHost } from '../../handlers/contract/host/hosts.ts';
import { newId } from '../../handlers/contract/id.ts';
import type { AlertKind } from '../../handlers/contract/telemetry/alert-kinds.ts';
import { ALERT_DEFAULTS, ALERTS_LIMIT, type Alert } from '../../handlers/contract/telemetry/alerts.ts';
import { cutText } from '../../handlers/contract/text.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { HostFact } from '../../sqlite/host/outbox.ts';
import { logRarely, reason } from '../log.ts';
import { noSuchApp, Refusal } from '../refusal.ts';
import type { Failure, OpenGroup } from '../telemetry/protocol.ts';

const HOUR_MS = 3_600_000;
/** Minimum time between two reports of the same topic by one alert, in ms. */
const AGAIN_MS = HOUR_MS;
/** Maximum events that one alert reports in an hour. Further ones are only counted, if their topic was reported before. */
const REPORTS_AN_HOUR = 30;
/** Maximum error groups among these events, so that a crash or an outage is reported even when there are many errors. */
const ERRORS_AN_HOUR = 20;
/** How long reported topics are remembered, in ms, so that a deploy is reported once. */
const REMEMBERED_MS = 7 * 24 * HOUR_MS;
/** Maximum error groups reported in one transaction. Each group is reported by up to 20 alerts of an app. */
const ERRORS_AT_ONCE = 10;
/** Maximum characters of an event's text in a message. */
const MESSAGE_LENGTH = 2_000;

export interface AlertEvent {
  kind: AlertKind;
  /** Such as `app.crashed`. */
  type: string;
  /** Identifies the subject. An alert reports each topic at most once an hour. */
  topic: string;
  /** What happened, in words for people. */
  message: string;
  /** More facts, for programs. */
  details?: Record<string, unknown>;
  /** Whether the topic is reported only once within `REMEMBERED_MS`. */
  once?: boolean;
}

/** An event that begins or ends a state, such as high memory use. */
interface StateChange extends Omit<AlertEvent, 'topic' | 'once' | 'message'> {
  /** As in `AlertEvent`; null to report nothing. */
  message: string | null;
  /** Whether each alert reports the beginning at most once an hour. */
  hourly?: boolean;
  /** The id of the host whose silence begins or ends. */
  host?: string;
}

/** An app, as messages of alerts describe it. */
export interface AlertedApp {
  id: string;
  slug: string;
  /** The app's URL; null until the host knows its own address. */
  url: string | null;
}

export interface AlertsOptions {
  store: HostStore;
  /** Secret from which the webhooks' signing keys are derived. */
  key: string;
  /** Describes an app for messages; null for a deleted app. */
  describe: (appId: string) => AlertedApp | null;
  /** Returns the URL of a deploy in the control UI; null until the host knows its own address. */
  deployUrl: (slug: string, deployId: string) => string | null;
}

/** The alerts of all apps. The host's database stores them and their pending deliveries, which survive a restart. */
export class Alerts {
  readonly #options: AlertsOptions;
  readonly #byId = new Map<string, Alert>();
  readonly #byApp = new Map<string, Alert[]>();
  #diskShort = false;

  constructor(options: AlertsOptions) {
    this.#options = options;
    for (const alert of options.store.alerts.all()) this.#remember(withDefaults(alert));
    options.store.outbox.listen((fact) => this.#hear(fact));
  }

  /** Whether there are any alerts. */
  get any(): boolean {
    return this.#byId.size > 0;
  }

  /** Returns an app's alerts, oldest first. */
  list(appId: string): Alert[] {
    return this.#byApp.get(appId) ?? [];
  }

  /** Returns the ids of apps that have an alert of a kind. */
  appsWith(kind: AlertKind): string[] {
    return [...this.#byApp]
      .filter(([, alerts]) => alerts.some(({ on }) => on.includes(kind)))
      .map(([id]) => id);
  }

  /**
   * Creates an alert.
   * @throws {Refusal} `app_not_found`, `quota_exceeded`
   */
  add(appId: string, settings: AlertSettings & { url: string }): Alert {
    if (this.#options.describe(appId) === null) throw noSuchApp();
    if (this.list(appId).length >= ALERTS_LIMIT)
      throw new Refusal(
        403,
        'quota_exceeded',
        `an app may have at most ${ALERTS_LIMIT} alerts; delete one first`,
      );
    const at = new Date().toISOString();
    const made = { id: newId(), app_id: appId, created_at: at, updated_at: at, last_delivery: null };
    return this.#save({ ...made, ...ALERT_DEFAULTS, ...settings });
  }

  /** @throws {Refusal} `alert_not_found` */
  change(appId: string, alertId: string, settings: AlertSettings): Alert {
    const changed = { ...this.require(appId, alertId), ...settings, updated_at: new Date().toISOString() };
    return this.#save({
      ...changed,
      firing: changed.firing.filter((kind) => changed.on.includes(kind)),
      silent_hosts: changed.on.includes('host') ? changed.silent_hosts : [],
    });
  }

  /** @throws {Refusal} `alert_not_found` */
  delete(appId: string, alertId: string): void {
    this.require(appId, alertId);
    this.#options.store.alerts.delete(alertId);
    this.#byId.delete(alertId);
    this.#byApp.set(
      appId,
      this.list(appId).filter(({ id }) => id !== alertId),
    );
  }

  /** Deletes the alerts of a deleted app. */
  deleteOfApp(appId: string): void {
    this.#options.store.alerts.deleteOfApp(appId);
    this.forget(appId);
  }

  /** Reads the alerts of an app from the database, after the app has come from another host or was undeleted. */
  load(appId: string): void {
    this.forget(appId);
    for (const alert of this.#options.store.alerts.all())
      if (alert.app_id === appId) this.#remember(withDefaults(alert));
  }

  /** Forgets an app's alerts in memory only: for an app whose rows are gone, as after a move to another host. */
  forget(appId: string): void {
    for (const { id } of this.list(appId)) this.#byId.delete(id);
    this.#byApp.delete(appId);
  }

  /** @throws {Refusal} `alert_not_found` */
  require(appId: string, alertId: string): Alert {
    const alert = this.#byId.get(alertId);
    if (alert?.app_id !== appId) throw new Refusal(404, 'alert_not_found', 'the app has no such alert');
    return alert;
  }

  /** Returns an alert of any app by its id; undefined when it was deleted. */
  find(alertId: string): Alert | undefined {
    return this.#byId.get(alertId);
  }

  /** Records the result of an alert's last delivery, unless the alert was deleted. */
  delivered(alertId: string, last_delivery: Alert['last_delivery']): void {
    const alert = this.#byId.get(alertId);
    if (alert) this.#save({ ...alert, last_delivery });
  }

  /** Derives the key that signs an alert's messages, 32 bytes. It is not stored. */
  secret(alertId: string): Buffer {
    return createHmac('sha256', this.#options.key).update(`alert ${alertId}`).digest();
  }

  /** Returns the JSON that is stored and sent for an event. `repeats`: earlier occurrences that were not reported. */
  message(
    appId: string,
    { type, message, details }: Omit<AlertEvent, 'topic' | 'kind'>,
    repeats: number,
  ): string {
    return JSON.stringify({
      type,
      timestamp: new Date().toISOString(),
      data: {
        app: this.#options.describe(appId),
        message: cutText(message, MESSAGE_LENGTH, ' …'),
        repeats,
        ...details,
      },
    });
  }

  /**
   * Queues an event's deliveries: one for each of the app's alerts that have the event's kind, and for which `concerns` is
   * true. Skips alerts that reported the event's topic recently, or too many events within an hour. Logs a failed write.
   */
  report(appId: string, happening: AlertEvent, concerns: (alert: Alert) => boolean = () => true): void {
    const alerts = this.list(appId).filter((alert) => alert.on.includes(happening.kind) && concerns(alert));
    if (alerts.length === 0) return;
    try {
      // In one transaction: single writes would block the gateway's thread once for each alert.
      this.#options.store.transaction(() => {
        for (const alert of alerts)
          if (!this.#report(alert, happening))
            this.#options.store.alerts.countTopic(alert.id, happening.topic);
      });
    } catch (error) {
      logRarely('error', 'an alert could not be stored', { app: appId, error: reason(error) });
    }
  }

  /** Reports that a state has begun, such as high memory use. Does nothing while the state is in the alert's `firing`. */
  begin(alert: Alert, event: Omit<AlertEvent, 'topic' | 'once'>): void {
    this.#changeState(this.#present(alert), event, true);
  }

  /** Reports that a state has ended, if its beginning was reported. */
  end(alert: Alert, kind: AlertKind, type: string, message: string): void {
    this.#changeState(this.#present(alert), { kind, type, message }, false);
  }

  /**
   * Reports that a state begins or ends to each alert that has not reported it yet, and stores the new state with the alert.
   * Logs a failed write. A later call tries again if the write failed, or if the alert was over its hourly limit.
   */
  #changeState(alerts: Alert[], change: StateChange, begins: boolean): void {
    const { store } = this.#options;
    const changing = alerts.filter(
      (alert) => isFiring(alert, change) !== begins && alert.on.includes(change.kind),
    );
    if (changing.length === 0) return;
    try {
      const changed = store.transaction(() =>
        changing
          .filter((alert) => this.#reportChange(alert, change, begins))
          .map((alert) => {
            const after = withState(alert, change, begins);
            store.alerts.save(after);
            return after;
          }),
      );
      // After the commit, because it may fail, such as on a full disk.
      for (const alert of changed) this.#remember(alert);
    } catch (error) {
      logRarely('error', 'an alert could not be stored', { app: changing[0]!.app_id, error: reason(error) });
    }
  }

  /** Returns a list with the current settings and state of an alert; an empty list if it was deleted. */
  #present({ id }: Alert): Alert[] {
    const alert = this.#byId.get(id);
    return alert === undefined ? [] : [alert];
  }

  /** Reports a change of state to one alert. @returns whether it was reported, or needs no report */
  #reportChange(alert: Alert, { hourly, host, message, ...event }: StateChange, begins: boolean): boolean {
    if (message === null) return true;
    const state = host === undefined ? event.kind : `${event.kind} ${host}`;
    // A receiver that never got the beginning does not need the end.
    if (!begins && this.#options.store.alerts.dropUnsent(alert.id, state)) return true;
    // With a topic of its own, the event is reported even less than `AGAIN_MS` after the previous one.
    const topic = begins && hourly ? state : `${state} ${newId()}`;
    return this.#report(alert, { ...event, message, topic }, state);
  }

  /** Reports when a shortage of disk space begins. Call it about once a second. @param shortage its text; null: none */
  lookAtDisk(shortage: string | null): void {
    const begins = shortage !== null && !this.#diskShort;
    this.#diskShort = shortage !== null;
    if (!begins) return;
    this.#options.store.transaction(() => {
      for (const id of this.appsWith('disk'))
        this.report(id, { kind: 'disk', type: 'disk.short', topic: 'disk', message: shortage });
    });
  }

  /**
   * Reports an outage of the bucket, or its end, to the alerts that have not reported it yet.
   * @param problem why the bucket cannot be used; null when it can
   */
  reportBucket(problem: string | null): void {
    const change: StateChange =
      problem === null
        ? { kind: 'bucket', type: 'bucket.back', message: 'The bucket can be used again.' }
        : {
            kind: 'bucket',
            type: 'bucket.away',
            hourly: true,
            message: `The bucket cannot be used, so apps with data there do not answer: ${problem}`,
          };
    this.#changeState([...this.#byId.values()], change, problem !== null);
  }

  /**
   * Reports which other hosts are silent (no longer report to the control plane), and which are back. Each alert reports each
   * change once. An app that comes from a silent host may bring alerts that have not reported the silence yet.
   * @param hosts all other hosts
   * @param silent the silent hosts to report: all except those that were shut down on purpose
   */
  reportHosts(hosts: readonly KnownHost[], silent: readonly KnownHost[]): void {
    const alerts = () => [...this.#byId.values()];
    for (const { id, name } of silent) {
      const message = `The host ${name} does not report any more. Its apps in the bucket start on other hosts.`;
      const event = { type: 'host.silent', message, details: { host: { id, name } } };
      this.#changeState(alerts(), { kind: 'host', host: id, hourly: true, ...event }, true);
    }
    for (const id of new Set(alerts().flatMap(({ silent_hosts }) => silent_hosts))) {
      const host = hosts.find((each) => each.id === id);
      if (host?.state === 'silent') continue;
      const message = host === undefined ? null : `The host ${host.name} is back.`;
      const event = { type: 'host.back', message, details: { host: { id, name: host?.name } } };
      this.#changeState(alerts(), { kind: 'host', host: id, ...event }, false);
    }
  }

  /**
   * Reports errors that are new, regressed or continuing, in batches of one transaction each: an app can have many at once.
   * Never rejects.
   */
  async reportErrors(groups: OpenGroup[]): Promise<void> {
    const heard = new Set(this.appsWith('error'));
    const reported = groups.filter(({ appId }) => heard.has(appId));
    for (let at = 0; at < reported.length; at += ERRORS_AT_ONCE) {
      if (at > 0) await setImmediate();
      try {
        this.#options.store.transaction(() => {
          for (const group of reported.slice(at, at + ERRORS_AT_ONCE)) this.#reportError(group);
        });
      } catch (error) {
        logRarely('error', 'alerts of errors could not be stored', { error: reason(error) });
      }
    }
  }

  #reportError({ appId, kind, message, place, release, ...group }: OpenGroup): void {
    this.report(appId, {
      kind: 'error',
      type: 'error.new',
      topic: `error ${group.fingerprint}`,
      message: `${kind}: ${message}${place === null ? '' : ` (${place})`}`,
      details: { error: { kind, place, ...group }, deploy: release === null ? null : { id: release } },
    });
  }

  /** Reports a process that ended by itself or did not start. */
  reportCrash(appId: string, { deployId, reason }: Pick<Failure, 'deployId' | 'reason'>): void {
    this.report(appId, {
      kind: 'crash',
      type: 'app.crashed',
      topic: 'crash',
      message: reason,
      details: { deploy: deployId === null ? null : { id: deployId } },
    });
  }

  /** Reports a failed certificate request for a domain of an app. */
  reportCertificate(appId: string, hostname: string, error: string): void {
    this.report(appId, {
      kind: 'certificate',
      type: 'certificate.failed',
      topic: `certificate ${hostname}`,
      message: `There is no certificate for ${hostname}: ${error}`,
      details: { hostname },
    });
  }

  /** Reports damaged snapshots to the apps that they cannot restore: once a week while the first damaged one is the same. */
  reportSnapshots(damaged: Verified['damaged']): void {
    for (const id of this.appsWith('snapshot')) {
      const keys = damaged
        .filter(({ parts }) => parts.some(({ app }) => app === null || app === id))
        .map(({ key }) => key);
      if (keys.length === 0) continue;
      this.report(id, {
        kind: 'snapshot',
        type: 'snapshot.damaged',
        topic: `snapshot ${keys[0]}`,
        message: `Snapshots are damaged, and cannot restore this app: ${keys.join(', ')}`,
        details: { snapshots: keys },
        once: true,
      });
    }
  }

  /**
   * Reports to each app that its snapshots fail, or succeed again.
   * @param problemOf returns why an app's last snapshot failed; null when it succeeded
   */
  reportSnapshot(problemOf: (appId: string) => string | null): void {
    for (const appId of this.appsWith('snapshot')) {
      const problem = problemOf(appId);
      for (const alert of this.list(appId)) {
        if (problem === null)
          this.end(alert, 'snapshot', 'snapshot.taken', 'A snapshot of the app was taken again.');
        else
          this.begin(alert, {
            kind: 'snapshot',
            type: 'snapshot.failed',
            message: `There is no new snapshot of the app: ${problem}`,
          });
      }
    }
  }

  /** Deletes topics that were last reported longer than `REMEMBERED_MS` ago. */
  tidy(): void {
    this.#options.store.alerts.forgetTopics(Date.now() - REMEMBERED_MS);
  }

  /**
   * @param state the state that the event begins or ends; null for other events
   * @returns whether a delivery was queued
   */
  #report(alert: Alert, happening: AlertEvent, state: string | null = null): boolean {
    const { alerts } = this.#options.store;
    const now = Date.now();
    const reported = alerts.topic(alert.id, happening.topic);
    // A time in the future was stored before the clock was set back. It counts as recent if it is less than an hour ahead.
    const isSoon = reported !== undefined && (happening.once || Math.abs(now - reported.told_at) < AGAIN_MS);
    if (isSoon || this.#isOverLimit(alert.id, happening.kind, now)) return false;
    const message = this.message(alert.app_id, happening, reported?.untold ?? 0);
    alerts.addDelivery(newId(), alert.id, message, now, state);
    alerts.recordTopic(alert.id, happening.topic, now);
    return true;
  }

  #isOverLimit(alertId: string, kind: AlertKind, now: number): boolean {
    const { all, errors } = this.#options.store.alerts.reportedBetween(alertId, now - HOUR_MS, now + HOUR_MS);
    return all >= REPORTS_AN_HOUR || (kind === 'error' && errors >= ERRORS_AN_HOUR);
  }

  #hear(fact: HostFact): void {
    if (fact.type === 'deploy') this.#hearDeploy(fact.deploy);
    if (fact.type === 'app') this.#hearApp(fact.app);
  }

  #hearDeploy({ id, app_id, status, error, sha, ref, trigger, message }: DeployFact): void {
    if (status !== 'failed') return;
    const slug = this.#options.describe(app_id)?.slug;
    const url = slug === undefined ? null : this.#options.deployUrl(slug, id);
    this.report(app_id, {
      kind: 'deploy',
      type: 'deploy.failed',
      topic: `deploy ${id}`,
      message: error ?? 'the deploy failed',
      details: { deploy: { id, sha, ref, trigger, subject: message, url } },
      once: true,
    });
  }

  /** Reports an app that was stopped for its disk use. */
  #hearApp({ id, process_state, last_error, live_deploy_id }: ObservedApp): void {
    if (last_error === null || process_state !== 'crashed' || !this.#options.store.held.has(id)) return;
    this.reportCrash(id, { deployId: live_deploy_id, reason: last_error });
  }

  #save(alert: Alert): Alert {
    this.#options.store.alerts.save(alert);
    this.#remember(alert);
    return alert;
  }

  #remember(alert: Alert): void {
    this.#byId.set(alert.id, alert);
    const others = this.list(alert.app_id).filter(({ id }) => id !== alert.id);
    this.#byApp.set(
      alert.app_id,
      [...others, alert].sort((one, other) => (one.id < other.id ? -1 : 1)),
    );
  }
}

/** Adds the default of each setting that an alert lacks, because an earlier version stored it. */
function withDefaults(alert: Alert): Alert {
  return { ...ALERT_DEFAULTS, ...alert };
}

function isFiring({ firing, silent_hosts }: Alert, { kind, host }: StateChange): boolean {
  return host === undefined ? firing.includes(kind) : silent_hosts.includes(host);
}

function withState(alert: Alert, { kind, host }: StateChange, begins: boolean): Alert {
  const silent_hosts = host === undefined ? alert.silent_hosts : toggled(alert.silent_hosts, host, begins);
  const fires = kind === 'host' ? silent_hosts.length > 0 : begins;
  return { ...alert, silent_hosts, firing: toggled(alert.firing, kind, fires) };
}

/** Returns a list with or without `item`. */
function toggled<Item>(list: readonly Item[], item: Item, isIn: boolean): Item[] {
  const others = list.filter((other) => other !== item);
  return isIn ? [...others, item] : others;
}
