// Snapshots of many apps: the cost of the first snapshot, and of one after few changes. Also the latency of an app that is
// called meanwhile.
import { execFileSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { request } from 'undici';
import { Cellar, LOCALHOST } from '../test/support/e2e/cellar.ts';
import { effort, isQuick } from './support/bench-scale.ts';
import { Copies } from './support/copies.ts';

const APPS = effort(100, 3);
/** Size of each app's database, in MiB. */
const MB = effort(10, 1);
/** Number of apps that get a row between the snapshots. */
const CHANGED = effort(3, 1);
const QUIET_MS = effort(15_000, 1_000);
/** Pause between two requests to the app, in ms. */
const PACE_MS = 5;
/** After this number of requests, V8 has had its first major garbage collection. Later ones take as long. */
const WARM_REQUESTS = effort(12_000, 10);
const ROW_BYTES = 1_000;

interface Taken {
  bytes: number;
  ms: number;
}

/** Prints each figure with its target. */
export async function run(): Promise<void> {
  await using cellar = await new Cellar({
    RUNNER_SNAPSHOT_EVERY_H: '0',
    RUNNER_FLEET_IDLE_EVICT_S: '3600',
  }).start();
  const id = await cellar.deploy('proto', 'guestbook');
  await sign(cellar, 'proto');
  const deployId = (await cellar.app(id)).live_deploy_id;
  await cellar.stop();
  const copies = new Copies(cellar.data, id, deployId);
  copies.make(APPS, 'sleeping');
  for (const copy of copies.ids) fill(cellar.data, copy);
  // Flush the written copies before anything is measured.
  if (!isQuick) execFileSync('sync');
  await cellar.start();
  for (let count = 0; count < WARM_REQUESTS; count++) await ask(cellar);
  // Measured before and after, since the machine's load changes.
  const quiet = await feel(cellar, sleep(QUIET_MS));
  const taking = take(cellar);
  const during = await feel(cellar, taking);
  const first = await taking;
  quiet.push(...(await feel(cellar, sleep(QUIET_MS))));
  report('first snapshot', first);
  for (let index = 0; index < CHANGED; index++) await sign(cellar, `copy-${index}`);
  const second = await take(cellar);
  report(`second, ${CHANGED} apps changed`, second);
  target('bytes, second / first', second.bytes / first.bytes, 0.05);
  target('time, second / first', second.ms / first.ms, 0.05);
  const [usual, meanwhile] = [p99(quiet), p99(during)];
  console.log(
    `p99 of an app: quiet ${usual.toFixed(1)} ms, while the first was taken ${meanwhile.toFixed(1)} ms`,
  );
  target('p99 meanwhile / quiet', meanwhile / usual, 1.5);
}

async function take(cellar: Cellar): Promise<Taken> {
  const from = performance.now();
  const { statusCode, body } = await request(`${cellar.api}/v1/admin/snapshot`, {
    method: 'POST',
    headers: { authorization: `Bearer ${cellar.token}` },
    headersTimeout: 0,
  });
  const taken = (await body.json()) as { bytes: number };
  if (statusCode !== 201) throw new Error(`the snapshot failed: ${JSON.stringify(taken)}`);
  const ms = performance.now() - from;
  const { problem } = (await cellar.call('GET', '/v1/admin/stats')).body.host.snapshots;
  if (problem !== null) throw new Error(problem);
  return { bytes: taken.bytes, ms };
}

/** Requests an app at a steady rate until `end` settles. @returns the latencies in ms */
async function feel(cellar: Cellar, end: Promise<unknown>): Promise<number[]> {
  let ended = false;
  const done = end.finally(() => (ended = true));
  const asked: Promise<number>[] = [];
  while (!ended) {
    asked.push(ask(cellar));
    await sleep(PACE_MS);
  }
  await done;
  return Promise.all(asked);
}

/** @returns the latency in ms */
async function ask({ edgePort }: Cellar): Promise<number> {
  const from = performance.now();
  const url = `http://proto.localhost:${edgePort}/entries`;
  const { statusCode, body } = await request(url, { dispatcher: LOCALHOST });
  await body.dump();
  if (statusCode !== 200) throw new Error(`the app answered ${statusCode}`);
  return performance.now() - from;
}

function p99(times: number[]): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)]!;
}

async function sign(cellar: Cellar, slug: string): Promise<void> {
  const { status, text } = await cellar.get(slug, '/entries', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Ada', message: 'hello' }),
  });
  if (status !== 201) throw new Error(`${slug} answered ${status}: ${text}`);
}

/** Fills a copy with rows that no other app has. */
function fill(data: string, id: string): void {
  const files = globSync(join(data, 'data', id, 'do', 'D1Database', '*.sqlite'));
  const database = new Database(files.find((path) => !path.endsWith('metadata.sqlite'))!);
  try {
    const add = database.prepare(
      `INSERT INTO entries (name, message, created_at) VALUES ('a', hex(randomblob(${ROW_BYTES / 2})), '2026')`,
    );
    database.transaction(() => {
      for (let row = 0; row < (MB * 2 ** 20) / ROW_BYTES; row++) add.run();
    })();
  } finally {
    database.close();
  }
}

function report(name: string, { bytes, ms }: Taken): void {
  console.log(
    `${name.padEnd(28)}${(bytes / 2 ** 20).toFixed(2).padStart(9)} MiB in ${(ms / 1000).toFixed(2)} s`,
  );
}

function target(name: string, value: number, most: number): void {
  console.log(
    `${name.padEnd(28)}${value.toFixed(3)}   target ≤ ${most}: ${value <= most ? 'met' : 'missed'}`,
  );
}
