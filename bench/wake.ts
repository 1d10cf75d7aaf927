// What a caller waits for when an app has hibernated: request to first 200 through the gateway, beside `workerd serve`
// of the same config by hand, both on storage that exists. In alternating rounds of one run; then many apps at once.
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempDisposableSync, rmSync, symlinkSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { workerdPath } from '../runtime/fleets/cell.ts';
import { CELL_CONFIG } from '../runtime/fleets/cell-config.ts';
import { makeRelease } from '../test/fleets/release.ts';
import type { Answer, Order, Steps } from './wake-host.ts';

const DEFAULT_WAKES = 60;
const AT_ONCE = 20;
/** Longest wait for a first 200, in ms. */
const READY_MS = 60_000;
const POLL_MS = 1;
const TARGETS = { p50: 1.3, p95: 1.5 };
/** A guestbook: each page is a D1 query. */
const APP = `
export default { async fetch(request, env) {
  await env.DB.exec('CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, text TEXT)');
  const { results } = await env.DB.prepare('SELECT text FROM entries').all();
  return Response.json({ title: env.TITLE, results });
} }`;

/** Prints both, their ratios and where a wake's time goes. `npm run bench -- wake 300` makes it 300 wakes. */
export async function run(): Promise<void> {
  const wakes = Number(process.argv[3] ?? DEFAULT_WAKES);
  using scratch = mkdtempDisposableSync(join(tmpdir(), 'cellar-bench-'));
  const root = scratch.path;
  await makeRelease(join(root, 'release'), APP, {
    vars: { TITLE: 'Guestbook' },
    databases: [{ binding: 'DB', storageId: 'main', migrations: [] }],
  });
  await alternate(root, wakes);
  await atOnce(root);
}

/** Times as ms since 1970, with fractions. */
interface Wake {
  begun: number;
  ended: number;
  at: Steps;
}

async function alternate(root: string, wakes: number): Promise<void> {
  const directory = join(root, 'single');
  await using host = await startHost(root, directory, 1);
  const [woken, byHand, steps]: [number[], number[], Wake[]] = [[], [], []];
  for (let round = 0; round <= wakes; round++) {
    const begun = now();
    const ms = await timeOf(() => get({ port: host.port, host: '0' }));
    const at = (await host.steps())[0]!;
    await host.hibernate();
    const hand = await startByHand(root, join(root, 'hand'));
    // The first round only warms the machine's caches, and makes the database.
    if (round === 0) continue;
    woken.push(ms);
    steps.push({ begun, ended: begun + ms, at });
    byHand.push(hand);
  }
  console.log(`request to first 200 of a hibernated app with D1, ${wakes} alternating rounds`);
  row('woken, through the gateway', woken);
  row('workerd serve by hand', byHand);
  for (const [name, share] of [
    ['p50', 0.5],
    ['p95', 0.95],
  ] as const) {
    const ratio = quantile(woken, share) / quantile(byHand, share);
    const verdict = ratio <= TARGETS[name] ? 'met' : 'missed';
    console.log(`ratio of the ${name}s ${ratio.toFixed(2)}   target ≤ ${TARGETS[name]}: ${verdict}`);
  }
  reportSteps(steps);
}

/** Means over the middle third, by their whole time: so the parts add up, and no outlier counts. */
function reportSteps(all: Wake[]): void {
  const parts: [string, (wake: Wake) => number][] = [
    ['gateway reads and routes', ({ begun, at }) => at.asked - begun],
    ['turn, and the note that it runs', ({ at }) => at.launched - at.asked],
    ['process starts and listens', ({ at }) => at.ready - at.launched],
    ['request to the app, and its answer', ({ ended, at }) => ended - at.ready],
  ];
  const sorted = [...all].sort((a, b) => a.ended - a.begun - (b.ended - b.begun));
  const middle = sorted.slice(Math.floor(sorted.length / 3), Math.ceil((sorted.length * 2) / 3));
  const mean = (of: (wake: Wake) => number) =>
    middle.reduce((sum, wake) => sum + of(wake), 0) / middle.length;
  const total = mean(({ begun, ended }) => ended - begun);
  console.log('a wake, step by step');
  for (const [name, of] of parts) {
    const ms = mean(of);
    const share = ((ms / total) * 100).toFixed(0);
    console.log(`  ${name.padEnd(36)}${ms.toFixed(1).padStart(6)} ms ${share.padStart(4)} %`);
  }
}

async function atOnce(root: string): Promise<void> {
  const indexes = Array.from({ length: AT_ONCE }, (_, index) => index);
  await using host = await startHost(root, join(root, 'many'), AT_ONCE);
  const ask = () =>
    Promise.all(indexes.map((index) => timeOf(() => get({ port: host.port, host: String(index) }))));
  const hands = () => Promise.all(indexes.map((index) => startByHand(root, join(root, `hand-${index}`))));
  await ask();
  await host.hibernate();
  await hands();
  const woken = await ask();
  const byHand = await hands();
  console.log(`${AT_ONCE} apps at once`);
  row('woken, four at a time', woken);
  row('by hand, all at a time', byHand);
}

interface Host {
  port: number;
  steps: () => Promise<Steps[]>;
  hibernate: () => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
}

async function startHost(root: string, directory: string, apps: number): Promise<Host> {
  mkdirSync(directory);
  // The release is named by the host's directory.

  symlinkSync(join(root, 'release'), join(directory, 'release'));
  const child = fork(join(import.meta.dirname, 'wake-host.ts'), [directory, String(apps)]);
  const answered = async () => {
    const [message] = (await once(child, 'message')) as [Answer];
    return message;
  };
  const order = (what: Order) => {
    const next = answered();
    child.send(what);
    return next;
  };
  const { port } = (await answered()) as { port: number };
  return {
    port,
    steps: async () => ((await order('steps')) as { steps: Steps[] }).steps,
    hibernate: async () => void (await order('hibernate')),
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}

/** As in a shell: nobody tells when it is ready, so it is asked until it answers. */
async function startByHand(root: string, directory: string): Promise<number> {
  const socketPath = join(directory, 'http.sock');
  const disks = ['do', 'kv'].map((name) => [name, join(directory, name)] as const);
  for (const [, path] of disks) mkdirSync(path, { recursive: true });
  for (const name of ['http', 'health']) rmSync(join(directory, `${name}.sock`), { force: true });
  const args = [
    'serve',
    CELL_CONFIG,
    '--experimental',
    ...disks.map(([name, path]) => `--directory-path=${name}=${path}`),
    ...['http', 'health'].map((name) => `--socket-addr=${name}=unix:${join(directory, `${name}.sock`)}`),
  ];
  const begun = performance.now();
  const child = spawn(workerdPath(), args, { cwd: join(root, 'release'), env: {}, stdio: 'ignore' });
  for (;;) {
    const answered = await get({ socketPath }).then(
      () => true,
      () => false,
    );
    const elapsed = performance.now() - begun;
    if (answered) {
      await end(child);
      return elapsed;
    }
    if (elapsed > READY_MS) throw new Error(`no answer within ${READY_MS / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}

/** One request on a connection of its own. @throws {Error} when it is not answered with 200 */
function get(to: { port: number; host: string } | { socketPath: string }): Promise<void> {
  const address = 'port' in to ? { port: to.port, headers: { host: to.host } } : to;
  return new Promise((resolve, reject) => {
    const sent = request({ ...address, path: '/', agent: false, timeout: READY_MS }, (response) => {
      response.resume();
      response.once('end', () =>
        response.statusCode === 200 ? resolve() : reject(new Error(`answered ${response.statusCode}`)),
      );
    });
    sent.once('error', reject);
    sent.end();
  });
}

async function timeOf(work: () => Promise<void>): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

function now(): number {
  return performance.timeOrigin + performance.now();
}

function row(name: string, times: number[]): void {
  const [p50, p95] = [quantile(times, 0.5), quantile(times, 0.95)].map((ms) => ms.toFixed(0).padStart(5));
  console.log(`${name.padEnd(28)}p50 ${p50} ms   p95 ${p95} ms`);
}

function quantile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}
