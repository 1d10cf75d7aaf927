// The latency of a request to an app without a process, until the first 200. One app hibernated, in a host of its own;
// one sleeps, in a whole Cellar. Compared with `workerd serve` of the same release by hand. All have existing storage.
// Runs alternating rounds, then many apps at once.
import { mkdtempDisposableSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { effort, words } from './support/bench-scale.ts';
import type { Steps } from './support/wake-host.ts';
import {
  byHand,
  type HibernatingHost,
  hibernatingHost,
  type SleepingHost,
  sleepingHost,
  type Way,
} from './support/wake-ways.ts';

/** Warm-up rounds, which only fill the machine's caches. */
const WARMING_ROUNDS = effort(1, 0);
const DEFAULT_WAKES = effort(40, 1);
const AT_ONCE = effort(20, 2);
const AT_ONCE_ROUNDS = effort(3, 1);
const TARGETS = { p50: 1.15, p95: 1.5 };

/** Prints all three, their ratios, and the time of each wake step. `npm run bench -- wake 300` makes it 300 wakes. */
export async function run(): Promise<void> {
  const wakes = Number(words[0] ?? DEFAULT_WAKES);
  using scratch = mkdtempDisposableSync(join(tmpdir(), 'cellar-bench-'));
  await using sleeping = await sleepingHost(AT_ONCE);
  // Copied while the app sleeps, so that the files are consistent.
  const deployed = sleeping.deployed();
  const hands = Array.from({ length: AT_ONCE }, (_, index) =>
    byHand(deployed, join(scratch.path, `hand-${index}`)),
  );
  {
    await using hibernating = await hibernatingHost(deployed, join(scratch.path, 'single'), 1);
    await alternate(wakes, hands[0]!, hibernating, sleeping);
  }
  while (sleeping.apps.length < AT_ONCE) await sleeping.add();
  await using hibernating = await hibernatingHost(deployed, join(scratch.path, 'many'), AT_ONCE);
  await atOnce(hands, hibernating.apps, sleeping.apps);
}

/** A wake, with times in ms since 1970, with fractions. */
interface Wake {
  begun: number;
  ended: number;
  at: Steps;
}
type Step = [name: string, ms: (wake: Wake) => number];

async function alternate(
  wakes: number,
  hand: Way,
  hibernating: HibernatingHost,
  sleeping: SleepingHost,
): Promise<void> {
  const hands: number[] = [];
  const hibernated: Wake[] = [];
  const slept: number[] = [];
  for (let round = 0; round < WARMING_ROUNDS + wakes; round++) {
    const handMs = await hand.wake();
    await hand.rest();
    const fromIdle = await measured(hibernating);
    const sleptMs = await sleeping.apps[0]!.wake();
    await sleeping.apps[0]!.rest();
    if (round < WARMING_ROUNDS) continue;
    hands.push(handMs);
    hibernated.push(fromIdle);
    slept.push(sleptMs);
  }
  console.log(`the guestbook, with D1: request to first 200, ${wakes} alternating rounds`);
  row('workerd serve by hand', hands);
  row('hibernated, through the edge', hibernated.map(lasting), hands);
  row('slept, through the edge', slept, hands);
  reportSteps('a hibernated wake, step by step', hibernated, [
    ['edge reads and routes', ({ begun, at }) => at.asked - begun],
    ['turn, and the note that it runs', ({ at }) => at.launched - at.asked],
    ['process starts and listens', ({ at }) => at.ready - at.launched],
    ['request to the app, and its answer', ({ ended, at }) => ended - at.ready],
  ]);
}

async function measured({ apps, steps }: HibernatingHost): Promise<Wake> {
  const way = apps[0]!;
  const begun = performance.timeOrigin + performance.now();
  const ms = await way.wake();
  const wake = { begun, ended: begun + ms, at: await steps() };
  await way.rest();
  return wake;
}

function lasting({ begun, ended }: { begun: number; ended: number }): number {
  return ended - begun;
}

function reportSteps(title: string, wakes: Wake[], steps: Step[]): void {
  const total = middleMean(wakes, lasting);
  console.log(title);
  for (const [name, of] of steps) {
    const ms = middleMean(wakes, of);
    const share = ((ms / total) * 100).toFixed(0);
    console.log(`  ${name.padEnd(38)}${ms.toFixed(1).padStart(6)} ms ${share.padStart(4)} %`);
  }
}

/** Returns the mean over the middle third of the wakes by duration. So the steps add up, and outliers do not count. */
function middleMean(wakes: Wake[], of: (wake: Wake) => number): number {
  const sorted = [...wakes].sort((a, b) => lasting(a) - lasting(b));
  const middle = sorted.slice(Math.floor(sorted.length / 3), Math.ceil((sorted.length * 2) / 3));
  return middle.reduce((sum, wake) => sum + of(wake), 0) / middle.length;
}

/** Wakes all apps of each way together, in alternating rounds. */
async function atOnce(...ways: [hands: Way[], hibernating: Way[], sleeping: Way[]]): Promise<void> {
  const times: number[][] = ways.map(() => []);
  const last: number[][] = ways.map(() => []);
  for (let round = 0; round < WARMING_ROUNDS + AT_ONCE_ROUNDS; round++) {
    for (const [index, apps] of ways.entries()) {
      const ms = await Promise.all(apps.map(({ wake }) => wake()));
      await Promise.all(apps.map(({ rest }) => rest()));
      if (round < WARMING_ROUNDS) continue;
      times[index]!.push(...ms);
      last[index]!.push(Math.max(...ms));
    }
  }
  console.log(`${AT_ONCE} apps at once, ${AT_ONCE_ROUNDS} rounds`);
  for (const [index, name] of [
    'by hand, all at a time',
    'hibernated, four at a time',
    'slept, four at a time',
  ].entries()) {
    row(name, times[index]!);
    console.log(`${''.padEnd(30)}the last of a round after ${quantile(last[index]!, 0.5).toFixed(0)} ms`);
  }
}

/** @param hands times of the starts by hand, for comparison */
function row(name: string, times: number[], hands?: number[]): void {
  const figures = (['p50', 'p95'] as const).map((which) => {
    const share = which === 'p50' ? 0.5 : 0.95;
    const ms = quantile(times, share);
    const text = `${which} ${ms.toFixed(0).padStart(5)} ms`;
    if (hands === undefined) return text;
    const ratio = ms / quantile(hands, share);
    const verdict = ratio <= TARGETS[which] ? 'met' : 'missed';
    return `${text} = ${ratio.toFixed(2)} × by hand (≤ ${TARGETS[which]}: ${verdict})`;
  });
  console.log(name.padEnd(30) + figures.join('   '));
}

function quantile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}
