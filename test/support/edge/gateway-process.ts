// Runs only the gateway, so that a benchmark can measure it. It has rate limits, an access log and a request count, as in the
// host. Arguments: the upstream's unix socket, the access log's file, and optionally a directory, which turns telemetry on.
// TIMEOUTS=off turns the timeouts for slow clients off. Prints its port. On SIGUSR2 it runs the garbage collector, and prints
// its memory usage.
import { runInNewContext } from 'node:vm';
import { Gateway } from '../../../runtime/edge/gateway.ts';
import { accessLines } from '../../../runtime/edge/log/access-line.ts';
import { AccessLog } from '../../../runtime/edge/log/access-log.ts';
import type { Backend } from '../../../runtime/edge/upstream/backend.ts';
import { Upstream } from '../../../runtime/edge/upstream/upstream.ts';
import { Activity } from '../../../runtime/fleets/due/activity.ts';
import { Telemetry } from '../../../runtime/telemetry/telemetry.ts';
import { threadOptions } from '../telemetry/options.ts';

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
// A benchmark sends all requests from one address. The gateway counts them for the rate limits, which are never reached.
const limits = { site: 'app', clientRpm: 10_000_000, appRpm: 10_000_000 };
const accessLog = new AccessLog(logPath, accessLines(null));
const gateway = new Gateway({
  resolve: () => ({ kind: 'proxy', backend, limits }),
  holdTimeoutMs: 1_000,
});
if (process.env.TIMEOUTS === 'off') gateway.sweep = () => {};
gateway.onEnd((record) => accessLog.write(record));
if (telemetryPath !== undefined) {
  const telemetry = new Telemetry(threadOptions(telemetryPath));
  telemetry.start();
  gateway.onEnd((record) => telemetry.record(record));
}
console.log(await gateway.listen(0, '127.0.0.1'));
process.on('SIGUSR2', () => {
  // The function `gc` exists, because the gateway has set V8's flag `--expose-gc`.
  runInNewContext('gc')();
  console.log(JSON.stringify(process.memoryUsage()));
});
