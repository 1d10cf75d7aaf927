// Rows of the host's alert tables: alerts, their topics, and pending deliveries to webhooks.
import type { Database } from 'better-sqlite3';
import type { Alert } from '../../handlers/contract/telemetry/alerts.ts';

/** A message to an alert's webhook. */
export interface DeliveryRow {
  id: string;
  alert_id: string;
  /** JSON, as it is sent each time. */
  body: string;
  /** Failed attempts. */
  attempts: number;
  /**
   * 1: the receiver may know the state already. The result of an attempt is unknown, the message replaced another one
   * about the state, or another machine may have sent it.
   */
  unsure: 0 | 1;
}

/** What an alert reports, such as crashes. */
export interface TopicRow {
  /** When it was last reported, in ms since 1970. */
  told_at: number;
  /** How often it happened since then. */
  untold: number;
}

export function alertQueries(database: Database) {
  const all = database.prepare<[], { alert: string }>('SELECT alert FROM alerts ORDER BY id');
  const save = database.prepare<[string, string, string]>(
    `INSERT INTO alerts (id, app_id, alert) VALUES (?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET alert = excluded.alert`,
  );
  const remove = database.prepare<[string]>('DELETE FROM alerts WHERE id = ?');
  const removeOfApp = database.prepare<[string]>('DELETE FROM alerts WHERE app_id = ?');
  const topic = database.prepare<[string, string], TopicRow>(
    'SELECT told_at, untold FROM alert_topics WHERE alert_id = ? AND topic = ?',
  );
  const report = database.prepare<[string, string, number]>(
    `INSERT INTO alert_topics (alert_id, topic, told_at, untold) VALUES (?, ?, ?, 0)
     ON CONFLICT (alert_id, topic) DO UPDATE SET told_at = excluded.told_at, untold = 0`,
  );
  const count = database.prepare<[string, string]>(
    'UPDATE alert_topics SET untold = untold + 1 WHERE alert_id = ? AND topic = ?',
  );
  const forget = database.prepare<[number]>('DELETE FROM alert_topics WHERE told_at < ?');
  const forgetTopic = database.prepare<[string, string]>(
    'DELETE FROM alert_topics WHERE alert_id = ? AND topic = ?',
  );
  const add = database.prepare<[string, string, string, number, string | null, 0 | 1]>(
    'INSERT INTO alert_deliveries (id, alert_id, body, next_at, state, unsure) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const dropState = database.prepare<[string, string, number]>(
    'DELETE FROM alert_deliveries WHERE alert_id = ? AND state = ? AND unsure <= ?',
  );
  const markSent = database.prepare<[string]>(
    'UPDATE alert_deliveries SET unsure = 1 WHERE id = ? AND state IS NOT NULL AND unsure = 0',
  );
  const reported = database.prepare<[string, number, number], { all: number; errors: number }>(
    `SELECT count(*) AS "all", count(*) FILTER (WHERE topic LIKE 'error %') AS errors
     FROM alert_topics WHERE alert_id = ? AND told_at > ? AND told_at < ?`,
  );
  // Jumps from alert to alert in the index, because each alert may have hundreds of deliveries.
  const due = database.prepare<{ at: number; beyond: number }, { alert: string }>(
    `WITH RECURSIVE waiting (alert) AS (
       SELECT min(alert_id) FROM alert_deliveries
       UNION ALL
       SELECT (SELECT min(alert_id) FROM alert_deliveries WHERE alert_id > alert) FROM waiting WHERE alert IS NOT NULL)
     SELECT alert FROM waiting WHERE alert IS NOT NULL
       AND (SELECT min(next_at) FROM alert_deliveries WHERE alert_id = alert) NOT BETWEEN @at + 1 AND @beyond`,
  );
  const first = database.prepare<[string], DeliveryRow>(
    'SELECT id, alert_id, body, attempts, unsure FROM alert_deliveries WHERE alert_id = ? ORDER BY next_at, id LIMIT 1',
  );
  const postpone = database.prepare<[number, 0 | 1, string]>(
    'UPDATE alert_deliveries SET attempts = attempts + 1, next_at = ?, unsure = ? WHERE id = ?',
  );
  const drop = database.prepare<[string]>('DELETE FROM alert_deliveries WHERE id = ?');

  return {
    /** Returns every alert, oldest first. */
    all: (): Alert[] => all.all().map(({ alert }) => JSON.parse(alert) as Alert),
    save: (alert: Alert): void => {
      save.run(alert.id, alert.app_id, JSON.stringify(alert));
    },
    /** Removes an alert with its topics and deliveries. */
    delete: (id: string): void => {
      remove.run(id);
    },
    deleteOfApp: (appId: string): void => {
      removeOfApp.run(appId);
    },
    /** Returns a topic of an alert; undefined when it was never reported, or long ago. */
    topic: (alertId: string, name: string): TopicRow | undefined => topic.get(alertId, name),
    /** Records that a topic is reported at `at`, in ms since 1970. */
    recordTopic: (alertId: string, name: string, at: number): void => {
      report.run(alertId, name, at);
    },
    /** Counts an occurrence that is not reported, if its topic was reported before. */
    countTopic: (alertId: string, name: string): void => {
      count.run(alertId, name);
    },
    /** Removes topics last reported before a time, in ms since 1970. */
    forgetTopics: (before: number): void => {
      forget.run(before);
    },
    /**
     * Adds a delivery, to be sent from `at` on, in ms since 1970.
     * @param state the state whose begin or end it reports. An earlier pending delivery about that state is dropped
     */
    addDelivery: (
      id: string,
      alertId: string,
      body: string,
      at: number,
      state: string | null = null,
    ): void => {
      const replaces = state !== null && dropState.run(alertId, state, 1).changes > 0;
      // If the dropped message reported an end, the receiver may still know the earlier begin, and needs the next end.
      // `unsure` stops `dropUnsent` from dropping this message in place of that end.
      add.run(id, alertId, body, at, state, replaces ? 1 : 0);
    },
    /**
     * Drops the delivery about a state if its `unsure` is 0: then the receiver has no message about the state. Also removes the
     * topic of the same name, because it was not reported.
     * @returns whether it was dropped
     */
    dropUnsent: (alertId: string, state: string): boolean => {
      if (dropState.run(alertId, state, 0).changes === 0) return false;
      forgetTopic.run(alertId, state);
      return true;
    },
    /** Sets `unsure` of a delivery that reports a begin or an end, until its result is known. Call it before sending. */
    markSent: (id: string): void => {
      markSent.run(id);
    },
    /** Counts an alert's topics last reported between two times, in ms since 1970. `errors`: those about errors. */
    reportedBetween: (alertId: string, from: number, to: number): { all: number; errors: number } =>
      reported.get(alertId, from, to)!,
    /**
     * Returns ids of alerts whose next delivery is due at `at` or earlier, or only after `beyond`: then the clock was set
     * back. Times are ms since 1970.
     */
    due: (at: number, beyond: number): string[] => due.all({ at, beyond }).map(({ alert }) => alert),
    /** Returns the delivery of an alert that is due first; undefined when there is none. */
    firstDelivery: (alertId: string): DeliveryRow | undefined => first.get(alertId),
    /**
     * Records that a delivery failed, and its next attempt at `at`, in ms since 1970.
     * @param unsure 1 if the receiver may have the message
     */
    postpone: (id: string, at: number, unsure: 0 | 1): void => {
      postpone.run(at, unsure, id);
    },
    dropDelivery: (id: string): void => {
      drop.run(id);
    },
  };
}
