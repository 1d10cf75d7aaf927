// Creates many waiting instances of a Workflow, and measures their memory and how late they resume: `npm run workflows`.
// `npm run workflows -- 2000` sets their number. The app may hibernate meanwhile. The waits end one after another.
import { setTimeout as sleep } from 'node:timers/promises';
import { privateKb } from '../bench/support/figures.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { cells, eventually } from '../test/support/processes.ts';

const COUNT = Number(process.argv[2] ?? 10_000);
/** Instances created by one call. */
const BATCH = 100;
/**
 * After this many instances, the script waits until the app hibernates, because until then the app's process uses memory for
 * each instance.
 */
const HIBERNATE_EVERY = 1_000;
const HIBERNATES_MS = 30_000;
/** Time allowed for the first call, in ms: waiting until a time in the past is an error of the instance. */
const STARTING_MS = 15_000;
/** Time allowed to create one instance, in ms. */
const CREATE_MS = 60;
/** Interval between the ends of the instances' waits, in ms. */
const WAIT_INTERVAL_MS = 30;
const SAMPLE_MS = 250;
/** Timeout for the end of all instances after the end of the last wait, in ms. */
const LATEST_MS = 180_000;

const APP = {
  'wrangler.jsonc': JSON.stringify({
    name: 'many',
    main: 'index.js',
    compatibility_date: '2026-10-01',
    d1_databases: [{ binding: 'DB', database_name: 'ended' }],
    workflows: [{ binding: 'FLOW', name: 'flow', class_name: 'Flow' }],
  }),
  'migrations/0001_ended.sql': 'CREATE TABLE ended (n INTEGER PRIMARY KEY, late INTEGER);',
  'index.js': `import { WorkflowEntrypoint } from 'cloudflare:workers';
const ADD = 'INSERT INTO ended VALUES (?, ?) ON CONFLICT DO NOTHING';
export class Flow extends WorkflowEntrypoint {
  async run({ payload: { n, until } }, step) {
    await step.do('begin', async () => n);
    await step.sleepUntil('nap', new Date(until));
    await step.do('end', async () => { await this.env.DB.prepare(ADD).bind(n, Date.now() - until).run(); });
  }
}
export default {
  async fetch(request, { DB, FLOW }) {
    if (request.method === 'POST') {
      const asked = await request.json();
      await FLOW.createBatch(asked).catch(() => Promise.all(asked.map((each) => FLOW.create(each).catch(() => {}))));
      return new Response('made');
    }
    return Response.json(await DB.prepare('SELECT count(*) AS ended, max(late) AS latest, avg(late) AS late, sum(late > 2000) AS over FROM ended').first());
  },
};`,
};

const mib = (kib: number) => Math.round(kib / 1024);
/** Returns the private memory of a process in KiB; 0 when it has just ended. */
function memoryOf(pid: number): number {
  try {
    return privateKb(pid);
  } catch {
    return 0;
  }
}
let timer: NodeJS.Timeout | undefined;
// A signal, such as from a timeout, runs the exit handlers: they end Cellar.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
const cellar = new Cellar({ RUNNER_SNAPSHOT_EVERY_H: '0', RUNNER_FLEET_IDLE_EVICT_S: '1' });
try {
  await cellar.start();
  const id = await cellar.deploy('many', 'hello', APP);
  const seen = { cell: 0, host: 0, pids: new Set<number>() };
  const look = () => {
    for (const { pid } of cells(id)) {
      seen.pids.add(pid);
      seen.cell = Math.max(seen.cell, memoryOf(pid));
    }
    seen.host = Math.max(seen.host, memoryOf(cellar.pid));
  };
  const before = memoryOf(cellar.pid);
  timer = setInterval(look, SAMPLE_MS);
  const begun = Date.now();
  const first = begun + STARTING_MS + COUNT * CREATE_MS;
  let madeMs = 0;
  for (let n = 0; n < COUNT; n += BATCH) {
    const instances = Array.from({ length: Math.min(BATCH, COUNT - n) }, (_, i) => ({
      id: `n${n + i}`,
      params: { n: n + i, until: first + (n + i) * WAIT_INTERVAL_MS },
    }));
    const from = performance.now();
    const body = JSON.stringify(instances);
    // The process may be killed for its memory use. A retry is safe: instances persist, and each is created once.
    await eventually(
      async () => (await cellar.get('many', '/', { method: 'POST', body })).status === 200,
      `${n + BATCH} instances are made`,
    );
    madeMs += performance.now() - from;
    if ((n + BATCH) % HIBERNATE_EVERY === 0)
      await eventually(() => cells(id).length === 0, 'the app hibernates', HIBERNATES_MS);
  }
  console.log(
    `${COUNT} instances made in ${(madeMs / 1000).toFixed(1)} s, ${(madeMs / COUNT).toFixed(2)} ms each`,
  );
  console.log(
    `memory of the app's process at most ${mib(seen.cell)} MiB; the first wait ends in ${Math.round((first - Date.now()) / 1000)} s`,
  );
  await sleep(Math.max(0, first - Date.now()));
  const last = first + COUNT * WAIT_INTERVAL_MS;
  let stats = { ended: 0, latest: 0, late: 0, over: 0 };
  while (stats.ended < COUNT && Date.now() < last + LATEST_MS) {
    await sleep(2_000);
    const { status, text } = await cellar.get('many');
    if (status === 200) stats = JSON.parse(text);
  }
  const { ended, late, latest, over } = stats;
  console.log(
    `${ended} of ${COUNT} ended, ${Math.round(late)} ms late on average, ${latest} ms at most, ${over} by more than 2 s`,
  );
  console.log(
    `memory of the app's process at most ${mib(seen.cell)} MiB (it had ${seen.pids.size} processes); of the host's ${mib(before)} MiB before, ${mib(seen.host)} MiB at most`,
  );
  process.exitCode = ended === COUNT ? 0 : 1;
} finally {
  clearInterval(timer);
  await cellar[Symbol.asyncDispose]();
}
