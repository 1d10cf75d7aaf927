// What the gateway costs beside Caddy's reverse proxy, one thread each: small and large answers and an upload of one
// workerd on a unix socket, in alternating rounds of one run, so that the ratios hold on a machine that others use too.
// Both write an access log; the gateway has its rate limits and the count of requests as well. At the end many
// connections at once.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { startGatewayProcess, startWorkerd, temporary } from '../test/support/edge/peers.ts';
import { effort, words } from './effort.ts';
import { type Asked, cpuMs, crowd, type Load, load, loadName } from './load.ts';

const ROUNDS = effort(5, 1);
const SECONDS = effort(2, 1);
const CROWD = effort(2_000, 100);
const CROWD_SECONDS = effort(5, 1);
/** Longest wait for Caddy to listen, in ms. */
const START_MS = 10_000;
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
/** What is asked for, and how much of Caddy's CPU per request the gateway may take for it. */
const MIXES: { name: string; asked: Asked; target: number }[] = [
  { name: '1 KB GET', asked: { path: '/1024' }, target: 0.5 },
  { name: '64 KB GET', asked: { path: '/65536' }, target: 0.5 },
  { name: '64 KB POST', asked: { path: '/', body: 'x'.repeat(65_536) }, target: 0.5 },
  { name: '1 MB GET', asked: { path: '/1048576' }, target: 1 },
];

interface Subject {
  name: string;
  port: number;
  pid: number;
}

type Result = Load & { cpuUs: number };

/**
 * Prints requests/s, latency and CPU per request of gateway and Caddy for each mix, and the ratios. With a part of a
 * mix's name as argument, only of such mixes: `npm run bench -- edge POST`.
 */
export async function run(): Promise<void> {
  const [wanted = ''] = words;
  const version = spawnSync('caddy', ['version'], { encoding: 'utf8' });
  if (version.error) {
    throw new Error('this bench compares with Caddy: install it with `apt-get install caddy` (and `wrk`)');
  }
  await using cell = await startWorkerd(APP);
  await using gateway = await startGatewayProcess(cell.socketPath);
  await using caddy = await startCaddy(cell.socketPath);
  const subjects: Subject[] = [
    { name: 'gateway', port: gateway.port, pid: gateway.pid },
    { name: `Caddy ${version.stdout.split(' ')[0]!.trim()}`, port: caddy.port, pid: caddy.pid },
  ];
  console.log(`workerd on a unix socket, ${loadName}, medians of ${ROUNDS} rounds of ${SECONDS} s`);
  console.log(`${''.padEnd(24)}requests/s    p50 ms    p99 ms  CPU µs/request`);
  for (const { name, asked, target } of MIXES.filter(({ name }) => name.includes(wanted))) {
    for (const { port } of subjects) await load(port, SECONDS, asked);
    const results = subjects.map((): Result[] => []);
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, subject] of subjects.entries()) results[i]!.push(await measure(subject, asked));
    }
    report(name, subjects, results, target);
  }
  for (const { name, port } of subjects) {
    const { requestsPerSecond, p99Ms, errors } = await crowd(port, CROWD_SECONDS, CROWD);
    console.log(
      `${CROWD.toLocaleString('en')} connections, ${name}: ${requestsPerSecond.toFixed(0)} requests/s, ` +
        `p99 ${p99Ms.toFixed(0)} ms, ${errors} errors`,
    );
  }
}

async function measure({ port, pid }: Subject, asked: Asked): Promise<Result> {
  const before = cpuMs(pid);
  const result = await load(port, SECONDS, asked);
  return { ...result, cpuUs: ((cpuMs(pid) - before) * 1000) / result.requests };
}

function report(mix: string, subjects: Subject[], results: Result[][], target: number): void {
  for (const [i, { name }] of subjects.entries()) {
    const column = (pick: (result: Result) => number, digits: number, width: number): string =>
      median(results[i]!.map(pick)).toFixed(digits).padStart(width);
    console.log(
      `${mix}, ${name}`.padEnd(24) +
        column((result) => result.requestsPerSecond, 0, 10) +
        column((result) => result.p50Ms, 2, 10) +
        column((result) => result.p99Ms, 2, 10) +
        column((result) => result.cpuUs, 0, 16),
    );
  }
  const [gateway, caddy] = results;
  const ratio = (pick: (result: Result) => number): number =>
    median(gateway!.map((result, round) => pick(result) / pick(caddy![round]!)));
  const speed = ratio((result) => result.requestsPerSecond);
  const cpu = ratio((result) => result.cpuUs);
  console.log(
    `  gateway / Caddy: requests/s ${speed.toFixed(2)} (target 1: ${speed >= 1 ? 'met' : 'missed'}), ` +
      `p99 ${ratio((result) => result.p99Ms).toFixed(2)}, ` +
      `CPU ${cpu.toFixed(2)} (target at most ${target}: ${cpu <= target ? 'met' : 'missed'})`,
  );
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

/** Caddy with one thread, proxying to a unix socket, its state in a temporary directory. */
async function startCaddy(socketPath: string): Promise<{ port: number; pid: number } & AsyncDisposable> {
  const home = temporary();
  const port = await freePort();
  const caddy = spawn('caddy', ['run', '--config', '-', '--adapter', 'caddyfile'], {
    env: { HOME: home.path, PATH: '/usr/bin:/bin', GOMAXPROCS: '1' },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  caddy.stdin!.end(`{
	admin off
	auto_https off
}
http://127.0.0.1:${port} {
	bind 127.0.0.1
	log {
		output file ${home.path}/access.log
	}
	reverse_proxy unix/${socketPath}
}
`);
  const deadline = performance.now() + START_MS;
  while (!(await accepts(port))) {
    if (caddy.exitCode !== null || performance.now() > deadline) {
      throw new Error(`Caddy did not start (exit code ${caddy.exitCode})`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    port,
    pid: caddy.pid!,
    [Symbol.asyncDispose]: async () => {
      await stop(caddy);
      home[Symbol.dispose]();
    },
  };
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function stop(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
