// R2 as an app's Worker has it: Cellar's bucket service, Miniflare's R2, and a bare copy of a file of the same size. In
// alternating rounds of one run.
import { randomBytes } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type RequestOptions, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import { CellFilesCache } from '../runtime/fleets/cell-files.ts';
import { startCell } from '../runtime/fleets/start-cell.ts';
import { layout } from '../runtime/machine/data-directory.ts';
import { Buckets } from '../runtime/storage/r2/buckets.ts';
import { cellOptions, makeRelease } from '../test/support/fleets/release.ts';
import { effort, isQuick } from './effort.ts';
import { median } from './figures.ts';

const ROUNDS = effort(5, 1);
const MB = 2 ** 20;
const OBJECT_MB = isQuick ? 4 : 64;
const SMALL = effort(300, 20);
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
  if (pathname === '/small-put') for (let i = 0; i < n; i++) await BUCKET.put('small/' + i, 'x'.repeat(1000));
  if (pathname === '/small-get') for (let i = 0; i < n; i++) await (await BUCKET.get('small/' + i)).text();
  return new Response('ok');
} }`;

interface Subject {
  name: string;
  ask: (path: string, body?: Buffer) => Promise<void>;
}

/** Prints the medians of each, and the ratios that the design is held to. */
export async function run(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'cb-'));
  const paths = layout(join(root, 'd'));
  const buckets = new Buckets({
    paths,
    users: () => ({ build: null, cell: null }),
    service: { maxMb: 0, floorMb: 0 },
  });
  const cell = await ownCell(root, buckets);
  const miniflare = await referenceApp(join(root, 'miniflare'));
  const { port, hostname } = await miniflare.ready;
  try {
    const subjects: Subject[] = [
      { name: 'Cellar', ask: (path, body) => ask({ socketPath: cell.socketPath('http') }, path, body) },
      { name: 'Miniflare', ask: (path, body) => ask({ port, host: hostname }, path, body) },
    ];
    const body = Buffer.alloc(OBJECT_MB * MB, 7);
    const bytes = OBJECT_MB * MB;
    const kinds = [
      { name: 'put', path: `/put?n=${bytes}`, unit: 'MB/s', amount: OBJECT_MB },
      { name: 'get', path: `/get?n=${bytes}`, unit: 'MB/s', amount: OBJECT_MB },
      { name: 'upload', path: '/upload', unit: 'MB/s', amount: OBJECT_MB, body },
      { name: 'download', path: '/download', unit: 'MB/s', amount: OBJECT_MB },
      { name: 'put of 1 kB', path: `/small-put?n=${SMALL}`, unit: '/s', amount: SMALL },
      { name: 'get of 1 kB', path: `/small-get?n=${SMALL}`, unit: '/s', amount: SMALL },
    ];
    const copies: number[] = [];
    const results = kinds.map(() => subjects.map((): number[] => []));
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [k, { path, amount, body }] of kinds.entries()) {
        for (const [s, { ask }] of subjects.entries()) {
          const begun = performance.now();
          await ask(path, body);
          // The first round only warms the machine's caches.
          if (round > 0) results[k]![s]!.push((amount * 1000) / (performance.now() - begun));
        }
      }
      copies.push(copyRate(root));
    }
    console.log(
      `objects of ${OBJECT_MB} MiB, and ${SMALL} of 1 kB one after another; medians of ${ROUNDS} rounds`,
    );
    for (const [k, { name, unit }] of kinds.entries()) {
      const [own, other] = results[k]!.map(median) as [number, number];
      const told = [own, other].map((rate) => `${rate.toFixed(0).padStart(6)} ${unit.padEnd(4)}`);
      console.log(
        `${name.padEnd(12)} Cellar ${told[0]} Miniflare ${told[1]} ratio ${(own / other).toFixed(1)}`,
      );
    }
    console.log(`bare copy of a file of ${OBJECT_MB} MiB: ${median(copies).toFixed(0)} MB/s`);
    const ratio = (k: number) => median(results[k]![0]!) / median(results[k]![1]!);
    line('puts, Cellar / Miniflare', ratio(0), 10);
    line('gets, Cellar / Miniflare', ratio(1), 2);
  } finally {
    cell.kill();
    await cell.exited;
    await buckets.close();
    await miniflare.dispose();
    rmSync(root, { recursive: true, force: true });
  }
}

async function ownCell(root: string, buckets: Buckets) {
  const directory = join(root, 'release');
  await makeRelease(directory, WORKER, { buckets: [{ binding: 'BUCKET', storageId: 'main' }] });
  const files = new CellFilesCache(join(root, 'run'), 1024, { bucketSocket: await buckets.open(APP_ID) });
  const options = await cellOptions(root, directory);
  return startCell({ ...options, ...(await files.of(directory)), memoryMb: 1024 });
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

/** Asks an app, sends it a body if there is one, and reads its answer to the end. */
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

/** As `cp` does it: in the page cache, without a sync. */
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
  console.log(`${name.padEnd(26)}${ratio.toFixed(1)}   target ≥ ${target}: ${verdict}`);
}
