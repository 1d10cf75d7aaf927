// The API's cost beside a bare Worker that only does the same point read of D1. Both run in Miniflare and are called at
// their direct sockets, in alternating rounds of one run. Then the gain of a batch, and the cost of ten thousand apps.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare';
import { TestControl, TOKEN } from '../test/support/handlers/control.ts';
import { effort, isQuick } from './support/bench-scale.ts';
import { median } from './support/figures.ts';
import { type Asked, type Load, load, loadName } from './support/load.ts';

const ROUNDS = effort(5, 1);
const SECONDS = effort(2, 1);
const BATCH = 20;
const APPS = effort(10_000, 100);
/** Minimum ratio of the API's calls per second to the bare Worker's. */
const GET_TARGET = 0.7;
/** Minimum ratio of calls per second in batches to single calls. */
const BATCH_TARGET = 5;
/** Maximum ratio of the median time of a page of ten among `APPS` apps to that among ten. */
const LIST_TARGET = 1.5;

const MIGRATIONS = join(import.meta.dirname, '../sqlite/control/migrations');
const authorization = `Bearer ${TOKEN}`;

interface Subject {
  name: string;
  port: number;
  asked: Asked;
  /** Operations that one request carries out. */
  calls: number;
}

/** Prints calls/s, latency, and the ratios with their targets. */
export async function run(): Promise<void> {
  const few = await startControl(10);
  const many = await startControl(APPS);
  const bare = await startBare(few);
  try {
    const batch = Array.from({ length: BATCH }, (_, id) => {
      return { jsonrpc: '2.0', id, method: 'apps.get', params: { id: few.ids[id % few.ids.length] } };
    });
    const list = { path: '/v1/apps?limit=10', headers: { authorization } };
    const results = await measure([
      { name: 'bare Worker', port: bare.port, asked: { path: '/' }, calls: 1 },
      {
        name: 'GET /v1/apps/{id}',
        port: few.port,
        asked: { path: `/v1/apps/${few.app.id}`, headers: { authorization } },
        calls: 1,
      },
      {
        name: `${BATCH} apps.get in a batch`,
        port: few.port,
        asked: {
          path: '/rpc',
          headers: { authorization, 'content-type': 'application/json' },
          body: JSON.stringify(batch),
        },
        calls: BATCH,
      },
      { name: 'list of 10 apps', port: few.port, asked: list, calls: 1 },
      { name: `list of 10 in ${APPS}`, port: many.port, asked: list, calls: 1 },
    ]);
    report(results);
  } finally {
    await Promise.all([few.stop(), many.stop(), bare.stop()]);
  }
}

interface Result {
  subject: Subject;
  rounds: Load[];
}

async function measure(subjects: Subject[]): Promise<Result[]> {
  const results = subjects.map((subject) => ({ subject, rounds: [] as Load[] }));
  if (!isQuick) for (const { port, asked } of subjects) await load(port, SECONDS, asked);
  for (let round = 0; round < ROUNDS; round++) {
    for (const { subject, rounds } of results) {
      rounds.push(await load(subject.port, SECONDS, subject.asked));
    }
  }
  return results;
}

function report(results: Result[]): void {
  console.log(`${loadName}, medians of ${ROUNDS} rounds of ${SECONDS} s`);
  console.log(`${''.padEnd(26)}calls/s    p50 ms    p99 ms`);
  for (const { subject, rounds } of results) {
    const column = (pick: (load: Load) => number, digits: number, width: number): string =>
      median(rounds.map(pick)).toFixed(digits).padStart(width);
    console.log(
      subject.name.padEnd(24) +
        column((load) => load.requestsPerSecond * subject.calls, 0, 9) +
        column((load) => load.p50Ms, 2, 10) +
        column((load) => load.p99Ms, 2, 10),
    );
  }
  const [bare, get, batch, few, many] = results;
  const rate = (load: Load): number => load.requestsPerSecond;
  compare('GET / bare Worker, calls/s', ratio(get!, bare!, rate), 'at least', GET_TARGET);
  compare('batch / GET, calls/s', ratio(batch!, get!, rate) * BATCH, 'at least', BATCH_TARGET);
  compare(
    `list among ${APPS} / among 10, p50`,
    ratio(many!, few!, (load) => load.p50Ms),
    'at most',
    LIST_TARGET,
  );
}

function compare(what: string, value: number, bound: 'at least' | 'at most', target: number): void {
  const met = bound === 'at least' ? value >= target : value <= target;
  console.log(`${what}: ${value.toFixed(2)} (target ${bound} ${target}: ${met ? 'met' : 'missed'})`);
}

/** Returns the median of the rounds' ratios. */
function ratio(of: Result, to: Result, pick: (load: Load) => number): number {
  return median(of.rounds.map((load, round) => pick(load) / pick(to.rounds[round]!)));
}

interface Started {
  port: number;
  /** The row of the app that is read. */
  app: Row;
  /** The row of the account that owns it. */
  account: Row;
  /** Ids of some of the apps. */
  ids: string[];
  stop: () => Promise<void>;
}

type Row = Record<string, unknown>;

/** Starts a control plane with this number of apps. One is made through the API, the others are copies of its row. */
async function startControl(apps: number): Promise<Started> {
  const control = await TestControl.start();
  const { id } = await control.create('measured');
  const database = await control.database();
  await database
    .prepare(
      `INSERT INTO apps (id, slug, owner_id, desired_state, generation, created_at)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
       SELECT printf('0%015d', n), 'app-' || n, owner_id, desired_state, generation, created_at
       FROM numbers, apps WHERE apps.id = ?1 AND ?2 > 0`,
    )
    .bind(id, apps - 1)
    .run();
  return {
    port: Number(new URL(control.url).port),
    app: await database.prepare('SELECT * FROM apps WHERE id = ?').bind(id).first(),
    account: await database.prepare('SELECT * FROM accounts').first(),
    ids: (await control.api('GET', `/v1/apps?limit=${BATCH}`)).body.items.map((item: Row) => item.id),
    stop: () => control.stop(),
  };
}

/** Starts a Worker that answers the row of one app by its id. */
async function startBare({ app, account }: Started): Promise<Pick<Started, 'port' | 'stop'>> {
  const script = `
    const id = ${JSON.stringify(app.id)};
    export default {
      async fetch(request, { DB }) { 
        return Response.json(await DB.prepare('SELECT * FROM apps WHERE id = ?').bind(id).first());
      },
    };`;
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      cf: false,
      telemetry: { enabled: false },
      log: new Log(LogLevel.NONE),
      modules: [{ type: 'ESModule', path: 'index.js', contents: script }],
      compatibilityDate: '2026-10-01',
      d1Databases: ['DB'],
      unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
    }),
  );
  await miniflare.ready;
  const database = await miniflare.getD1Database('DB');
  const schema = globSync('*.sql', { cwd: MIGRATIONS })
    .sort()
    .map((file) => readFileSync(join(MIGRATIONS, file), 'utf8').replace(/^--.*$/gm, ''))
    .join('\n');
  const statements = schema.split(/;\s*$/m).filter((statement) => statement.trim() !== '');
  const insert = (table: string, row: Row) =>
    database
      .prepare(`INSERT INTO ${table} (${Object.keys(row)}) VALUES (${Object.keys(row).map(() => '?')})`)
      .bind(...Object.values(row));
  await database.batch([
    ...statements.map((statement) => database.prepare(statement)),
    insert('accounts', account),
    insert('apps', app),
  ]);
  return { port: Number((await miniflare.unsafeGetDirectURL()).port), stop: () => miniflare.dispose() };
}
