// Calls the host about an app's alerts.

import type { AlertSettings, HostCalls } from '../../contract/host/host-routes.ts';
import type { Alert, AlertDelivery } from '../../contract/telemetry/alerts.ts';
import type { HostConnection } from './connection.ts';

/** Longer than the host's timeout for the webhook. */
const TEST_ALERT_DEADLINE_MS = 15_000;

export class Alerts {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** An app's alerts, oldest first. */
  async list(appId: string): Promise<Alert[]> {
    return this.#host.json('GET /apps/:id/alerts', [appId]);
  }

  /** @throws {Problem} `quota_exceeded` */
  async add(
    appId: string,
    body: HostCalls['POST /apps/:id/alerts']['body'],
  ): Promise<Alert & { secret: string }> {
    return this.#host.json('POST /apps/:id/alerts', [appId], { body, refusals: ['quota_exceeded'] });
  }

  /** @throws {Problem} `alert_not_found` */
  async change(appId: string, alertId: string, body: AlertSettings): Promise<Alert> {
    return this.#host.json('PUT /apps/:id/alerts/:alert', [appId, alertId], {
      body,
      refusals: ['alert_not_found'],
    });
  }

  /** @throws {Problem} `alert_not_found` */
  async delete(appId: string, alertId: string): Promise<void> {
    await this.#host.call('DELETE /apps/:id/alerts/:alert', [appId, alertId], {
      refusals: ['alert_not_found'],
    });
  }

  /** @throws {Problem} `alert_not_found`, `rate_limited` */
  async test(appId: string, alertId: string): Promise<AlertDelivery> {
    const refusals = ['alert_not_found', 'rate_limited'] as const;
    const options = { refusals, deadlineMs: TEST_ALERT_DEADLINE_MS };
    return this.#host.json('POST /apps/:id/alerts/:alert/test', [appId, alertId], options);
  }
}
