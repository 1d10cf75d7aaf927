// Delivers the messages of alerts to webhooks and e-mail addresses. Retries a failed delivery up to five times.
import { newId } from '../../handlers/contract/id.ts';
import { formatOf, recipientOf } from '../../handlers/contract/telemetry/alert-format.ts';
import type { Alert, AlertDelivery } from '../../handlers/contract/telemetry/alerts.ts';
import type { DeliveryRow } from '../../sqlite/host/alerts.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import { log, logRarely, reason } from '../log.ts';
import { type Mailer, withoutAddresses } from '../mail/mail.ts';
import { Refusal } from '../refusal.ts';
import type { Alerts } from './alerts.ts';
import { mailOf, written } from './formats.ts';
import { type DeliveryResult, type Reach, send } from './webhook.ts';

/** Retry delays in ms. After the last one the delivery is dropped. */
const RETRIES_MS = [10_000, 60_000, 600_000, 3_600_000, 21_600_000];
/** Maximum time until a delivery is due, in ms. A later one was stored before the clock was set back, and is due now. */
const LATEST_MS = RETRIES_MS.at(-1)! + 60_000;
/** Maximum concurrent deliveries, at most one per alert. A webhook that does not respond occupies one for 10 s. */
const AT_ONCE = 32;
/** Maximum concurrent deliveries of one account. */
const OF_ACCOUNT = 16;
/** Maximum alerts and accounts in `#turns`. Over it, `#turns` is emptied. */
const TURNS = 20_000;
/** Maximum results in `#unstored`. Over it, `#unstored` is emptied. */
const UNSTORED = 20_000;
/** Minimum ms between two tests of an app's alerts. */
const TEST_EVERY_MS = 2_000;
const TIDY_EVERY_MS = 3_600_000;

export interface DeliveriesOptions {
  alerts: Alerts;
  store: HostStore;
  reach: Reach;
  mailer: Pick<Mailer, 'send'>;
  /** Returns the id of an app's account. */
  ownerOf: (appId: string) => string;
}

interface Running {
  owner: string;
  done: Promise<void>;
}

export class Deliveries {
  readonly #options: DeliveriesOptions;
  /** Running deliveries, by alert. */
  readonly #underway = new Map<string, Running>();
  /** Sequence number of the last delivery of each alert and account. The smallest has waited longest, and comes first. */
  readonly #turns = new Map<string, number>();
  #lastTurn = 0;
  /** Results that could not be stored yet, by delivery. Until they are, the delivery's message is not sent again. */
  readonly #unstored = new Map<string, AlertDelivery>();
  readonly #testedAt = new Map<string, number>();
  readonly #ending = new AbortController();
  #tidiedAt = Number.NEGATIVE_INFINITY;

  constructor(options: DeliveriesOptions) {
    this.#options = options;
  }

  /** Number of running deliveries. */
  get underway(): number {
    return this.#underway.size;
  }

  /** Sends the due deliveries. Call it about once a second. */
  tick(): void {
    const { alerts, store } = this.#options;
    if (!alerts.any || this.#ending.signal.aborted) return;
    const free = AT_ONCE - this.#underway.size;
    if (free <= 0) return;
    try {
      const now = Date.now();
      for (const id of this.#next(store.alerts.due(now, now + LATEST_MS), free))
        this.#begin(store.alerts.firstDelivery(id)!);
      if (performance.now() - this.#tidiedAt < TIDY_EVERY_MS) return;
      this.#tidiedAt = performance.now();
      alerts.tidy();
    } catch (error) {
      logRarely('error', 'alerts could not be delivered', { error: reason(error) });
    }
  }

  /**
   * Sends a test message of an alert, without retries.
   * @throws {Refusal} `alert_not_found`, `rate_limited`
   */
  async test(appId: string, alertId: string): Promise<AlertDelivery> {
    const { alerts } = this.#options;
    const alert = alerts.require(appId, alertId);
    const now = performance.now();
    if (now - (this.#testedAt.get(appId) ?? Number.NEGATIVE_INFINITY) < TEST_EVERY_MS) {
      throw new Refusal(429, 'rate_limited', `an alert was tested within the last ${TEST_EVERY_MS / 1000} s`);
    }
    this.#testedAt.set(appId, now);
    setTimeout(() => this.#testedAt.delete(appId), TEST_EVERY_MS).unref();
    const type = 'alert.test';
    const message = 'This is a test of an alert. Nothing has happened.';
    const sent = await this.#send(alert, newId(), alerts.message(appId, { type, message }, 0));
    const delivery = { at: new Date().toISOString(), type, ...sent };
    alerts.delivered(alertId, delivery);
    return delivery;
  }

  /** Aborts running deliveries. The next host process sends their messages again. */
  async stop(): Promise<void> {
    this.#ending.abort(new Error('the host is stopping'));
    await Promise.all([...this.#underway.values()].map(({ done }) => done));
  }

  /** Returns the alerts to deliver next, at most `free`. Accounts take turns, and so do the alerts of each account. */
  #next(due: string[], free: number): string[] {
    const turn = (id: string) => this.#turns.get(id) ?? 0;
    const waiting = Map.groupBy(
      due.filter((id) => !this.#underway.has(id)),
      (id) => this.#ownerOf(id),
    );
    const running = [...this.#underway.values()].map(({ owner }) => owner);
    const queued = [...waiting].flatMap(([owner, ids]) => {
      const first = running.filter((other) => other === owner).length;
      ids.sort((one, other) => turn(one) - turn(other));
      return ids
        .slice(0, Math.max(0, OF_ACCOUNT - first))
        .map((id, at) => ({ id, round: first + at, turn: turn(owner) }));
    });
    return queued
      .sort((one, other) => one.round - other.round || one.turn - other.turn)
      .slice(0, free)
      .map(({ id }) => id);
  }

  #ownerOf(alertId: string): string {
    const alert = this.#options.alerts.find(alertId);
    return alert === undefined ? '' : this.#options.ownerOf(alert.app_id);
  }

  #begin(row: DeliveryRow): void {
    const owner = this.#ownerOf(row.alert_id);
    if (this.#turns.size > TURNS) this.#turns.clear();
    this.#turns.set(row.alert_id, ++this.#lastTurn).set(owner, this.#lastTurn);
    const done = this.#deliver(row)
      .catch((error: unknown) =>
        logRarely('error', 'a delivery of an alert could not be stored', { error: reason(error) }),
      )
      .finally(() => this.#underway.delete(row.alert_id));
    this.#underway.set(row.alert_id, { owner, done });
  }

  async #deliver({ id, alert_id, body, attempts, unsure }: DeliveryRow): Promise<void> {
    const { alerts, store } = this.#options;
    const alert = alerts.find(alert_id);
    // The alert was deleted, and its deliveries with it.
    if (alert === undefined) return;
    const sent = this.#unstored.get(id) ?? (await this.#attempt(alert, id, body));
    if (sent === null) return;
    const retryMs = RETRIES_MS[attempts];
    if (this.#unstored.size > UNSTORED) this.#unstored.clear();
    this.#unstored.set(id, sent);
    store.transaction(() => {
      if (sent.error !== null && retryMs !== undefined)
        // A receiver that answers with an error status has not accepted the message.
        store.alerts.postpone(id, Date.now() + retryMs, sent.status === null ? 1 : unsure);
      else store.alerts.dropDelivery(id);
      alerts.delivered(alert_id, sent);
    });
    this.#unstored.delete(id);
    if (sent.error !== null)
      log('warn', 'an alert could not be delivered', {
        app: alert.app_id,
        alert: alert_id,
        error: withoutAddresses(sent.error),
        retry_ms: retryMs ?? null,
      });
  }

  /** Sends a message once, and returns the result; null when it failed while the host was stopping. */
  async #attempt(alert: Alert, id: string, body: string): Promise<AlertDelivery | null> {
    this.#options.store.alerts.markSent(id);
    const sent = await this.#send(alert, id, body);
    if (this.#ending.signal.aborted && sent.error !== null) return null;
    const { type } = JSON.parse(body) as { type: string };
    return { at: new Date().toISOString(), type, ...sent };
  }

  async #send(alert: Alert, id: string, text: string): Promise<DeliveryResult> {
    const { alerts, mailer, reach } = this.#options;
    const format = formatOf(alert);
    if (format === 'email') {
      const error = await mailer.send(mailOf(recipientOf(alert.url)!, text), alert.app_id);
      return { status: null, error };
    }
    const message = { id: `msg_${id}`, secret: alerts.secret(alert.id), ...written(format, text) };
    return send(alert.url, message, reach, this.#ending.signal);
  }
}
