// Reports that another host is silent, and that it is back. Each host reports to the alerts of the apps that it runs.
import type { KnownHost } from '../../handlers/contract/host/hosts.ts';
import type { Alerts } from './alerts.ts';

/** Minimum time between two reported outages of a host, in ms. */
const AGAIN_MS = 3_600_000;
/** A host that becomes silent within this time after draining, in ms, was shut down on purpose. */
const DRAINED_MS = 60_000;

/** The last known state of another host. Times are in ms, of a monotonic clock. */
interface Seen {
  isSilent: boolean;
  /** Whether it became silent right after draining. */
  isDrained: boolean;
  /** When it was last seen to drain. */
  drainedAt: number;
  /** When an outage was last reported. */
  reportedAt: number;
  /** The apps that the present outage was reported to; null when it is not reported. */
  told: Set<string> | null;
}

const UNKNOWN: Seen = {
  isSilent: false,
  isDrained: false,
  drainedAt: Number.NEGATIVE_INFINITY,
  reportedAt: Number.NEGATIVE_INFINITY,
  told: null,
};

export class HostOutages {
  readonly #alerts: Pick<Alerts, 'appsWith' | 'reportHost'>;
  #seen = new Map<string, Seen>();

  constructor(alerts: Pick<Alerts, 'appsWith' | 'reportHost'>) {
    this.#alerts = alerts;
  }

  /**
   * Reports which hosts have become silent, and which are back. Call it about once a second.
   * @param hosts the other hosts
   * @param now in ms, of a monotonic clock
   */
  look(hosts: readonly KnownHost[], now = performance.now()): void {
    const before = this.#seen;
    this.#seen = new Map(
      hosts.map((host) => [host.id, this.#next(host, before.get(host.id) ?? UNKNOWN, now)]),
    );
  }

  #next(host: KnownHost, before: Seen, now: number): Seen {
    if (host.state !== 'silent') {
      if (before.told !== null) this.#alerts.reportHost([...before.told], host, 'back');
      const drainedAt = host.state === 'draining' ? now : before.drainedAt;
      return { ...before, isSilent: false, drainedAt, told: null };
    }
    const isDrained = before.isSilent ? before.isDrained : now - before.drainedAt < DRAINED_MS;
    const seen = { ...before, isSilent: true, isDrained };
    if (isDrained || (before.told === null && now - before.reportedAt < AGAIN_MS)) return seen;
    // Also reports to apps that have come to this host during the outage, such as apps of the silent host.
    const told = before.told ?? new Set<string>();
    const apps = this.#alerts.appsWith('host').filter((id) => !told.has(id));
    if (apps.length > 0) this.#alerts.reportHost(apps, host, 'silent');
    const reportedAt = before.told === null ? now : before.reportedAt;
    return { ...seen, reportedAt, told: new Set([...told, ...apps]) };
  }
}
