// The cost of a Cellar without apps: the memory of all its processes, and the time until it is ready. Beside Miniflare
// with one empty Worker and a D1 database, in alternating rounds of one run.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { descendants, type Process } from '../test/support/processes.ts';
import { effort } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const ROUNDS = effort(5, 1);
/** Time after the start for V8 to collect its garbage, in ms. */
const SETTLE_MS = effort(15_000, 0);
const TARGETS = { mb: 180, readyMs: 1_100 };
const MINIFLARE = `
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
const script = 'export default { fetch: () => new Response() }';
const options = { modules: true, script, d1Databases: ['DB'], telemetry: { enabled: false } };
await new Miniflare(convertV4MiniflareOptions(options)).ready;
console.log('ready');
process.stdin.resume().on('end', () => process.exit());`;

/** Memory in MB, by the role of a process. */
type Memory = Map<string, number>;

/** Prints the memory of each process, and the sum beside Miniflare's. */
export async function run(): Promise<void> {
  const readyMs: number[] = [];
  const cellars: Memory[] = [];
  const miniflares: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    {
      await using cellar = await new Cellar().start();
      // The first start compiles and bundles; later starts use the cache.
      await cellar.stop();
      const begun = performance.now();
      await cellar.start();
      readyMs.push(performance.now() - begun);
      await sleep(SETTLE_MS);
      cellars.push(memoryOf(cellar.pid));
    }
    miniflares.push(await miniflare());
  }
  for (const name of new Set(cellars.flatMap((memory) => [...memory.keys()])))
    console.log(`${name.padEnd(16)}${middle(cellars.map((memory) => memory.get(name) ?? 0))} MB`);
  const all = cellars.map((memory) => [...memory.values()].reduce((sum, mb) => sum + mb, 0));
  const ratio = (median(all) / median(miniflares)).toFixed(2);
  console.log(
    `${'all'.padEnd(16)}${middle(all)} MB = ${ratio} × Miniflare${verdict(median(all), TARGETS.mb)}`,
  );
  console.log(`${'Miniflare'.padEnd(16)}${middle(miniflares)} MB`);
  console.log(`${'ready after'.padEnd(16)}${middle(readyMs)} ms${verdict(median(readyMs), TARGETS.readyMs)}`);
}

function memoryOf(host: number): Memory {
  const memory: Memory = new Map([['host', proportionalMb(host)]]);
  for (const child of descendants(host)) {
    const name = nameOf(child);
    memory.set(name, (memory.get(name) ?? 0) + proportionalMb(child.pid));
  }
  return memory;
}

function nameOf({ command }: Process): string {
  if (command.some((word) => word.endsWith('/control.capnp'))) return 'control plane';
  return command.some((word) => word.endsWith('spawner-program.js')) ? 'spawner' : 'others';
}

async function miniflare(): Promise<number> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', MINIFLARE], {
    cwd: import.meta.dirname,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  await sleep(SETTLE_MS);
  const pids = [child.pid!, ...descendants(child.pid!).map(({ pid }) => pid)];
  const mb = pids.reduce((sum, pid) => sum + proportionalMb(pid), 0);
  child.stdin.end();
  await once(child, 'exit');
  return mb;
}

/** Returns a process's memory in MB, with its share of pages that processes share (PSS). */
function proportionalMb(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)![1]) / 1024;
}

function middle(values: number[]): string {
  return median(values).toFixed(0).padStart(5);
}

function verdict(value: number, target: number): string {
  return ` (≤ ${target}: ${value <= target ? 'met' : 'missed'})`;
}
