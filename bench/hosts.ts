// A request that reaches another host than the app's home, beside one at the home: time, and CPU time of both hosts. The home
// is the host that runs the app. The rounds alternate, so that the ratios hold on a busy machine.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempDisposableSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { HostReportAnswer, KnownHost } from '../handlers/contract/host/hosts.ts';
import { routeOf } from '../test/support/edge/hosts.ts';
import { startWorkerd } from '../test/support/edge/peers.ts';
import { effort } from './support/bench-scale.ts';
import { median } from './support/figures.ts';
import { type Asked, cpuMs, type Load, load, loadName } from './support/load.ts';

const ROUNDS = effort(7, 1);
const SECONDS = effort(2, 1);
/** Maximum ratios of a request at another host to one at the home. */
const TARGETS = { time: 1.5, cpu: 1.3 };
const APP = `
const body = 'x'.repeat(1024);
export default {
  async fetch(request, env) {
    await request.arrayBuffer();
    // As much work as a small page of an app.
    const items = JSON.parse(JSON.stringify(Array.from({ length: 200 }, (_, i) => ({ id: i, name: 'item ' + i }))));
    return new Response(new URL(request.url).pathname === '/page' ? JSON.stringify(items) : body);
  },
};
`;
const SHOP = { Host: 'shop.test' };
const MIXES: { name: string; asked: Asked }[] = [
  { name: '1 KB GET', asked: { path: '/', headers: SHOP } },
  { name: '6 KB GET', asked: { path: '/page', headers: SHOP } },
  { name: '64 KB POST', asked: { path: '/', headers: SHOP, body: 'x'.repeat(65_536) } },
];

interface Process {
  child: ChildProcess;
  port: number;
  known: KnownHost;
}

/** Prints the time and the CPU time per request at the home and at the other host, and the ratios. */
export async function run(): Promise<void> {
  await using cell = await startWorkerd(APP);
  using scratch = mkdtempDisposableSync(join(tmpdir(), 'hosts-'));
  const processes: Process[] = [];
  try {
    const start = async (name: string, address: string, ...more: string[]) => {
      const started = await startHost([name, address, join(scratch.path, `${name}.log`), ...more]);
      processes.push(started);
      return started;
    };
    const home = await start('home', '127.0.0.2', cell.socketPath);
    const entry = await start('entry', '127.0.0.1');
    const answer: HostReportAnswer = {
      ...{
        hosts: [home.known, entry.known],
        revision: 1,
        whole: true,
        routes: [routeOf('home')],
        deleted: [],
      },
    };
    for (const { child } of processes) child.stdin!.write(`${JSON.stringify(answer)}\n`);
    console.log(`${loadName}, medians of ${ROUNDS} rounds of ${SECONDS} s`);
    const pids = [cell.pid, ...processes.map(({ child }) => child.pid!)];
    for (const { name, asked } of MIXES.slice(0, effort(MIXES.length, 1)))
      await compare(name, asked, home, entry, pids);
  } finally {
    for (const { child } of processes) child.kill('SIGKILL');
  }
}

async function compare(
  name: string,
  asked: Asked,
  home: Process,
  entry: Process,
  pids: number[],
): Promise<void> {
  const rounds: { here: Load & { cpuUs: number }; there: Load & { cpuUs: number } }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push({
      here: await measured(home.port, asked, pids),
      there: await measured(entry.port, asked, pids),
    });
  }
  for (const [where, pick] of [
    ['at the home', 'here'],
    ['at another host', 'there'],
  ] as const) {
    const of = (figure: 'requestsPerSecond' | 'p50Ms' | 'p99Ms' | 'cpuUs') =>
      median(rounds.map((round) => round[pick][figure]));
    console.log(
      `${name}, ${where}`.padEnd(32) +
        `${of('requestsPerSecond').toFixed(0).padStart(8)}/s  p50 ${of('p50Ms').toFixed(2)} ms  p99 ${of('p99Ms').toFixed(2)} ms  CPU ${of('cpuUs').toFixed(0)} µs`,
    );
  }
  const ratio = (figure: 'p50Ms' | 'cpuUs') =>
    median(rounds.map(({ here, there }) => there[figure] / here[figure]));
  const [time, cpu] = [ratio('p50Ms'), ratio('cpuUs')];
  console.log(
    `  another host / home: time ${time.toFixed(2)} (at most ${TARGETS.time}: ${time <= TARGETS.time ? 'met' : 'missed'}), ` +
      `CPU ${cpu.toFixed(2)} (at most ${TARGETS.cpu}: ${cpu <= TARGETS.cpu ? 'met' : 'missed'})`,
  );
}

/** CPU time is that of all processes: the app and both hosts. */
async function measured(port: number, asked: Asked, pids: number[]): Promise<Load & { cpuUs: number }> {
  const used = () => pids.reduce((sum, pid) => sum + cpuMs(pid), 0);
  const before = used();
  const result = await load(port, SECONDS, asked);
  return { ...result, cpuUs: ((used() - before) * 1000) / result.requests };
}

async function startHost(words: string[]): Promise<Process> {
  const script = join(import.meta.dirname, '../test/support/edge/host-process.ts');
  const child = spawn(process.execPath, [script, ...words], { env: {}, stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  return { child, ...(JSON.parse(line) as { port: number; known: KnownHost }) };
}
