// The cost of garbage in a long-running app: the memory of its process, and the latency of its requests. Compares the heap
// sizes that Cellar sets with V8's own. Every process is new, and gets the same number of requests.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { heapFlags } from '../runtime/fleets/config/heap.ts';
import { cellOptions, makeRelease } from '../test/support/fleets/release.ts';
import { effort } from './support/bench-scale.ts';
import { end, type Subject, start } from './support/by-hand.ts';
import { median, privateKb } from './support/figures.ts';
import { cpuUs, times } from './support/load.ts';

const PAIRS = effort(3, 1);
const REQUESTS = effort(15_000, 200);
/** An app: `/page` builds an answer of 240 kB from some 3,000 objects, and other paths query a database. */
const APP = `
const tree = (depth) => depth === 0
  ? { text: 'leaf ' + Math.random() }
  : { name: 'node ' + depth, children: [tree(depth - 1), tree(depth - 1), tree(depth - 1)] };
const render = ({ text, name, children }) =>
  children ? '<div class="' + name + '">' + children.map(render).join('') + '</div>' : '<p>' + text + '</p>';
export default { async fetch(request, env) {
  if (new URL(request.url).pathname === '/page') return new Response(render(tree(7)));
  await env.DB.exec('CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, text TEXT)');
  const { results } = await env.DB.prepare('SELECT * FROM entries').all();
  return Response.json(results);
} }`;
const KINDS = { 'a query': '/', 'a page of 240 kB': '/page' };

interface Cost {
  us: number;
  mb: number;
  p99: number;
  longest: number;
}

/** Prints both medians for each kind of request. */
export async function run(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'cellar-bench-'));
  try {
    const subjects = await configs(root);
    console.log(`medians of ${PAIRS} new processes of each kind, ${REQUESTS} requests over 32 connections`);
    for (const [kind, path] of Object.entries(KINDS)) await compare(kind, path, subjects);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** Returns the same app with the V8 flags that Cellar sets, and with only the limit of the heap. */
async function configs(root: string): Promise<Record<string, Subject>> {
  const directory = join(root, 'release');
  await makeRelease(directory, APP, {
    databases: [{ binding: 'DB', storageId: 'main', migrations: [] }],
  });
  const { config } = await cellOptions(root, directory);
  const plain = `${dirname(config)}-plain`;
  cpSync(dirname(config), plain, { recursive: true });
  const text = readFileSync(config, 'utf8');
  const [limit, ...sizes] = heapFlags(Number(/max-old-space-size=(\d+)/.exec(text)![1]));
  const without = text.replace(/v8Flags = \[.*?\]/, `v8Flags = ["${limit}"]`);
  if (sizes.some((flag) => without.includes(flag))) throw new Error('the flags are not where they were');
  writeFileSync(join(plain, 'cell.capnp'), without);
  return {
    "V8's own sizes": { directory, config: join(plain, 'cell.capnp') },
    "Cellar's": { directory, config },
  };
}

async function compare(kind: string, path: string, subjects: Record<string, Subject>): Promise<void> {
  const costs = new Map(Object.keys(subjects).map((name): [string, Cost[]] => [name, []]));
  for (let pair = 0; pair < PAIRS; pair++) {
    const order = Object.entries(subjects);
    for (const [name, subject] of pair % 2 === 0 ? order : order.reverse())
      costs.get(name)!.push(await costOf(subject, path));
  }
  for (const [name, all] of costs) {
    const of = (key: keyof Cost, digits: number) => median(all.map((each) => each[key])).toFixed(digits);
    console.log(
      `${kind.padEnd(18)}${name.padEnd(16)}${of('us', 0).padStart(6)} µs CPU each${of('mb', 0).padStart(6)} MB private, p99 ${of('p99', 1).padStart(6)} ms, longest ${of('longest', 0).padStart(4)} ms`,
    );
  }
}

async function costOf(subject: Subject, path: string): Promise<Cost> {
  const { child, port } = await start(subject, path);
  try {
    const before = cpuUs(child.pid!);
    const took = (await times(port, REQUESTS, { path })).sort((a, b) => a - b);
    return {
      us: (cpuUs(child.pid!) - before) / REQUESTS,
      mb: privateKb(child.pid!) / 1024,
      p99: took[Math.floor(took.length * 0.99)]!,
      longest: took.at(-1)!,
    };
  } finally {
    await end(child);
  }
}
