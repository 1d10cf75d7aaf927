// R2 in an app's Worker: Cellar's bucket service; Miniflare's R2 modules inside the app's own process, the alternative without a
// service; Miniflare itself; the same bytes through the service's socket to a process that stores nothing; and a
// plain copy of a file of the same size. In alternating rounds of one run.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type RequestOptions, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import { layout } from '../runtime/disk/data-directory.ts';
import type { Cell } from '../runtime/fleets/process/cell.ts';
import { CellFilesCache } from '../runtime/fleets/process/cell-files.ts';
import { startCell } from '../runtime/fleets/process/start-cell.ts';
import { Buckets } from '../runtime/storage/r2/buckets.ts';
import { cellOptions, makeRelease } from '../test/support/fleets/release.ts';
import { effort, isQuick } from './support/bench-scale.ts';
import { median } from './support/figures.ts';
import { startWithR2 } from './support/r2-in-cell.ts';

const ROUNDS = effort(5, 1);
const MB = 2 ** 20;
const OBJECT_MB = isQuick ? 4 : 64;
const SMALL = effort(300, 20);
/** Name, size in bytes, and number of concurrent objects. */
const SMALL_KINDS = [
  ['1 kB', 1_000, 1],
  ['64 kB', 64_000, 1],
  ['1 kB, 20 at once', 1_000, 20],
] as const;
const APP_ID = 'b'.repeat(16);
const WORKER = `
let kept;
export default { async fetch(request, { BUCKET }) {
  const { pathname, searchParams } = new URL(request.url);
  const n = Number(searchParams.get('n'));
  if (pathname === '/put') await BUCKET.put('large', (kept ??= new Uint8Array(n).fill(7)));
  if (pathname === '/upload') await BUCKET.put('large', request.body);
  if (pathname === '/download') return new Response((await BUCKET.get('large')).body);
  if (pathname === '/get') {
    const { byteLength } = await (await BUCKET.get('large')).arrayBuffer();
    if (byteLength !== n) throw new Error(byteLength + ' bytes');
  }
  const size = Number(searchParams.get('size')), atOnce = Number(searchParams.get('at_once'));
  const each = (act) => Promise.all(Array.from({ length: atOnce }, async (_, k) => { for (let i = k; i < n; i += atOnce) await act(i); }));
  if (pathname === '/small-put') await each((i) => BUCKET.put('small/' + i, 'x'.repeat(size)));
  if (pathname === '/small-get') await each(async (i) => (await BUCKET.get('small/' + i)).text());
  return new Response('ok');
} }`;

interface Subject {
  name: string;
  ask: (path: string, body?: Buffer) => Promise<void>;
}

/** Prints the medians, and the ratios with their targets. */
export async function run(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'cb-'));
  const paths = layout(join(root, 'd'));
  const buckets = new Buckets({
    paths,
    users: () => ({ build: null, cell: null }),
    service: { maxMb: 0, floorMb: 0 },
  });
  const cell = await cellAt(join(root, 'cell'), await buckets.open(APP_ID));
  const inCell = await startWithR2(join(root, 'in-cell'), WORKER);
  const miniflare = await referenceApp(join(root, 'miniflare'));
  const floor = await startFloor(join(root, 'floor.sock'));
  const floorCell = await cellAt(join(root, 'floor'), join(root, 'floor.sock'));
  const { port, hostname } = await miniflare.ready;
  try {
    const asked = (name: string, to: RequestOptions): Subject => ({
      name,
      ask: (path, body) => ask(to, path, body),
    });
    const subjects = [
      asked('Cellar', { socketPath: cell.socketPath('http') }),
      asked('in the cell', { socketPath: inCell.socketPath }),
      asked('Miniflare', { port, host: hostname }),
      asked('nothing kept', { socketPath: floorCell.socketPath('http') }),
    ];
    const body = Buffer.alloc(OBJECT_MB * MB, 7);
    const bytes = OBJECT_MB * MB;
    const kinds = [
      { name: 'put', path: `/put?n=${bytes}`, unit: 'MB/s', amount: OBJECT_MB },
      { name: 'get', path: `/get?n=${bytes}`, unit: 'MB/s', amount: OBJECT_MB },
      { name: 'upload', path: '/upload', unit: 'MB/s', amount: OBJECT_MB, body },
      { name: 'download', path: '/download', unit: 'MB/s', amount: OBJECT_MB },
      ...SMALL_KINDS.flatMap(([name, size, atOnce]) =>
        ['put', 'get'].map((what) => ({
          name: `${what} of ${name}`,
          path: `/small-${what}?n=${SMALL}&size=${size}&at_once=${atOnce}`,
          unit: '/s',
          amount: SMALL,
        })),
      ),
    ];
    const copies: number[] = [];
    const results = kinds.map(() => subjects.map((): number[] => []));
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [k, { path, amount, body }] of kinds.entries()) {
        for (const [s, { ask }] of subjects.entries()) {
          const begun = performance.now();
          await ask(path, body);
          // The first round is a warm-up.
          if (round > 0) results[k]![s]!.push((amount * 1000) / (performance.now() - begun));
        }
      }
      copies.push(copyRate(root));
    }
    console.log(
      `objects of ${OBJECT_MB} MiB, and ${SMALL} small ones one after another or 20 at once; medians of ${ROUNDS} rounds`,
    );
    console.log(`${''.padEnd(24)}${subjects.map(({ name }) => name.padStart(14)).join('')}`);
    for (const [k, { name, unit }] of kinds.entries()) {
      const cells = results[k]!.map((rates) => `${median(rates).toFixed(0)} ${unit}`.padStart(14));
      console.log(name.padEnd(24) + cells.join(''));
    }
    console.log(`bare copy of a file of ${OBJECT_MB} MiB: ${median(copies).toFixed(0)} MB/s`);
    const ratio = (k: number, s: number) => median(results[k]![0]!) / median(results[k]![s]!);
    line('puts, Cellar / in the cell', ratio(0, 1), 10);
    line('gets, Cellar / in the cell', ratio(1, 1), 2);
  } finally {
    for (const each of [cell, floorCell]) {
      each.kill();
      await each.exited;
    }
    for (const child of [inCell.child, floor]) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await buckets.close();
    await miniflare.dispose();
    rmSync(root, { recursive: true, force: true });
  }
}

/** Starts a cell that reaches its bucket at this socket. */
async function cellAt(root: string, bucketSocket: string): Promise<Cell> {
  const directory = join(root, 'release');
  await makeRelease(directory, WORKER, { buckets: [{ binding: 'BUCKET', storageId: 'main' }] });
  const files = new CellFilesCache(join(root, 'run'), 1024, { bucketSocket });
  const options = await cellOptions(root, directory);
  return startCell({ ...options, ...(await files.of(directory)), memoryMb: 1024 });
}

async function startFloor(socket: string): Promise<ChildProcess> {
  const program = fileURLToPath(new URL('./support/r2-floor.ts', import.meta.url));
  const child = spawn(process.execPath, [program, socket], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout!, 'data');
  return child;
}

function referenceApp(scratch: string): Promise<Miniflare> {
  const instance = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      cf: false,
      telemetry: { enabled: false },
      resourcePersistencePath: scratch,
      name: 'app',
      modules: true,
      script: WORKER,
      compatibilityDate: '2026-10-01',
      r2Buckets: { BUCKET: 'main' },
    }),
  );
  return instance.ready.then(() => instance);
}

/** Sends an app a request, with a body if there is one, and reads the answer to its end. */
function ask(to: RequestOptions, path: string, body?: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const method = body ? 'PUT' : 'GET';
    const headers = body ? { 'content-length': body.length } : {};
    const sent = request({ ...to, method, path, headers, agent: false }, (response) => {
      response.on('error', reject).on('end', () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`${path} answered ${response.statusCode}`));
      });
      response.resume();
    });
    sent.on('error', reject).end(body);
  });
}

/** Copies as `cp` does: in the page cache, without a sync. */
function copyRate(root: string): number {
  const [from, to] = [join(root, 'from'), join(root, 'to')];
  writeFileSync(from, randomBytes(OBJECT_MB * MB));
  readFileSync(from);
  const begun = performance.now();
  copyFileSync(from, to);
  const rate = (OBJECT_MB * 1000) / (performance.now() - begun);
  rmSync(to);
  return rate;
}

function line(name: string, ratio: number, target: number): void {
  const verdict = ratio >= target ? 'met' : 'missed';
  console.log(`${name.padEnd(28)}${ratio.toFixed(1)}   target ≥ ${target}: ${verdict}`);
}
