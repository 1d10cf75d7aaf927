// The cost of a cell (an app's workerd process): start time and private memory. Compared with workerd run by hand on the same
// config, a bare workerd, and Miniflare with the same bindings. The rounds of one run alternate.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Release } from '../bundler/release.ts';
import { layout } from '../runtime/disk/data-directory.ts';
import type { Cell } from '../runtime/fleets/process/cell.ts';
import { CellFilesCache } from '../runtime/fleets/process/cell-files.ts';
import { type CellOptions, startCell, workerdPath } from '../runtime/fleets/process/start-cell.ts';
import { Buckets } from '../runtime/storage/r2/buckets.ts';
import { call, cellOptions, makeRelease } from '../test/support/fleets/release.ts';
import { effort } from './support/bench-scale.ts';
import { socketFlags } from './support/by-hand.ts';
import { median, privateKb } from './support/figures.ts';
import { startMiniflare } from './support/miniflare-app.ts';

const ROUNDS = effort(9, 1);
/** Warm-up rounds, which only fill the machine's caches. */
const WARMING_ROUNDS = effort(1, 0);
/** Timeout until the first answer with status 200, in ms. */
const READY_MS = 20_000;
const APP_ID = 'b'.repeat(16);
const DATE = '2026-10-01';
const APP = `
import { DurableObject } from 'cloudflare:workers';
export class Visits extends DurableObject {
  async add() {
    const n = ((await this.ctx.storage.get('n')) ?? 0) + 1;
    await this.ctx.storage.put('n', n);
    return n;
  }
}
export default { async fetch(request, env) {
  await env.DB.exec('CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, text TEXT)');
  await env.DB.prepare('INSERT INTO entries (text) VALUES (?)').bind(env.TITLE).run();
  const { results } = await env.DB.prepare('SELECT text FROM entries').all();
  await env.KV.put('last', results.at(-1).text);
  return Response.json({ visits: await env.VISITS.getByName('all').add(), last: await env.KV.get('last'), results });
} }`;
/** Bindings that an app may have besides its storage, with their release fields and code. */
const BINDINGS: Record<string, { more: Partial<Release>; code?: string }> = {
  'with AI': { more: { outward: [{ type: 'ai', binding: 'AI' }] } },
  'with Hyperdrive': { more: { outward: [{ type: 'hyperdrive', binding: 'SQL', id: 'sql' }] } },
  'with data points': {
    more: { outward: [{ type: 'analytics_engine', binding: 'POINTS', dataset: 'points' }] },
  },
  'with e-mail': { more: { outward: [{ type: 'send_email', binding: 'MAIL' }] } },
  'with a service': { more: { services: [{ binding: 'OTHER', service: 'other' }] } },
  'with a rate limit': { more: { rateLimits: [{ binding: 'LIMIT', namespace: '1', limit: 9, period: 60 }] } },
  'with a loader': { more: { workerLoaders: [{ binding: 'LOADER' }] } },
  'with a Workflow': {
    more: { workflows: [{ binding: 'STEPS', name: 'steps', className: 'Steps' }] },
    code: "import { WorkflowEntrypoint } from 'cloudflare:workers'; export class Steps extends WorkflowEntrypoint {}",
  },
  'with queue, cron': {
    more: {
      triggers: {
        crons: ['0 0 1 1 *'],
        producers: [{ binding: 'QUEUE', queue: 'q' }],
        consumers: [{ queue: 'q' }],
      },
    },
  },
  'with the cache': { more: {}, code: 'export const cache = () => caches.default;' },
};
const CACHE_MB = 64;
const HELLO = `export default { fetch: () => new Response('hello') }`;

/** One start: time from spawn to the first 200 in ms, and private memory after it in MB. */
interface Start {
  readyMs: number;
  privateMb: number;
}

interface Subject {
  name: string;
  /** Starts in an empty directory, sends one request, measures, stops. */
  start: (scratch: string) => Promise<Start>;
}

/** Prints the medians, and the ratios with their targets. */
export async function run(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'cellar-bench-'));
  try {
    const buckets = new Buckets({
      paths: layout(join(root, 'd')),
      users: () => ({ build: null, cell: null }),
      service: { maxMb: 0, floorMb: 0 },
    });
    const { app, hello, stored, bound } = await writeReleases(root, buckets);
    const subjects: Subject[] = [
      { name: 'Cellar cell', start: (scratch) => cell(scratch, app) },
      { name: 'workerd by hand', start: (scratch) => byHand(scratch, app, '/entries') },
      { name: 'bare workerd', start: (scratch) => byHand(scratch, hello, '/') },
      { name: 'Miniflare', start: (scratch) => miniflareProcess(scratch, app.directory) },
      { name: 'Miniflare, warm', start: (scratch) => miniflareWarm(scratch, app.directory) },
      { name: 'with a bucket', start: (scratch) => cellWithBucket(scratch, stored, buckets) },
      ...bound.map(([name, options]) => ({ name, start: (scratch: string) => cell(scratch, options) })),
    ];
    const results = subjects.map((): Start[] => []);
    // A neighbour of each kind, as on any host: a lone process would count shared pages of the program file as private.
    const neighbours: Cell[] = [];
    for (const options of [app, stored, ...bound.map(([, options]) => options)]) {
      const neighbour = await startCell(inScratch(options, join(root, `neighbour-${neighbours.length}`)));
      neighbours.push(neighbour);
      await firstAnswer(neighbour.socketPath('http'), '/entries', performance.now());
    }
    for (let round = -WARMING_ROUNDS; round < ROUNDS; round++) {
      for (const [index, subject] of subjects.entries()) {
        const scratch = mkdtempSync(join(root, 'round-'));
        const start = await subject.start(scratch);
        if (round >= 0) results[index]!.push(start);
      }
    }
    await Promise.all(neighbours.map((neighbour) => neighbour.stop()));
    await buckets.close();
    report(subjects, results);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

type Started = Pick<CellOptions, 'directory' | 'config'>;

async function writeReleases(
  root: string,
  buckets: Buckets,
): Promise<{
  app: CellOptions;
  hello: Started;
  stored: CellOptions;
  bound: [name: string, options: CellOptions][];
}> {
  const [app, stored] = ['app', 'stored'].map((name) => join(root, name)) as [string, string];
  const write = (directory: string, more: Partial<Release>, code = APP) =>
    makeRelease(
      directory,
      code,
      {
        vars: { TITLE: 'Guestbook' },
        classes: [{ className: 'Visits', storageId: 'visits', sql: true }],
        durableObjects: [{ binding: 'VISITS', className: 'Visits' }],
        databases: [{ binding: 'DB', storageId: 'main', migrations: [] }],
        namespaces: [{ binding: 'KV', storageId: 'main' }],
        assets: {
          directory: 'public',
          binding: 'ASSETS',
          notFoundHandling: 'none',
          htmlHandling: 'auto-trailing-slash',
          runWorkerFirst: false,
        },
        ...more,
      },
      { 'public/index.html': '<h1>Guestbook</h1>' },
    );
  await write(app, {});
  const bound = Object.entries(BINDINGS).map(async ([name, { more, code }], index) => {
    const directory = join(root, `bound-${index}`);
    await write(directory, more, `${APP}\n${code ?? ''}`);
    return [name, await cellOptions(join(root, `b${index}`), directory, CACHE_MB)] as [string, CellOptions];
  });
  await write(stored, { buckets: [{ binding: 'FILES', storageId: 'files' }] });
  const hello = join(root, 'hello');
  mkdirSync(hello);
  writeFileSync(join(hello, 'app.js'), HELLO);
  const config = join(hello, 'cell.capnp');
  writeFileSync(
    config,
    `using Workerd = import "/workerd/workerd.capnp";
    const config :Workerd.Config = (
      services = [(name = "app", worker = (modules = [(name = "app.js", esModule = embed "app.js")], compatibilityDate = "${DATE}"))],
      sockets = [(name = "http", http = (), service = "app")]);`,
  );
  // Only the first launch of a release writes these files.
  const files = new CellFilesCache(join(root, 'stored-run'), 512, {
    bucketSocket: await buckets.open(APP_ID),
  });
  return {
    app: await cellOptions(root, app),
    hello: { directory: hello, config },
    bound: await Promise.all(bound),
    stored: { ...(await cellOptions(join(root, 's'), stored)), ...(await files.of(stored)) },
  };
}

/** Returns the options of a cell with its state in `scratch`. */
function inScratch(options: CellOptions, scratch: string): CellOptions {
  return {
    ...options,
    disks: {
      do: join(scratch, 'do'),
      kv: join(scratch, 'kv'),
      ...(options.disks.cache !== undefined && { cache: join(scratch, 'cache') }),
    },
    runDirectory: scratch,
  };
}

async function cell(scratch: string, options: CellOptions): Promise<Start> {
  const begun = performance.now();
  const started = await startCell(inScratch(options, scratch));
  const readyMs = await firstAnswer(started.socketPath('http'), '/entries', begun);
  const privateMb = privateKb(started.pid) / 1024;
  await started.stop();
  return { readyMs, privateMb };
}

/** Starts as a host does: the bucket service already runs, and opens the app's buckets during the start. */
async function cellWithBucket(scratch: string, options: CellOptions, buckets: Buckets): Promise<Start> {
  await buckets.forget(APP_ID);
  const [start] = await Promise.all([cell(scratch, options), buckets.open(APP_ID)]);
  return start;
}

/** Runs `workerd serve` as in a shell: nothing reports when it is ready, so it is polled until it answers. */
async function byHand(scratch: string, { directory, config }: Started, path: string): Promise<Start> {
  const socket = join(scratch, 'http.sock');
  const full = path !== '/';
  const disks = full ? ['do', 'kv'].map((name) => join(scratch, name)) : [];
  for (const disk of disks) mkdirSync(disk);
  const more = full ? ['-d', `do=${disks[0]}`, '-d', `kv=${disks[1]}`] : [];
  const sockets = socketFlags(config, (name) => `unix:${join(scratch, `${name}.sock`)}`);
  const begun = performance.now();
  const args = ['serve', config, '--experimental', ...sockets, ...more];
  const child = spawn(workerdPath(), args, { cwd: directory, env: {}, stdio: 'ignore' });
  const readyMs = await firstAnswer(socket, path, begun);
  const privateMb = privateKb(child.pid!) / 1024;
  await end(child);
  return { readyMs, privateMb };
}

/** Starts a Node process with one Miniflare, as a platform would for each app. The memory is that of both processes. */
async function miniflareProcess(scratch: string, directory: string): Promise<Start> {
  const program = fileURLToPath(new URL('./support/miniflare-app.ts', import.meta.url));
  const begun = performance.now();
  const child = spawn(process.execPath, [program, scratch, directory], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout!, 'data')) as [Buffer];
  const readyMs = performance.now() - begun;
  const pids = line.toString().trim().split(' ').slice(1).map(Number);
  const privateMb = [child.pid!, ...pids].reduce((sum, pid) => sum + privateKb(pid), 0) / 1024;
  const exited = once(child, 'exit');
  child.stdin!.end();
  await exited;
  return { readyMs, privateMb };
}

/** Starts one more instance in this process, whose Miniflare is loaded. The memory is that of its workerd alone. */
async function miniflareWarm(scratch: string, directory: string): Promise<Start> {
  const begun = performance.now();
  const { instance, pids } = await startMiniflare(scratch, directory);
  const readyMs = performance.now() - begun;
  const privateMb = pids.reduce((sum, pid) => sum + privateKb(pid), 0) / 1024;
  await instance.dispose();
  return { readyMs, privateMb };
}

async function firstAnswer(socket: string, path: string, begun: number): Promise<number> {
  for (;;) {
    const answer = await call(socket, path).catch(() => null);
    const elapsed = performance.now() - begun;
    if (answer?.status === 200) return elapsed;
    if (answer !== null) throw new Error(`${path} answered ${answer.status}: ${answer.text}`);
    if (elapsed > READY_MS) throw new Error(`${path} gave no answer within ${READY_MS / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

function report(subjects: Subject[], results: Start[][]): void {
  const medians = results.map((starts) => ({
    readyMs: median(starts.map(({ readyMs }) => readyMs)),
    privateMb: median(starts.map(({ privateMb }) => privateMb)),
  }));
  console.log(
    `D1 + KV + Durable Object + assets + vars, empty storage, medians of ${ROUNDS} alternating rounds`,
  );
  console.log(`${''.padEnd(18)}spawn to first 200   private memory`);
  for (const [index, { name }] of subjects.entries()) {
    const { readyMs, privateMb } = medians[index]!;
    console.log(
      `${name.padEnd(18)}${readyMs.toFixed(0).padStart(15)} ms${privateMb.toFixed(1).padStart(14)} MB`,
    );
  }
  const [own, hand, , mini, warm, stored] = medians as [Start, Start, Start, Start, Start, Start];
  line('start, cell / by hand', own.readyMs / hand.readyMs, 1.25);
  line('start, cell / Miniflare', own.readyMs / mini.readyMs, 0.25);
  console.log(`${'start, cell / warm one'.padEnd(26)}${(own.readyMs / warm.readyMs).toFixed(2)}`);
  line('start, with / without R2', stored.readyMs / own.readyMs, 1.1);
  console.log(
    `${'memory, R2 adds'.padEnd(26)}${(stored.privateMb - own.privateMb).toFixed(1)} MB   target ≤ 1`,
  );
  line('memory, cell / by hand', own.privateMb / hand.privateMb, 1.15);
  console.log(`${'memory, cell / warm one'.padEnd(26)}${(own.privateMb / warm.privateMb).toFixed(2)}`);
  console.log('what each adds to the cell that has none of them, which is the one that is compared above');
  for (const [index, { name }] of subjects.entries()) {
    if (!name.startsWith('with ')) continue;
    const { readyMs, privateMb } = medians[index]!;
    console.log(
      `${name.padEnd(18)}${signed(readyMs - own.readyMs).padStart(15)} ms${signed(privateMb - own.privateMb).padStart(14)} MB`,
    );
  }
}

function signed(value: number): string {
  return `${value < 0 ? '' : '+'}${value.toFixed(1)}`;
}

function line(name: string, ratio: number, target: number): void {
  const verdict = ratio <= target ? 'met' : 'missed';
  console.log(`${name.padEnd(26)}${ratio.toFixed(2)}   target ≤ ${target}: ${verdict}`);
}
