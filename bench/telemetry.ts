// The cost of telemetry: the gateway with everything on beside the gateway without, in alternating rounds of one run; and
// a query of 30 days beside one of an hour, with 100 apps that had requests in every minute.
import { join } from 'node:path';
import { fetch } from 'undici';
import { addRequest, emptyBucket, toRow } from '../runtime/telemetry/metrics/bucket.ts';
import { Store } from '../runtime/telemetry/store/store.ts';
import { bucketQueries, METRICS_MIGRATIONS, writtenQueries } from '../sqlite/telemetry/buckets.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { startGatewayProcess, startWorkerd } from '../test/support/edge/peers.ts';
import { taken } from '../test/support/telemetry/parts.ts';
import { effort, words } from './support/bench-scale.ts';
import { median } from './support/figures.ts';
import { cpuMs, type Load, load, loadName } from './support/load.ts';

const ROUNDS = effort(9, 1);
const SECONDS = effort(2, 1);
const APPS = effort(100, 2);
const DAYS = effort(30, 2);
const ASKED = effort(60, 3);
/** Minimum throughput of the gateway with telemetry, as a share of that without. */
const THROUGHPUT_TARGET = 0.95;
/** Maximum time of a query of 720 hours, as a multiple of the time of a query of one hour. */
const QUERY_TARGET = 3;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const APP = 'export default { fetch: () => new Response("x".repeat(1024)) };';

/** Parts by name: `npm run bench -- telemetry gateway` runs one. */
const PARTS: Record<string, () => Promise<void>> = { gateway: runGateway, query: runQuery };

export async function run(): Promise<void> {
  const [wanted = ''] = words;
  for (const [name, part] of Object.entries(PARTS)) if (name.includes(wanted)) await part();
}

async function runGateway(): Promise<void> {
  await using cell = await startWorkerd(APP);
  await using off = await startGatewayProcess(cell.socketPath);
  await using on = await startGatewayProcess(cell.socketPath, { telemetry: true });
  console.log(`1 KB GET, ${loadName}, medians of ${ROUNDS} rounds of ${SECONDS} s`);
  type Result = Load & { cpuUs: number };
  const results: Result[][] = [[], []];
  for (const { port } of [off, on]) await load(port, SECONDS);
  for (let round = 0; round < ROUNDS; round++) {
    for (const i of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const { port, pid } = [off, on][i]!;
      const before = cpuMs(pid);
      const result = await load(port, SECONDS);
      results[i]!.push({ ...result, cpuUs: ((cpuMs(pid) - before) * 1000) / result.requests });
    }
  }
  for (const [i, name] of ['without telemetry', 'with telemetry'].entries()) {
    const of = (pick: (result: Result) => number) => median(results[i]!.map(pick));
    console.log(
      `${name.padEnd(20)}${of((result) => result.requestsPerSecond).toFixed(0)} requests/s, ` +
        `p99 ${of((result) => result.p99Ms).toFixed(2)} ms, CPU ${of((result) => result.cpuUs).toFixed(1)} µs/request`,
    );
  }
  const share = (pick: (result: Result) => number) =>
    median(results[1]!.map((result, round) => pick(result) / pick(results[0]![round]!)));
  const throughput = share((result) => result.requestsPerSecond);
  console.log(
    `  with / without: requests/s ${throughput.toFixed(3)} (target at least ${THROUGHPUT_TARGET}: ` +
      `${throughput >= THROUGHPUT_TARGET ? 'met' : 'missed'}), CPU with the thread's ${share((result) => result.cpuUs).toFixed(3)}`,
  );
}

async function runQuery(): Promise<void> {
  await using cellar = await new Cellar({ RUNNER_MAX_APPS_PER_USER: '1000' }).start();
  const ids: string[] = [];
  for (let i = 0; i < APPS; i++) ids.push(await cellar.create(`app-${i}`));
  await cellar.stop();
  fill(join(cellar.data, 'telemetry'), ids);
  await cellar.start();
  const ask = async (id: string, hours: number): Promise<number> => {
    const begun = performance.now();
    const response = await fetch(`${cellar.api}/v1/apps/${id}/metrics?hours=${hours}`, {
      headers: { authorization: `Bearer ${cellar.token}` },
    });
    const { items } = (await response.json()) as { items: { requests: number }[] };
    if (!items.some(({ requests }) => requests > 0)) throw new Error(`${hours} hours of ${id} are empty`);
    return performance.now() - begun;
  };
  const took: Record<number, number[]> = { 1: [], 24: [], 720: [] };
  for (let i = 0; i < ASKED; i++)
    for (const hours of [1, 24, 720]) took[hours]!.push(await ask(ids[i % ids.length]!, hours));
  const [hour, day, month] = [1, 24, 720].map((hours) => median(took[hours]!)) as [number, number, number];
  const ratio = month / hour;
  console.log(`${DAYS} days of ${APPS} apps, metrics by the API, medians of ${ASKED}`);
  console.log(
    `hours=1 ${hour.toFixed(1)} ms, hours=24 ${day.toFixed(1)} ms, hours=720 ${month.toFixed(1)} ms`,
  );
  console.log(
    `  720 / 1: ${ratio.toFixed(2)} (target at most ${QUERY_TARGET}: ${ratio <= QUERY_TARGET ? 'met' : 'missed'})`,
  );
}

/** Writes buckets as the telemetry thread would: hours of all days, minutes of the last three. */
function fill(directory: string, ids: string[]): void {
  const store = new Store(directory);
  const database = store.open('metrics', METRICS_MIGRATIONS);
  const [minutes, hours] = [bucketQueries(database, 'minutes'), bucketQueries(database, 'hours')];
  const written = writtenQueries(database);
  const bucket = emptyBucket();
  const requests = Array.from({ length: 60 }, (_, i) => ({ durationMs: 1.3 ** (i / 3) }));
  for (const request of taken(requests).requests) addRequest(bucket, request);
  const row = toRow(bucket);
  const now = Date.now();
  for (const id of ids) {
    database.transaction(() => {
      written.save(id, now);
      for (let ago = 0; ago < DAYS * 24; ago++) hours.save(id, now - (now % HOUR_MS) - ago * HOUR_MS, row);
      for (let ago = 0; ago < 72 * 60; ago++)
        minutes.save(id, now - (now % MINUTE_MS) - ago * MINUTE_MS, row);
    })();
  }
  store.close();
}
