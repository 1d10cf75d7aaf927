// What an app that prints 100,000 lines a second costs: lines printed and stored, the host's CPU time, a neighbour's latency.
// The baseline is the same app, which uses as much CPU without printing: on a small machine CPU use alone delays neighbours.
// A busy app has low priority after two seconds, and normal priority after ten calm ones. So each flood follows a calm.
import { setTimeout as sleep } from 'node:timers/promises';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { effort } from './support/bench-scale.ts';
import { cpuMs } from './support/load.ts';

const ROUNDS = effort(4, 1);
const SECONDS = effort(8, 1);
/** How long a flood runs at normal priority, in s. */
const UNKNOWN_SECONDS = effort(2, 0.5);
/** Pause before each flood, in ms. */
const CALM_MS = effort(11_000, 0);
const LINES_PER_S = 100_000;
/** Pause between two requests to the neighbour, in ms. */
const PAUSE_MS = 4;
const TARGET = 1.2;

const FLOOD = `
const compute = (line) => { for (let i = 0; i < 30; i++) JSON.stringify({ timestamp: Date.now(), level: 'log', message: line }); };
const steps = { print: (line) => console.log(line), compute };
export default { async fetch(request) {
  const { pathname, searchParams } = new URL(request.url);
  const step = steps[pathname.slice(1)];
  if (step === undefined) return new Response('quiet');
  const [begun, ms] = [Date.now(), Number(searchParams.get('ms'))];
  let done = 0;
  while (Date.now() < begun + ms) {
    for (let i = 0; i < 500; i++) step('a line of a flood, number ' + done++);
    await scheduler.wait(Math.max(0, begun + done / ${LINES_PER_S / 1000} - Date.now()));
  }
  return Response.json({ done, ms: Date.now() - begun });
} };
`;

interface Round {
  p50: number;
  p99: number;
  /** p99 of requests sent after `UNKNOWN_SECONDS`. */
  laterP99: number;
  hostShare: number;
  perSecond: number;
}

/** Prints the medians of alternating rounds. */
export async function run(): Promise<void> {
  await using cellar = await new Cellar({ RUNNER_FLEET_IDLE_EVICT_S: '0' }).start();
  const flood = await cellar.deploy('flood', 'hello', { 'index.js': FLOOD });
  await cellar.deploy('neighbour', 'hello', { 'index.js': FLOOD });
  await neighbour(cellar, 1_000);
  const rounds: Record<string, Round[]> = { quiet: [], compute: [], print: [] };
  for (let n = 0; n < ROUNDS; n++)
    for (const kind of Object.keys(rounds)) rounds[kind]!.push(await round(cellar, kind));
  console.log(
    `medians of ${ROUNDS} alternating rounds of ${SECONDS} s, ${LINES_PER_S} lines a second wanted`,
  );
  console.log(
    `${''.padEnd(10)}neighbour p50 ms   p99 ms   p99 from second ${UNKNOWN_SECONDS + 1} on   host, share of a core   lines/s`,
  );
  for (const [kind, all] of Object.entries(rounds)) {
    const shown = [
      median(all, 'p50').toFixed(2),
      median(all, 'p99').toFixed(2),
      median(all, 'laterP99').toFixed(2),
      median(all, 'hostShare').toFixed(3),
    ];
    console.log(
      `${kind.padEnd(10)}${shown[0]!.padStart(16)}${shown[1]!.padStart(9)}${shown[2]!.padStart(23)}${shown[3]!.padStart(24)}${String(Math.round(median(all, 'perSecond'))).padStart(10)}`,
    );
  }
  const kept = await keptPerSecond(cellar, flood);
  console.log(`kept of the flood: ${Math.round(kept)} lines a second`);
  for (const [name, when] of [
    ['p99', 'in all'],
    ['laterP99', `from second ${UNKNOWN_SECONDS + 1} on`],
  ] as const) {
    const ratio = (other: string) => (median(rounds.print!, name) / median(rounds[other]!, name)).toFixed(2);
    console.log(
      `neighbour's p99 while it prints, ${when}: ${ratio('quiet')} × quiet, ${ratio('compute')} × a core kept busy without a word; target ${TARGET}`,
    );
  }
}

async function round(cellar: Cellar, kind: string): Promise<Round> {
  const ms = SECONDS * 1000;
  if (kind !== 'quiet') await sleep(CALM_MS);
  const working = kind === 'quiet' ? null : cellar.get('flood', `/${kind}?ms=${ms}`);
  const before = cpuMs(cellar.pid);
  const begun = performance.now();
  const early = await neighbour(cellar, UNKNOWN_SECONDS * 1000);
  const later = await neighbour(cellar, ms - UNKNOWN_SECONDS * 1000);
  const hostShare = (cpuMs(cellar.pid) - before) / (performance.now() - begun);
  const times = [...early, ...later].sort((a, b) => a - b);
  const { done, ms: took } = working === null ? { done: 0, ms: 1 } : JSON.parse((await working).text);
  return {
    p50: percentile(times, 0.5),
    p99: percentile(times, 0.99),
    laterP99: percentile(later, 0.99),
    hostShare,
    perSecond: (done / took) * 1000,
  };
}

/** Measures the neighbour's latency. @returns sorted times in ms */
async function neighbour(cellar: Cellar, ms: number): Promise<number[]> {
  const times: number[] = [];
  for (const end = performance.now() + ms; performance.now() < end; await sleep(PAUSE_MS)) {
    const from = performance.now();
    await cellar.get('neighbour');
    times.push(performance.now() - from);
  }
  return times.sort((a, b) => a - b);
}

/** Returns the stored lines per second in the second half of the last flood. */
async function keptPerSecond(cellar: Cellar, id: string): Promise<number> {
  const [[newest], cursorless] = [
    (await page(cellar, id, '')).items,
    'limit=200&search=a%20line%20of%20a%20flood',
  ];
  const to = Date.parse(newest!.at);
  const from = to - (SECONDS * 1000) / 2;
  let [count, cursor] = [0, ''];
  do {
    const { items, next_cursor } = await page(
      cellar,
      id,
      `${cursorless}&since=${new Date(from).toISOString()}${cursor}`,
    );
    count += items.length;
    cursor = next_cursor === null ? '' : `&cursor=${next_cursor}`;
  } while (cursor !== '');
  return count / ((to - from) / 1000);
}

async function page(
  cellar: Cellar,
  id: string,
  query: string,
): Promise<{ items: { at: string }[]; next_cursor: string | null }> {
  return (await cellar.call('GET', `/v1/apps/${id}/logs?${query}`)).body;
}

function percentile(sorted: number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}

function median(rounds: Round[], name: keyof Round): number {
  const sorted = rounds.map((round) => round[name]).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)]!;
}
