// A gateway alone in a process, to be measured, with limits, access log and the count of requests as the host has them:
// sends every request to the unix socket named by the first argument, logs to the file named by the second, and prints
// its port. With a third argument telemetry is on too, and keeps its files in that directory. On SIGUSR2 it collects garbage and prints what memory is left in use.
import { runInNewContext } from 'node:vm';
import { Gateway } from '../../../runtime/edge/gateway.ts';
import { ACCESS_LINES } from '../../../runtime/edge/log/access-line.ts';
import { AccessLog } from '../../../runtime/edge/log/access-log.ts';
import type { Backend } from '../../../runtime/edge/upstream/backend.ts';
import { Upstream } from '../../../runtime/edge/upstream/upstream.ts';
import { Activity } from '../../../runtime/fleets/due/activity.ts';
import { Telemetry } from '../../../runtime/telemetry/telemetry.ts';

const [socketPath, logPath, telemetryPath] = process.argv.slice(2);
if (socketPath === undefined || logPath === undefined) {
  throw new Error('usage: gateway-process.ts <unix socket> <access log> [directory of telemetry]');
}
const upstream = new Upstream({ socketPath });
const activity = new Activity(Number.POSITIVE_INFINITY, null);
const backend: Backend = {
  site: 'app',
  admit: () => {
    activity.requests++;
    return { kind: 'forward', upstream };
  },
};
// One client makes all the load: its limit is counted, and never reached.
const limits = { site: 'app', clientRpm: 10_000_000, appRpm: 10_000_000 };
const accessLog = new AccessLog(logPath, ACCESS_LINES);
const gateway = new Gateway({
  resolve: () => ({ kind: 'proxy', backend, limits }),
  holdTimeoutMs: 1_000,
});
gateway.onEnd((record) => accessLog.write(record));
if (telemetryPath !== undefined) {
  const telemetry = new Telemetry({
    directory: telemetryPath,
    retentionDays: 30,
    otlp: null,
    releases: '/nowhere',
    fleetLog: 'error',
  });
  telemetry.start();
  gateway.onEnd((record) => telemetry.record(record));
}
console.log(await gateway.listen(0, '127.0.0.1'));
process.on('SIGUSR2', () => {
  // `gc` is there because the gateway asked for it.
  runInNewContext('gc')();
  console.log(JSON.stringify(process.memoryUsage()));
});
