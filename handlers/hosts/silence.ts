// Decides whether a host is lost.
import type { HostReport } from '../contract/host/hosts.ts';

/**
 * A host that has not reported for this time, in ms, is silent. A host that cannot report stops its apps with data in the
 * bucket earlier.
 */
export const SILENT_MS = 20_000;

/** The last report of a host, and when it came, in ms since 1970. */
export interface Heard {
  report: HostReport;
  at: number;
}

/** The last reports of all hosts. Times in ms since 1970. */
export interface Known {
  now: number;
  /** When the Durable Object of all hosts began to receive reports. */
  since: number;
  heard: ReadonlyMap<string, Heard>;
  /** Ids of hosts that are not silent yet. */
  ids: readonly string[];
}

/**
 * Whether a host is silent: it has not reported for `SILENT_MS`. A host without any report since `since` is silent earlier
 * under two conditions. No reporting host has got an answer from it for `SILENT_MS`, and the same is true of every other host
 * without a report.
 */
export function isSilent(id: string, { now, since, heard, ids }: Known): boolean {
  const own = heard.get(id);
  if (now - (own?.at ?? since) >= SILENT_MS) return true;
  if (own !== undefined) return false;
  const reports = [...heard.values()].map(({ report }) => report);
  const isUnanswered = (lost: string) =>
    reports.length > 0 &&
    reports.every(({ unanswered }) => unanswered.some((each) => each.id === lost && each.ms >= SILENT_MS));
  return isUnanswered(id) && ids.every((other) => heard.has(other) || isUnanswered(other));
}
