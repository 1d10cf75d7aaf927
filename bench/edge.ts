// The gateway's cost beside other reverse proxies, one thread each: small and large answers and an upload of one
// workerd on a unix socket. The rounds of one run alternate, so that the ratios hold on a busy machine.
// All write an access log. The gateway also has rate limits, request ids and counters; a second nginx is configured to do the
// same. A relay that only forwards bytes shows the cost of Node itself. The last part opens many connections at once.
import { startGatewayProcess, startWorkerd } from '../test/support/edge/peers.ts';
import { effort, isQuick, words } from './support/bench-scale.ts';
import { median } from './support/figures.ts';
import { type Asked, cpuMs, crowd, type Load, load, loadName } from './support/load.ts';
import { BARE_RELAY, BUSY_NGINX, CADDY, HAPROXY, NGINX, startProxy } from './support/proxies.ts';

const ROUNDS = effort(5, 1);
const SECONDS = effort(2, 1);
const CROWD = effort(2_000, 100);
const CROWD_ROUNDS = effort(3, 1);
const CROWD_SECONDS = effort(5, 1);
/** Argument that selects the part with many connections. */
const CROWD_NAME = 'crowd';
/** Maximum p99 of the gateway with many connections, as a multiple of HAProxy's. */
const CROWD_TARGET = 2;
const APP = `
const bodies = new Map([1024, 65536, 1048576].map((size) => ['/' + size, 'x'.repeat(size)]));
export default {
  async fetch(request) {
    if (request.method === 'POST') {
      for await (const part of request.body);
      return new Response('taken');
    }
    return new Response(bodies.get(new URL(request.url).pathname) ?? bodies.get('/1024'));
  },
};
`;
/** Requests, and the maximum ratios of the gateway's CPU time per request to other proxies'. */
const MIXES: { name: string; asked: Asked; targets: Record<string, number> }[] = [
  { name: '1 KB GET', asked: { path: '/1024' }, targets: { caddy: 0.5, 'nginx doing as much': 1.1 } },
  { name: '64 KB GET', asked: { path: '/65536' }, targets: { caddy: 0.5 } },
  {
    name: '64 KB POST',
    asked: { path: '/', body: 'x'.repeat(65_536) },
    targets: { 'nginx doing as much': 1.1 },
  },
  { name: '1 MB GET', asked: { path: '/1048576' }, targets: { caddy: 1 } },
];

interface Subject {
  name: string;
  port: number;
  pid: number;
}

type Result = Load & { cpuUs: number };

/**
 * Prints requests/s, latency and CPU time per request of each proxy and mix, and the ratios. An argument limits the
 * mixes to those whose name contains it: `npm run bench -- edge POST`; `crowd` for many connections.
 */
export async function run(): Promise<void> {
  const [wanted = ''] = words;
  await using cell = await startWorkerd(APP);
  await using gateway = await startGatewayProcess(cell.socketPath);
  await using caddy = await startProxy(CADDY, cell.socketPath);
  await using nginx = await startProxy(NGINX, cell.socketPath);
  await using busy = await startProxy(BUSY_NGINX, cell.socketPath);
  await using other = await startProxy(HAPROXY, cell.socketPath);
  await using relay = await startProxy(BARE_RELAY, cell.socketPath);
  const subjects: Subject[] = [
    { name: 'gateway', port: gateway.port, pid: gateway.pid },
    caddy,
    nginx,
    busy,
    other,
    relay,
  ];
  console.log(`workerd on a unix socket, ${loadName}, medians of ${ROUNDS} rounds of ${SECONDS} s`);
  console.log(`${''.padEnd(40)}requests/s    p50 ms    p99 ms  CPU µs/request`);
  const mixes = MIXES.filter(({ name }) => name.includes(wanted));
  for (const { name, asked, targets } of mixes.slice(0, effort(mixes.length, 1))) {
    if (!isQuick) for (const { port } of subjects) await load(port, SECONDS, asked);
    const results = await rounds(subjects, ROUNDS, (port) => load(port, SECONDS, asked));
    report(name, subjects, results);
    compare(subjects, results, targets);
  }
  if (CROWD_NAME.includes(wanted)) await runCrowd(subjects);
}

/** Opens many connections; only some send requests at the same time. The first wave also opens them. */
async function runCrowd(subjects: Subject[]): Promise<void> {
  const results = await rounds(subjects, CROWD_ROUNDS, async (port) => {
    const { errors, ...result } = await crowd(port, CROWD_SECONDS, CROWD);
    if (errors > 0) console.log(`${errors} errors at port ${port}`);
    return result;
  });
  report(`${CROWD.toLocaleString('en')} open`, subjects, results);
  const haproxy = subjects.findIndex(({ name }) => name.startsWith('haproxy'));
  const ratio = median(results[0]!.map(({ p99Ms }, round) => p99Ms / results[haproxy]![round]!.p99Ms));
  console.log(
    `  gateway / haproxy: p99 ${ratio.toFixed(2)} (target at most ${CROWD_TARGET}: ${ratio <= CROWD_TARGET ? 'met' : 'missed'})`,
  );
}

/** Runs alternating rounds. @returns the results of each proxy */
async function rounds(
  subjects: Subject[],
  count: number,
  ask: (port: number) => Promise<Load>,
): Promise<Result[][]> {
  const results = subjects.map((): Result[] => []);
  for (let round = 0; round < count; round++) {
    for (const [i, { port, pid }] of subjects.entries()) {
      const before = cpuMs(pid);
      const result = await ask(port);
      results[i]!.push({ ...result, cpuUs: ((cpuMs(pid) - before) * 1000) / result.requests });
    }
  }
  return results;
}

function report(mix: string, subjects: Subject[], results: Result[][]): void {
  for (const [i, { name }] of subjects.entries()) {
    const column = (pick: (result: Result) => number, digits: number, width: number): string =>
      median(results[i]!.map(pick)).toFixed(digits).padStart(width);
    console.log(
      `${mix}, ${name}`.padEnd(40) +
        column((result) => result.requestsPerSecond, 0, 10) +
        column((result) => result.p50Ms, 2, 10) +
        column((result) => result.p99Ms, 2, 10) +
        column((result) => result.cpuUs, 0, 16),
    );
  }
}

function compare(
  subjects: Subject[],
  [gateway, ...others]: Result[][],
  targets: Record<string, number>,
): void {
  for (const [i, results] of others.entries()) {
    const { name } = subjects[i + 1]!;
    const ratio = (pick: (result: Result) => number): number =>
      median(gateway!.map((result, round) => pick(result) / pick(results[round]!)));
    const cpu = ratio((result) => result.cpuUs);
    const target = targets[name.replace(/ [\d.]+$/, '')];
    console.log(
      `  gateway / ${name}: requests/s ${ratio((result) => result.requestsPerSecond).toFixed(2)}, ` +
        `p99 ${ratio((result) => result.p99Ms).toFixed(2)}, CPU ${cpu.toFixed(2)}` +
        (target === undefined ? '' : ` (target at most ${target}: ${cpu <= target ? 'met' : 'missed'})`),
    );
  }
}
