// The cost of the entry module's capture in a cell: the same app behind the entry module, and without it. Measured are CPU time
// per request, and memory after the same number of requests. Each pair of processes is new and warmed up, then called in short
// alternating rounds, so that other load on the machine affects both. Memory layout makes processes differ: the ratio is
// the median of the pairs' ratios, printed with its quartiles. Both get what the gateway sends for a request of wrk,
// including `traceparent`: the entry module makes one only when it is missing.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Release } from '../bundler/release.ts';
import { readHead } from '../runtime/edge/http/head/head.ts';
import { type Caller, forwardedHeaders } from '../runtime/edge/http/head/headers.ts';
import { cellOptions, makeRelease } from '../test/support/fleets/release.ts';
import { effort, words } from './support/bench-scale.ts';
import { end, type Process, type Subject, start } from './support/by-hand.ts';
import { median, privateKb, quartiles } from './support/figures.ts';
import { type Asked, ask, cpuUs, loadName } from './support/load.ts';

const PAIRS = effort(8, 1);
const ROUNDS = effort(8, 1);
/** Requests to each process of a pair in a round. */
const REQUESTS = effort(2000, 200);
/** Requests before the first round: at the beginning each allocation of a process grows its heap. */
const WARM_REQUESTS = effort(12_000, 200);
/** Maximum cost of a request with the capture, as a multiple of its cost without. */
const TARGET = 1.08;

const ROOM = `
import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
export class Room extends DurableObject {
  #n = 0;
  async add() { return ++this.#n; }
  async fetch() { return new Response(String(++this.#n)); }
}`;
const KINDS: Record<string, string> = {
  'an object, async fetch': `export default { async fetch(request) { return new Response('hello ' + request.url); } };`,
  'a class, async fetch': `${ROOM}
export default class extends WorkerEntrypoint { async fetch(request) { return new Response('hello ' + request.url); } }`,
  'an object that awaits ten times': `export default { async fetch(request) {
  for (let i = 0; i < 10; i++) await scheduler.wait(0);
  return new Response('hello ' + request.url);
} };`,
  'a Durable Object by RPC': `${ROOM}
export default { async fetch(request, env) { return new Response(await env.ROOM.getByName('one').add()); } };`,
  'a Durable Object by fetch': `${ROOM}
export default { fetch: (request, env) => env.ROOM.getByName('one').fetch('http://room/') };`,
  'one line of console.log': `export default { async fetch(request) { console.log('asked for', request.url); return new Response('hello'); } };`,
};
/** The entry module of an app without capture. */
const BARE_ENTRY = `
import { WorkerEntrypoint } from 'cloudflare:workers';
export * from './app.js';
export { default } from './app.js';
export class CellarState extends WorkerEntrypoint { fetch() { return new Response('0'); } }
export class CellarCache extends WorkerEntrypoint {}
`;

const CALLER: Caller = {
  peer: '127.0.0.1',
  trusted: false,
  isOwnProxy: false,
  isSampled: false,
  locate: () => '',
  client: () => '127.0.0.1',
  isByTrustedProxy: () => false,
};
const ASKED: Asked = { path: '/', headers: gatewayHeaders() };

/** Returns the headers that the gateway sends to a cell for a request of wrk. */
function gatewayHeaders(): Record<string, string> {
  const text = Buffer.from('GET / HTTP/1.1\r\nHost: shop.localhost\r\n\r\n');
  const head = readHead(text, text.length);
  if ('refusal' in head) throw new Error(head.refusal.detail);
  const lines = forwardedHeaders(head, CALLER).lines.toString('latin1').trimEnd().split('\r\n');
  return Object.fromEntries(lines.map((line) => line.split(/: (.*)/, 2) as [string, string]));
}

/** Prints both costs of each kind of app, and their ratio. An argument limits the kinds to those whose name contains it. */
export async function run(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'cellar-bench-'));
  try {
    console.log(
      `medians of ${PAIRS} pairs of processes, each in ${ROUNDS} alternating rounds of ${REQUESTS} requests, ${loadName}`,
    );
    console.log(`${''.padEnd(34)}bare, entry µs    ratio (quartiles)    bare, entry MB`);
    const [wanted = ''] = words;
    const kinds = Object.entries(KINDS).filter(([kind]) => kind.includes(wanted));
    for (const [index, [kind, code]] of kinds.slice(0, effort(kinds.length, 2)).entries())
      await compare(kind, await configs(join(root, String(index)), code));
    console.log(`target: a ratio of at most ${TARGET}`);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function configs(root: string, code: string): Promise<[Subject, Subject]> {
  const directory = join(root, 'release');
  const room = code.includes('class Room');
  const fields: Partial<Release> = room
    ? {
        exports: ['Room', 'default'],
        classes: [{ className: 'Room', storageId: 'room', sql: true }],
        durableObjects: [{ binding: 'ROOM', className: 'Room' }],
      }
    : { exports: ['default'] };
  await makeRelease(directory, code, fields);
  const { config } = await cellOptions(root, directory);
  const bare = `${dirname(config)}-bare`;
  cpSync(dirname(config), bare, { recursive: true });
  writeFileSync(join(bare, 'cellar-entry.js'), BARE_ENTRY);
  return [
    { directory, config: join(bare, 'cell.capnp') },
    { directory, config },
  ];
}

/** Costs of a process: CPU time per request, and private memory after the last one. */
interface Cost {
  us: number;
  mb: number;
}

async function compare(kind: string, subjects: [Subject, Subject]): Promise<void> {
  const pairs: [bare: Cost, entry: Cost][] = [];
  for (let pair = 0; pair < PAIRS; pair++) pairs.push(await costsOfPair(subjects, pair));
  const ratios = pairs.map(([bare, entry]) => entry.us / bare.us);
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
async function costsOfPair(subjects: [Subject, Subject], pair: number): Promise<[Cost, Cost]> {
  const used: [number, number] = [0, 0];
  const processes: Process[] = [];
  try {
    for (const subject of subjects) processes.push(await start(subject));
    for (const { port } of processes) await ask(port, WARM_REQUESTS, ASKED);
    for (let round = 0; round < ROUNDS; round++)
      for (const side of (pair + round) % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
        const { child, port } = processes[side]!;
        const before = cpuUs(child.pid!);
        await ask(port, REQUESTS, ASKED);
        used[side] += cpuUs(child.pid!) - before;
      }
    return [costOf(processes[0]!, used[0]), costOf(processes[1]!, used[1])];
  } finally {
    for (const { child } of processes) await end(child);
  }
}

function costOf({ child }: Process, usedUs: number): Cost {
  return { us: usedUs / (ROUNDS * REQUESTS), mb: privateKb(child.pid!) / 1024 };
}
