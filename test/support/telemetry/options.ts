import type { ThreadOptions } from '../../../runtime/telemetry/protocol.ts';

/** Returns the options of a host's telemetry without exports and copies. */
export function threadOptions(directory: string): ThreadOptions {
  return {
    directory,
    retentionDays: 30,
    otlp: null,
    bucket: null,
    host: null,
    releases: '/nowhere',
    fleetLog: 'error',
  };
}
