// The CPU time of a rate limit decision, and the memory of a tracked visitor.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Limiter } from '../runtime/edge/limits/rate-limits.ts';
import { effort } from './support/bench-scale.ts';

const DECISIONS = effort(1_000_000, 10_000);
const VISITORS = 10_000;
/** Requests of a visitor that the default limit admits in a window: the maximum that is stored for a visitor. */
const ADMITTED = 300;
const TARGET_US = 2;
const TARGET_BYTES = 3_000;

/** Prints the time of a decision in several mixes of visitors, and the memory of visitors at their limit. */
export async function run(): Promise<void> {
  console.log(`medians of 5 runs of ${DECISIONS.toLocaleString('en')} decisions`);
  report('one visitor, admitted', () => 0, { clientRpm: 60_000_000, appRpm: 0 });
  report('one visitor, mostly refused', () => 0, { clientRpm: 1_800, appRpm: 0 });
  report('10,000 IPv4 visitors', (i) => i % VISITORS, { clientRpm: 1_800, appRpm: 0 });
  report('10,000 IPv6 visitors', (i) => VISITORS + (i % VISITORS), { clientRpm: 1_800, appRpm: 0 });
  report('10,000, whole app too', (i) => i % VISITORS, { clientRpm: 1_800, appRpm: 60_000_000 });
  report('ever new visitors', (i) => i % (10 * VISITORS), { clientRpm: 1_800, appRpm: 0 });
  memory();
}

const addresses = Array.from({ length: 10 * VISITORS }, (_, i) =>
  i >= VISITORS && i < 2 * VISITORS
    ? `2001:db8:${(i >> 8).toString(16)}:${(i & 255).toString(16)}::1`
    : `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`,
);

function report(
  name: string,
  visitor: (i: number) => number,
  limits: { clientRpm: number; appRpm: number },
): void {
  const times = Array.from({ length: 5 }, () => {
    const limiter = new Limiter();
    const site = { site: 'app', ...limits };
    const from = performance.now();
    // 20,000 requests per second.
    for (let i = 0; i < DECISIONS; i++) limiter.admit(site, addresses[visitor(i)]!, i / 20);
    return ((performance.now() - from) * 1000) / DECISIONS;
  });
  const us = times.toSorted((a, b) => a - b)[2]!;
  console.log(
    `${name.padEnd(28)} ${us.toFixed(2)} µs (target ${TARGET_US}: ${us <= TARGET_US ? 'met' : 'missed'})`,
  );
}

/** Measures the worst case: each of a visitor's requests falls into another millisecond. */
function memory(): void {
  const limiter = new Limiter();
  const site = { site: 'app', clientRpm: 1_800, appRpm: 0 };
  const before = used();
  for (let i = 0; i < ADMITTED; i++) {
    for (let visitor = 0; visitor < VISITORS; visitor++) limiter.admit(site, addresses[visitor]!, i * 33);
  }
  const bytes = (used() - before) / limiter.visitors;
  console.log(
    `${'memory of a visitor, at most'.padEnd(28)} ${bytes.toFixed(0)} bytes ` +
      `(target ${TARGET_BYTES}: ${bytes <= TARGET_BYTES ? 'met' : 'missed'})`,
  );
}

function used(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // The second collection frees the memory behind typed arrays.
  collect();
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
