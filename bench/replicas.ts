// Requests that compute, answered by one, two and three processes of an app in the bucket. The bucket is in this process. On a
// machine with other work the ratios mean nothing.
import { availableParallelism } from 'node:os';
import { MemoryStore } from '../test/support/bucket/memory-store.ts';
import { bucketSettings } from '../test/support/bucket/settings.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { eventually } from '../test/support/processes.ts';
import { effort } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const ROUNDS = effort(5, 1);
const ROUND_MS = effort(5_000, 200);
const AT_ONCE = 12;
const PROCESSES = [1, 2, 3];
/** Minimum ratio of requests per second at two processes to those at one. */
const TARGET = 1.8;
const APP = {
  'wrangler.toml': 'name = "app"\nmain = "index.js"\ncompatibility_date = "2026-10-01"\n',
  'index.js': `export default {
  fetch() {
    let sum = 0;
    for (let n = 0; n < 1_000_000; n++) sum = (sum + n * n) % 1_000_003;
    return new Response(String(sum));
  },
};`,
};

/** Prints the requests per second with each number of processes, and the ratio to one. */
export async function run(): Promise<void> {
  await using store = await new MemoryStore().start();
  await using cellar = await new Cellar(bucketSettings(store.place('bench/'))).start();
  const { body } = await cellar.call('POST', '/v1/apps', { slug: 'hot', storage: 'bucket' });
  await cellar.deployAgain('hot', 'hello', APP);
  const rates = new Map<number, number[]>(PROCESSES.map((count) => [count, []]));
  for (let round = 0; round < ROUNDS; round++)
    for (const count of PROCESSES) {
      await scale(cellar, body.id, count);
      rates.get(count)!.push(await rate(cellar));
    }
  const one = median(rates.get(1)!);
  console.log(`${availableParallelism()} processors, ${AT_ONCE} requests at once`);
  for (const [count, all] of rates) {
    const ratio = median(all) / one;
    const verdict = count === 2 ? ` (target ${TARGET}: ${ratio >= TARGET ? 'met' : 'missed'})` : '';
    console.log(`${count} processes: ${median(all).toFixed(1)} requests/s, ${ratio.toFixed(2)} ×${verdict}`);
  }
}

async function scale(cellar: Cellar, id: string, replicas: number): Promise<void> {
  await cellar.call('PATCH', `/v1/apps/${id}`, { replicas });
  const figures = { jsonrpc: '2.0', id: 1, method: 'apps.figures', params: { id } };
  await eventually(async () => {
    // An idle app has no process.
    await cellar.get('hot', '/');
    return (await cellar.call('POST', '/rpc', figures)).body.result.processes === replicas;
  }, `${replicas} processes`);
}

/** Returns the answered requests per second. */
async function rate(cellar: Cellar): Promise<number> {
  const begun = performance.now();
  let answered = 0;
  const ask = async () => {
    while (performance.now() - begun < ROUND_MS) {
      const { status, text } = await cellar.get('hot', '/');
      if (status !== 200) throw new Error(`${status} ${text}`);
      answered++;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, ask));
  return (answered * 1_000) / (performance.now() - begun);
}
