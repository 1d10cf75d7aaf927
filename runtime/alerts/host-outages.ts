// Reports that another host is silent, and that it is back. Each host reports to the alerts of the apps that it runs.
import type { KnownHost } from '../../handlers/contract/host/hosts.ts';
import type { Alerts } from './alerts.ts';

/** A host that becomes silent within this time after draining, in ms, was shut down on purpose. */
const DRAINED_MS = 60_000;

/** The last known state of another host. */
interface Seen {
  isSilent: boolean;
  /** Whether it became silent right after draining. */
  isDrained: boolean;
  /** When it was last seen to drain, in ms, of a monotonic clock. */
  drainedAt: number;
}

const UNKNOWN: Seen = { isSilent: false, isDrained: false, drainedAt: Number.NEGATIVE_INFINITY };

export class HostOutages {
  readonly #alerts: Pick<Alerts, 'reportHosts'>;
  #seen = new Map<string, Seen>();

  constructor(alerts: Pick<Alerts, 'reportHosts'>) {
    this.#alerts = alerts;
  }

  /**
   * Reports which hosts are silent, and which are back. Call it about once a second.
   * @param hosts the other hosts
   * @param now in ms, of a monotonic clock
   */
  look(hosts: readonly KnownHost[], now = performance.now()): void {
    const before = this.#seen;
    this.#seen = new Map(hosts.map((host) => [host.id, next(host, before.get(host.id) ?? UNKNOWN, now)]));
    const silent = hosts.filter(({ id, state }) => state === 'silent' && !this.#seen.get(id)!.isDrained);
    this.#alerts.reportHosts(hosts, silent);
  }
}

function next({ state }: KnownHost, before: Seen, now: number): Seen {
  if (state !== 'silent')
    return { isSilent: false, isDrained: false, drainedAt: state === 'draining' ? now : before.drainedAt };
  if (before.isSilent) return before;
  return { ...before, isSilent: true, isDrained: now - before.drainedAt < DRAINED_MS };
}
