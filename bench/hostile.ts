// The effect of an attack by an app, build, push or stranger on a well-behaved app: its latency, and the delay of the
// gateway's event loop. Compared with quiet figures, which the same run measures just before.
import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { effort, isQuick, words } from './support/bench-scale.ts';
import { type Attack, attacks, type Target } from './support/hostile-attacks.ts';
import { startByHand } from './support/hostile-floor.ts';

const SECONDS = effort(10, 0.3);
/** Time between the start of an attack and the measurement, in ms. */
const LEAD_MS = effort(1_000, 200);
const REQUESTS_PER_SECOND = 100;
/**
 * `p99`: maximum ratio of the good app's p99 to the quiet one. `p99WithoutCore`: the same for an attack that uses a whole core.
 * `loopMs`: maximum p99 of the delay of the gateway's event loop, in ms.
 */
const TARGETS = { p99: 2, p99WithoutCore: 3, loopMs: 20 };

/** Argument that also measures the same app run by hand, during the same attacks. A quick run always does. */
const FLOOR = 'floor';

/** One deployment of the good app. */
interface Site {
  port: number;
  /** p99 of the delay of the gateway's event loop in the last one to two minutes, in ms; null when unknown. */
  loopP99: () => Promise<number | null>;
}

/** Results of the good app's requests. Times in ms; a dropped request is one without a 200. */
interface Visits {
  p50: number;
  p99: number;
  dropped: number;
  loopP99: number | null;
}

interface Suffered {
  quiet: Visits;
  attacked: Visits;
}

/**
 * Prints a line for each attack. Arguments select attacks by words of their names: `npm run bench -- hostile build log`. The
 * word `floor` adds a line for the same app, run by hand at the same time. That line shows the machine's share.
 */
export async function run(): Promise<void> {
  await using cellar = await new Cellar({
    RUNNER_MAX_APPS_PER_USER: '100',
    SERVICE_EDGE_RPM: '1800',
  }).start();
  const good = await cellar.deploy('good', 'hello');
  await cellar.call('POST', '/rpc', {
    jsonrpc: '2.0',
    id: 1,
    method: 'limits.set',
    params: { id: good, clientRpm: 0, appRpm: 0 },
  });
  const own: Site = { port: cellar.edgePort, loopP99: () => loopDelay(cellar) };
  await using byHand = isQuick || words.includes(FLOOR) ? await startByHand() : null;
  const sites = byHand === null ? [own] : [own, { port: byHand.port, loopP99: async () => null }];
  comeFirst();
  await visitAll(sites);
  console.log(`${REQUESTS_PER_SECOND} requests/s to a good app for ${SECONDS} s each, times in ms`);
  console.log(`${''.padEnd(44)}quiet p50  p99   under attack p50   p99   ratio  loop p99  dropped`);
  const asked = words.filter((word) => word !== FLOOR);
  const chosen = attacks.filter(({ name }) => asked.every((word) => name.includes(word)));
  // A quick run tries every sixth attack.
  for (const attack of chosen.filter((_, n) => n % effort(1, 6) === 0)) {
    const prepared = await attack.prepare?.(cellar);
    const target = { api: cellar.api, edgePort: cellar.edgePort, work: '', remote: '', ...prepared };
    const [suffered, floor] = await suffer(sites, attack, target).finally(() => attack.end?.(cellar));
    report(attack, suffered!);
    if (floor !== undefined) reportFloor(suffered!, floor);
  }
}

/**
 * Gives this process real-time priority where it may, but not its children. A real visitor has another machine: waits of
 * this process for CPU time must not count as latency.
 */
function comeFirst(): void {
  spawnSync('chrt', ['--reset-on-fork', '--fifo', '--pid', '1', String(process.pid)]);
}

/** Measures all sites at the same time, quiet and under attack. */
async function suffer(sites: Site[], attack: Attack, target: Target): Promise<Suffered[]> {
  const quiet = await visitAll(sites);
  const attacker = startAttacker(attack.name, target);
  try {
    await sleep(LEAD_MS);
    const attacked = await visitAll(sites);
    return quiet.map((each, n) => ({ quiet: each, attacked: attacked[n]! }));
  } finally {
    const gone = once(attacker, 'exit');
    attacker.kill();
    await gone;
  }
}

function visitAll(sites: Site[]): Promise<Visits[]> {
  return Promise.all(sites.map((site) => visit(site, SECONDS)));
}

/** Starts the attack in another process: its CPU time in this one would count as the gateway's latency. */
function startAttacker(name: string, target: Target): ChildProcess {
  return fork(join(import.meta.dirname, 'support/hostile-attacker.ts'), [
    JSON.stringify({ name, ...target }),
  ]);
}

/** Requests the good app at a steady rate, whether or not the answers come. */
async function visit(site: Site, seconds: number): Promise<Visits> {
  await site.loopP99();
  const agent = new Agent({ keepAlive: true });
  const times: number[] = [];
  let dropped = 0;
  const asked: Promise<void>[] = [];
  const begun = performance.now();
  for (let n = 0; n < seconds * REQUESTS_PER_SECOND; n++) {
    const due = begun + (n * 1000) / REQUESTS_PER_SECOND;
    if (due > performance.now()) await sleep(due - performance.now());
    asked.push(
      ask(site.port, agent).then(
        (ms) => void times.push(ms),
        () => void dropped++,
      ),
    );
  }
  await Promise.all(asked);
  agent.destroy();
  times.sort((a, b) => a - b);
  const at = (share: number) =>
    times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99), dropped, loopP99: await site.loopP99() };
}

function ask(port: number, agent: Agent): Promise<number> {
  const begun = performance.now();
  return new Promise((resolve, reject) => {
    const headers = { host: 'good.localhost' };
    const asking = request({ host: '127.0.0.1', port, agent, headers, timeout: 10_000 }, (response) => {
      response.resume();
      response.once('end', () =>
        response.statusCode === 200
          ? resolve(performance.now() - begun)
          : reject(new Error(`status ${response.statusCode}`)),
      );
      response.once('error', reject);
    });
    asking.once('timeout', () => asking.destroy(new Error('no answer')));
    asking.once('error', reject);
    asking.end();
  });
}

async function loopDelay(cellar: Cellar): Promise<number | null> {
  const { body } = await cellar.call('GET', '/v1/admin/stats');
  return body.host?.event_loop_delay?.p99_ms ?? null;
}

function report({ name, burnsCore = false }: Attack, suffered: Suffered): void {
  const { quiet, attacked } = suffered;
  const target = burnsCore ? TARGETS.p99WithoutCore : TARGETS.p99;
  const missed = [
    ...(attacked.p99 / quiet.p99 > target ? [`p99 over ${target} ×`] : []),
    ...((attacked.loopP99 ?? 0) > TARGETS.loopMs ? [`loop over ${TARGETS.loopMs} ms`] : []),
    ...(attacked.dropped > 0 ? ['requests dropped'] : []),
  ];
  console.log(`${line(name, suffered)}  ${missed.length === 0 ? 'met' : `missed: ${missed.join(', ')}`}`);
}

function reportFloor({ attacked }: Suffered, byHand: Suffered): void {
  const ratio = attacked.p99 / byHand.attacked.p99;
  console.log(`${line('  by hand', byHand)}  p99 of Cellar's ${ratio.toFixed(2)} × as long`);
}

function line(name: string, { quiet, attacked }: Suffered): string {
  const cell = (value: number, width: number, digits = 1) => value.toFixed(digits).padStart(width);
  return (
    name.padEnd(44) +
    cell(quiet.p50, 9) +
    cell(quiet.p99, 5) +
    cell(attacked.p50, 19) +
    cell(attacked.p99, 6) +
    cell(attacked.p99 / quiet.p99, 8, 2) +
    (attacked.loopP99 === null ? '-' : attacked.loopP99.toFixed(1)).padStart(10) +
    cell(attacked.dropped, 9, 0)
  );
}
