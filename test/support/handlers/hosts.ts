// Reports of hosts, for tests.
import type { HostLoad, HostReport } from '../../../handlers/contract/host/hosts.ts';

export const LOAD: HostLoad = {
  memory_free_bytes: 8 * 2 ** 30,
  memory_total_bytes: 16 * 2 ** 30,
  cpu: 0.05,
  disk_free_bytes: 100 * 2 ** 30,
  disk_total_bytes: 400 * 2 ** 30,
  apps: 0,
  running: 0,
};

export function reportOf(id: string, changed: Partial<HostReport> = {}): HostReport {
  return {
    protocol: 1,
    id,
    name: `box-${id}`,
    address: `10.0.0.1:9000`,
    version: '1.0.0',
    started_at: '2026-01-01T00:00:00.000Z',
    load: LOAD,
    clock_ahead_ms: null,
    unanswered: [],
    awaited: [],
    revision: 0,
    adopts: true,
    ...changed,
  };
}
