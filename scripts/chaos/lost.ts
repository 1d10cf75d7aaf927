// Loses the whole machine again and again. At a random moment it kills the host and all its processes, and deletes the data
// directory. Then an empty host continues from the bucket, with the same settings. Meanwhile clients write, push, deploy,
// and change secrets, apps and accounts. The bucket is faulty from time to time. Reports which acknowledged changes are
// missing.
import { rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Faults, MemoryStore } from '../../test/support/bucket/memory-store.ts';
import { bucketSettings } from '../../test/support/bucket/settings.ts';
import { Cellar } from '../../test/support/e2e/cellar.ts';
import { descendants, eventually } from '../../test/support/processes.ts';
import { Clients } from './clients.ts';
import { makeFacts } from './facts.ts';

const WORDS = process.argv.slice(2).filter((word) => word !== '--lost');
const ROUNDS = Number(WORDS[0] ?? 5);
/** Names of the moments at which to lose the machine; default: all. */
const ONLY = WORDS[1]?.split(',');
/** Maximum time before the moment of each round, in ms. */
const LONGEST_LIFE_MS = 4_000;
/** Maximum time from the beginning of work, such as a push or a start, until the loss, by the name of the work, in ms. */
const LONGEST_WORK_MS = { push: 400, deploy: 2_500, secret: 500, app: 200, start: 3_000, continue: 100 };
/** Timeout for a start, in ms. Other work on this machine and faults of the bucket make it slow. */
const RECOVERY_MS = 180_000;
/** Maximum time between faults of the bucket, in ms. */
const CALM_MS = 4_000;
/** Maximum duration of one fault, in ms. */
const FAULT_MS = 1_500;
const FAULTS: Record<string, Faults> = {
  'lost replies': { losesReplies: true },
  'half-written bodies': { halves: true },
  'answers 503': { isBusy: true },
  hangs: { hangs: true },
};

const store = await new MemoryStore().start();
const cellar = new Cellar({
  ...bucketSettings(store.place('chaos/')),
  RUNNER_STORAGE: 'bucket',
  RUNNER_MAX_APPS_PER_USER: '100',
  RUNNER_CLUSTER_KEY: 'c'.repeat(64),
});
const faults = new Map<string, number>();
let isFaulty = false;
let ending = false;

let clients: Clients | null = null;

try {
  await cellar.start();
  clients = new Clients(await makeFacts(cellar));
  const spoiling = spoil();
  const losses = await loseAgainAndAgain(clients);
  ending = true;
  await Promise.all([clients.end(), spoiling]);
  await clients.checkLate();
  print(clients, losses);
} finally {
  ending = true;
  if (clients === null || clients.problems.length > 0) keepOutput();
  await cellar[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
}
process.exit(clients?.problems.length === 0 ? 0 : 1);

/** Makes the bucket faulty from time to time, while `isFaulty` is set. */
async function spoil(): Promise<void> {
  const names = Object.keys(FAULTS);
  for (let n = 0; !ending; n++) {
    await sleep(Math.random() * CALM_MS);
    if (!isFaulty) continue;
    const name = names[n % names.length]!;
    faults.set(name, (faults.get(name) ?? 0) + 1);
    store.faults = FAULTS[name]!;
    await sleep(Math.random() * FAULT_MS);
    store.faults = {};
  }
}

/** Loses the machine in each round, and checks the facts afterwards. @returns the number of losses by moment */
async function loseAgainAndAgain(clients: Clients): Promise<Map<string, number>> {
  const during = (name: keyof typeof LONGEST_WORK_MS) => async () => {
    await eventually(() => clients.underWay.has(name), `a client begins: ${name}`);
    await sleep(Math.random() * LONGEST_WORK_MS[name]);
  };
  const twice = (name: 'start' | 'continue', pattern: RegExp) => async () => {
    await lose();
    const from = cellar.output.length;
    const starting = cellar.start(RECOVERY_MS);
    starting.catch(() => {});
    await cellar.waitFor(pattern, from);
    await sleep(Math.random() * LONGEST_WORK_MS[name]);
  };
  const moments: Record<string, () => Promise<void>> = {
    writes: async () => {},
    push: during('push'),
    deploy: during('deploy'),
    secret: during('secret'),
    app: during('app'),
    continue: twice('continue', /this machine continues/),
    start: twice('start', /the apps in the bucket are read/),
  };
  const names = Object.keys(moments).filter((name) => ONLY?.includes(name) ?? true);
  const losses = new Map(names.map((name) => [name, 0]));
  for (let round = 0; round < ROUNDS; round++) {
    const name = names[round % names.length]!;
    const when = `round ${round + 1} (${name})`;
    isFaulty = true;
    await sleep(Math.random() * LONGEST_LIFE_MS);
    await moments[name]!().catch((error: Error) => clients.problems.push(`${when}: ${error.message}`));
    await lose();
    losses.set(name, losses.get(name)! + 1);
    const begun = performance.now();
    await startAgain(when, clients);
    const startedMs = performance.now() - begun;
    isFaulty = false;
    store.faults = {};
    await clients.check(when);
    const wholeMs = performance.now() - begun;
    console.log(
      `${new Date().toISOString()} ${when}: serves after ${Math.round(startedMs)} ms, whole after ${Math.round(wholeMs)} ms`,
    );
  }
  return losses;
}

/** Ends all processes of the host and deletes its data, as if the machine had burnt. */
async function lose(): Promise<void> {
  process.kill(cellar.pid, 'SIGSTOP');
  for (let left = descendants(cellar.pid); left.length > 0; left = descendants(cellar.pid)) {
    for (const { pid } of left) kill(pid);
    await sleep(5);
  }
  await cellar.stop('SIGKILL');
  rmSync(cellar.data, { recursive: true, force: true });
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended by itself.
  }
}

/** Starts an empty host. If it ends because it cannot reach the bucket, starts it again, as a service manager does. */
async function startAgain(when: string, { problems }: Clients): Promise<void> {
  const deadline = performance.now() + RECOVERY_MS;
  for (;;) {
    try {
      await cellar.start(RECOVERY_MS);
      return;
    } catch (error) {
      if (performance.now() < deadline) continue;
      problems.push(`${when}: no start`);
      throw error;
    }
  }
}

function keepOutput(): void {
  const kept = `${cellar.directory}-kept.log`;
  writeFileSync(kept, cellar.output);
  console.log(`what the hosts printed is in ${kept}`);
}

function print(clients: Clients, losses: Map<string, number>): void {
  const listed = (counted: Iterable<[string, number]>) =>
    [...counted].map(([name, count]) => `${count} ${name}`).join(', ');
  console.log(`\nmachines lost: ${listed(losses)}`);
  console.log(`faults of the bucket: ${listed(faults)}`);
  clients.print();
}
