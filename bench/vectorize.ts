// Inserts and queries of a vector index, as the binding sends them, beside sqlite-vec comparing every vector.
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import Database from 'better-sqlite3';
import { getLoadablePath } from 'sqlite-vec';
import { layout } from '../runtime/disk/data-directory.ts';
import { Buckets } from '../runtime/storage/r2/buckets.ts';
import { INDEX_HEADER } from '../runtime/vectors/headers.ts';
import { openVectorIndex } from '../sqlite/storage/vectors.ts';
import { effort } from './support/bench-scale.ts';

/** Number of vectors. The environment variable `VECTORS` sets another. */
const VECTORS = Number(process.env.VECTORS ?? effort(1_000_000, 10_000));
const DIMENSIONS = 768;
const BATCH = 1_000;
/** Vectors that the service inserts. The others are written into the file, which is faster. */
const SENT = Math.min(VECTORS, 30_000);
const QUERIES = effort(60, 20);
/** Queries that sqlite-vec answers too. */
const COMPARED = effort(5, 2);
const TOP = 10;
/** Vectors between two lines of progress. */
const PROGRESS = 10_000;
/** Number of groups of vectors. Real embeddings of texts lie in groups, all on one side of zero. */
const GROUPS = 1_000;

/** Prints the rate of inserts, the times of queries in ms, and how many of the nearest vectors are found. */
export async function run(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-vectors-'));
  const paths = layout(directory);
  const users = () => ({ build: null, cell: null });
  const buckets = new Buckets({ paths, users, service: { maxMb: 0, floorMb: 0 } });
  try {
    const socket = await buckets.openVectors('app', { family: 'app', owner: 'owner' });
    const groups = Array.from({ length: GROUPS }, () => numbers(() => 0.3 + Math.random() - 0.5));
    const vector = () => {
      const group = groups[Math.floor(Math.random() * GROUPS)]!;
      return numbers((at) => Math.round((group[at]! + Math.random() - 0.5) * 10_000) / 10_000);
    };
    let inserting = 0;
    for (let from = 0; from < SENT; from += BATCH) {
      showProgress(from);
      const lines = Array.from({ length: Math.min(BATCH, SENT - from) }, (_, at) =>
        JSON.stringify({
          id: `v${from + at}`,
          values: vector(),
          metadata: { at: from + at },
          ...(at % 10 === 0 && { namespace: `n${at}` }),
        }),
      );
      inserting += await timed(() => send(socket, 'insert', lines.join('\n')));
    }
    fill(join(paths.vectors('app'), 'index.sqlite'), vector);
    const bytes = sizeOf(paths.vectors('app'));
    console.log(
      `${VECTORS} vectors of ${DIMENSIONS} dimensions: ${Math.round(SENT / (inserting / 1_000))} inserts a second, ${(bytes / 2 ** 30).toFixed(2)} GiB`,
    );
    for (const [what, more] of [
      ['all', {}],
      [`a namespace of ${VECTORS / BATCH}`, { namespace: 'n10' }],
    ] as const) {
      const times: number[] = [];
      for (let query = 0; query < QUERIES; query++)
        times.push(
          await timed(() => send(socket, 'query', JSON.stringify({ vector: vector(), topK: TOP, ...more }))),
        );
      console.log(
        `query among ${what}: p50 ${median(times).toFixed(1)} ms, slowest ${Math.max(...times).toFixed(1)} ms`,
      );
    }
    const database = new Database(join(paths.vectors('app'), 'index.sqlite'), { readonly: true });
    database.loadExtension(getLoadablePath());
    const nearest = database.prepare<[Buffer, number], { id: string }>(
      'SELECT id FROM vectors ORDER BY vec_distance_cosine(value, ?) LIMIT ?',
    );
    const times: number[] = [];
    let found = 0;
    for (let query = 0; query < COMPARED; query++) {
      const asked = vector();
      const { matches } = JSON.parse(
        await send(socket, 'query', JSON.stringify({ vector: asked, topK: TOP })),
      ) as {
        matches: { id: string }[];
      };
      let best: string[] = [];
      times.push(
        await timed(() => {
          best = nearest.all(Buffer.from(Float32Array.from(asked).buffer), TOP).map(({ id }) => id);
        }),
      );
      found += matches.filter(({ id }) => best.includes(id)).length;
    }
    database.close();
    console.log(
      `sqlite-vec compares all in ${median(times).toFixed(0)} ms; the index found ${found} of its ${COMPARED * TOP} nearest`,
    );
  } finally {
    await buckets.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

function numbers(make: (at: number) => number): number[] {
  return Array.from({ length: DIMENSIONS }, (_, at) => make(at));
}

function showProgress(done: number): void {
  if (done % PROGRESS === 0) console.log(`${done} of ${VECTORS} vectors are stored`);
}

/** Writes the vectors that are not sent. */
function fill(file: string, vector: () => number[]): void {
  const index = openVectorIndex(file);
  for (let from = SENT; from < VECTORS; from += BATCH) {
    showProgress(from);
    index.transaction(() => {
      for (let at = from; at < Math.min(from + BATCH, VECTORS); at++) {
        const namespace = at % 10 === 0 ? `n${at % BATCH}` : null;
        index.add(
          { id: `v${at}`, namespace, metadata: `{"at":${at}}`, value: Float32Array.from(vector()) },
          [],
        );
      }
    });
  }
  index.close();
}

async function send(socketPath: string, operation: string, body: string): Promise<string> {
  const headers = { [INDEX_HEADER]: 'index', 'content-type': 'application/x-ndjson' };
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const sent = request(
    { socketPath, agent: false, path: `/${operation}`, method: 'POST', headers },
    (response) => {
      text(response).then((answer) => {
        if (response.statusCode === 200) resolve(answer);
        else reject(new Error(answer));
      }, reject);
    },
  );
  sent.on('error', reject);
  sent.end(body);
  return promise;
}

async function timed(work: () => unknown): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

function sizeOf(directory: string): number {
  return readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
}
