// What a well-behaved app's visitors notice while one app, build, push or stranger does its worst: the good app's answer
// times and the delay of the gateway's event loop, beside the quiet figures of the same run, measured just before.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { effort, words } from './effort.ts';
import { type Attack, attacks, type Target } from './hostile-attacks.ts';

const SECONDS = effort(10, 0.3);
/** Time an attack has before its effect is measured, in ms. */
const LEAD_MS = effort(1_000, 200);
const REQUESTS_PER_SECOND = 100;
/** The good app's p99 against the quiet one; the second for an attack that burns a whole core of the machine. */
const TARGETS = { p99: 2, p99WithoutCore: 3, loopMs: 20 };

/** What the visitors of the good app had. Times in ms; a dropped request is one without a 200. */
interface Visits {
  p50: number;
  p99: number;
  dropped: number;
  /** Of the gateway's event loop in the last one to two minutes, in ms; null when the host does not tell. */
  loopP99: number | null;
}

/** Prints a line for each attack. With words, only for those whose name has one: `npm run bench -- hostile build log`. */
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
  await visit(cellar, SECONDS);
  console.log(`${REQUESTS_PER_SECOND} requests/s to a good app for ${SECONDS} s each, times in ms`);
  console.log(`${''.padEnd(44)}quiet p50  p99   under attack p50   p99   ratio  loop p99  dropped`);
  const chosen = attacks.filter(({ name }) => words.every((word) => name.includes(word)));
  // A quick run tries some of each kind.
  for (const attack of chosen.filter((_, n) => n % effort(1, 6) === 0)) {
    report(attack, ...(await suffer(cellar, attack)));
  }
}

async function suffer(cellar: Cellar, attack: Attack): Promise<[quiet: Visits, attacked: Visits]> {
  const pushed = (await attack.prepare?.(cellar)) ?? { work: '', remote: '' };
  const quiet = await visit(cellar, SECONDS);
  const attacker = startAttacker(attack.name, { api: cellar.api, edgePort: cellar.edgePort, ...pushed });
  try {
    await sleep(LEAD_MS);
    return [quiet, await visit(cellar, SECONDS)];
  } finally {
    const gone = once(attacker, 'exit');
    attacker.kill('SIGKILL');
    await gone;
    await attack.end?.(cellar);
  }
}

/** In a process of its own: what it takes of the bench's time would be taken for the gateway's. */
function startAttacker(name: string, target: Target): ChildProcess {
  return fork(join(import.meta.dirname, 'hostile-attacker.ts'), [JSON.stringify({ name, ...target })]);
}

/** Asks the good app at a steady rate, whether or not the answers come. */
async function visit(cellar: Cellar, seconds: number): Promise<Visits> {
  await loopDelay(cellar);
  const agent = new Agent({ keepAlive: true });
  const times: number[] = [];
  let dropped = 0;
  const asked: Promise<void>[] = [];
  const begun = performance.now();
  for (let n = 0; n < seconds * REQUESTS_PER_SECOND; n++) {
    const due = begun + (n * 1000) / REQUESTS_PER_SECOND;
    if (due > performance.now()) await sleep(due - performance.now());
    asked.push(
      ask(cellar.edgePort, agent).then(
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
  return { p50: at(0.5), p99: at(0.99), dropped, loopP99: await loopDelay(cellar) };
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

function report({ name, burnsCore = false }: Attack, quiet: Visits, attacked: Visits): void {
  const ratio = attacked.p99 / quiet.p99;
  const target = burnsCore ? TARGETS.p99WithoutCore : TARGETS.p99;
  const missed = [
    ...(ratio > target ? [`p99 over ${target} ×`] : []),
    ...((attacked.loopP99 ?? 0) > TARGETS.loopMs ? [`loop over ${TARGETS.loopMs} ms`] : []),
    ...(attacked.dropped > 0 ? ['requests dropped'] : []),
  ];
  const cell = (value: number, width: number, digits = 1) => value.toFixed(digits).padStart(width);
  console.log(
    name.padEnd(44) +
      cell(quiet.p50, 9) +
      cell(quiet.p99, 5) +
      cell(attacked.p50, 19) +
      cell(attacked.p99, 6) +
      cell(ratio, 8, 2) +
      (attacked.loopP99 === null ? '-' : attacked.loopP99.toFixed(1)).padStart(10) +
      cell(attacked.dropped, 9, 0) +
      `  ${missed.length === 0 ? 'met' : `missed: ${missed.join(', ')}`}`,
  );
}
