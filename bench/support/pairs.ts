// Compares the CPU time and memory of two app processes that serve the same requests. Each pair is new and warmed up, then
// called in short alternating rounds, so other load on the machine affects both. Memory layout makes processes differ: the
// ratio is the median of the pairs' ratios, printed with its quartiles.
import { effort } from './bench-scale.ts';
import { end, type Process, type Subject, start } from './by-hand.ts';
import { median, privateKb, quartiles } from './figures.ts';
import { type Asked, ask, cpuUs, loadName } from './load.ts';

const PAIRS = effort(8, 1);
const ROUNDS = effort(8, 1);
/** Requests to each process of a pair in a round. */
const REQUESTS = effort(2000, 200);
/** Requests before the first round: at the beginning each allocation of a process grows its heap. */
const WARM_REQUESTS = effort(12_000, 200);

/** Prints the headings of the columns that `compare` prints. @param names of both subjects */
export function printHead(names: string): void {
  console.log(
    `medians of ${PAIRS} pairs of processes, each in ${ROUNDS} alternating rounds of ${REQUESTS} requests, ${loadName}`,
  );
  console.log(`${''.padEnd(34)}${names} µs    ratio (quartiles)    ${names} MB`);
}

/** Costs of a process: CPU time per request, and private memory after the last one. */
interface Cost {
  us: number;
  mb: number;
}

/**
 * Prints the costs of both subjects for one kind of app, and their ratio.
 * @param share factor of the number of requests: below 1 when they are slow
 */
export async function compare(
  kind: string,
  subjects: [Subject, Subject],
  asked: Asked,
  share = 1,
): Promise<void> {
  const pairs: [first: Cost, second: Cost][] = [];
  for (let pair = 0; pair < PAIRS; pair++) pairs.push(await costsOfPair(subjects, pair, asked, share));
  const ratios = pairs.map(([first, second]) => second.us / first.us);
  const [lower, upper] = quartiles(ratios);
  const middle = (of: keyof Cost) =>
    [0, 1]
      .map((side) =>
        median(pairs.map((costs) => costs[side]![of]))
          .toFixed(1)
          .padStart(8),
      )
      .join('');
  const spread = `${lower.toFixed(3)}–${upper.toFixed(3)}`;
  console.log(`${kind.padEnd(32)}${middle('us')}   ${median(ratios).toFixed(3)} (${spread})${middle('mb')}`);
}

/** @param pair decides which of the two is called first */
async function costsOfPair(
  subjects: [Subject, Subject],
  pair: number,
  asked: Asked,
  share: number,
): Promise<[Cost, Cost]> {
  const used: [number, number] = [0, 0];
  const processes: Process[] = [];
  try {
    for (const subject of subjects) processes.push(await start(subject));
    for (const { port } of processes) await ask(port, WARM_REQUESTS * share, asked);
    for (let round = 0; round < ROUNDS; round++)
      for (const side of (pair + round) % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
        const { child, port } = processes[side]!;
        const before = cpuUs(child.pid!);
        await ask(port, REQUESTS * share, asked);
        used[side] += cpuUs(child.pid!) - before;
      }
    return [costOf(processes[0]!, used[0] / share), costOf(processes[1]!, used[1] / share)];
  } finally {
    for (const { child } of processes) await end(child);
  }
}

function costOf({ child }: Process, usedUs: number): Cost {
  return { us: usedUs / (ROUNDS * REQUESTS), mb: privateKb(child.pid!) / 1024 };
}
