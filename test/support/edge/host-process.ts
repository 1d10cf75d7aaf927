// Runs only the two gateways (edge and private) of one of several hosts, so that a benchmark can measure them. They write an
// access log, as in the host.
// Arguments: the host's name, its private address, the access log's file, and the app's unix socket if the app is here.
// Prints the port of the edge, and its own entry for the list of known hosts, as JSON. Each line of its standard input is a
// `HostReportAnswer` with the known hosts and apps.
import { createInterface } from 'node:readline';
import type { HostReportAnswer } from '../../../handlers/contract/host/hosts.ts';
import { accessLines } from '../../../runtime/edge/log/access-line.ts';
import { AccessLog } from '../../../runtime/edge/log/access-log.ts';
import { APP, backendOf, TestHost } from './hosts.ts';

const [name, address, logPath, socketPath] = process.argv.slice(2);
if (name === undefined || address === undefined || logPath === undefined) {
  throw new Error('usage: host-process.ts <name> <private address> <access log> [unix socket]');
}
const accessLog = new AccessLog(logPath, accessLines(name));
const host = new TestHost(name);
for (const gateway of [host.edge, host.fromHosts]) gateway.onEnd((record) => accessLog.write(record));
if (socketPath !== undefined) host.add(APP, backendOf(socketPath));
await host.start(address);
console.log(JSON.stringify({ port: host.port, known: host.known }));
createInterface({ input: process.stdin }).on('line', (line) =>
  host.homes.take(JSON.parse(line) as HostReportAnswer),
);
