// The vectors service: scores, filters, limits, fair turns and quotas.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import { getLoadablePath } from 'sqlite-vec';
import { Budget } from '../../runtime/app-services/budget.ts';
import type { Call } from '../../runtime/control/host-call.ts';
import { vectorRoutes } from '../../runtime/control/routes/storage/vector-routes.ts';
import type { QuotaOptions } from '../../runtime/disk/quota.ts';
import { WorkerThreads } from '../../runtime/threads/worker.ts';
import { AppServer } from '../../runtime/vectors/app-server.ts';
import { noCapacity } from '../../runtime/vectors/errors.ts';
import { INDEX_HEADER } from '../../runtime/vectors/headers.ts';
import { operate } from '../../runtime/vectors/operations.ts';
import { EXACT_MOST } from '../../sqlite/storage/vectors.ts';
import { listeningSocketOf, post } from '../support/app-socket.ts';
import { temporaryDirectory } from '../support/temporary.ts';

interface Found {
  count: number;
  matches: { id: string; score: number; metadata?: object; values?: number[] }[];
}

/** Returns a new index's file, and a function that runs operations on it. */
function indexIn(t: TestContext) {
  const file = join(temporaryDirectory(t), 'vectors', 'index.sqlite');
  const index = async <Answer = unknown>(operation: string, given: unknown = {}): Promise<Answer> => {
    const body = Buffer.from(
      Array.isArray(given) ? given.map((each) => JSON.stringify(each)).join('\n') : JSON.stringify(given),
    );
    const contentType = Array.isArray(given) ? 'application/x-ndjson' : 'application/json';
    return JSON.parse(await operate({ file, operation, contentType, body })) as Answer;
  };
  return { index, file };
}

const idsOf = ({ matches }: Found) => matches.map(({ id }) => id);

test('each metric has the scores of Cloudflare, the nearest vector first', async (t) => {
  for (const [metric, expected] of [
    ['cosine', { near: 1, far: -1, other: 0.6 }],
    ['euclidean', { near: 1, far: 3, other: Math.sqrt(0.4 ** 2 + 0.8 ** 2) }],
    ['dot-product', { near: -2, far: 2, other: -0.6 }],
  ] as const) {
    const { index } = indexIn(t);
    await index('configure', { dimensions: 2, metric });
    await index('insert', [
      { id: 'far', values: [-2, 0] },
      { id: 'near', values: [2, 0] },
      { id: 'other', values: [0.6, 0.8] },
    ]);
    const { matches } = await index<Found>('query', { vector: [1, 0] });
    const order = Object.entries(expected).sort(([, a], [, b]) => (metric === 'cosine' ? b - a : a - b));
    assert.deepEqual(
      matches.map(({ id }) => id),
      order.map(([id]) => id),
      metric,
    );
    for (const { id, score } of matches)
      assert.ok(Math.abs(score - expected[id as keyof typeof expected]) < 1e-6, `${metric} ${id} ${score}`);
  }
});

test('vectors that 32-bit floats cannot compare have numbers as scores', async (t) => {
  for (const [metric, expected] of [
    ['cosine', [0, 0]],
    ['euclidean', [(2 - 2 ** -23) * 2 ** 127, (2 - 2 ** -23) * 2 ** 127]],
  ] as const) {
    const { index } = indexIn(t);
    await index('configure', { dimensions: 2, metric });
    await index('insert', [
      { id: 'long', values: [3e38, 3e38] },
      { id: 'zero', values: [0, 0] },
    ]);
    const { matches } = await index<Found>('query', { vector: [-3e38, -3e38] });
    assert.deepEqual(
      matches.map(({ score }) => score),
      expected,
    );
  }
});

test('an index that had many vectors takes others once it is empty', async (t) => {
  const { index } = indexIn(t);
  const ids = Array.from({ length: EXACT_MOST + 1 }, (_, at) => `v${at}`);
  const batches = Array.from({ length: Math.ceil(ids.length / 5_000) }, (_, at) =>
    ids.slice(at * 5_000, (at + 1) * 5_000),
  );
  for (const batch of batches)
    await index(
      'insert',
      batch.map((id, at) => ({ id, values: [1, at] })),
    );
  for (const batch of batches) await index('deleteByIds', { ids: batch });
  await index('configure', { dimensions: 16, metric: 'euclidean' });
  await index('insert', [{ id: 'new', values: Array(16).fill(1) }]);
  assert.deepEqual(idsOf(await index<Found>('query', { vector: Array(16).fill(0) })), ['new']);
});

test('an index with codes from before version 2 of its schema is searched by them', async (t) => {
  const { index, file } = indexIn(t);
  const ids = Array.from({ length: EXACT_MOST + 1 }, (_, at) => `v${at}`);
  const random = generator(3);
  const vectorOf = () => Array.from({ length: 16 }, random);
  for (let at = 0; at < ids.length; at += 5_000)
    await index(
      'insert',
      ids.slice(at, at + 5_000).map((id) => ({ id, values: vectorOf() })),
    );
  const asked = { vector: vectorOf(), topK: 100 };
  const before = await index<Found>('query', asked);
  const database = new Database(file);
  database.loadExtension(getLoadablePath());
  database.exec(`
    ALTER TABLE codes RENAME TO kept;
    CREATE VIRTUAL TABLE codes USING vec0 (code bit[16]);
    INSERT INTO codes (rowid, code) SELECT number, vec_bit(code) FROM kept;
    DROP TABLE kept;
    PRAGMA user_version = 1;
  `);
  database.close();
  assert.deepEqual(await index<Found>('query', asked), before);
  await index('deleteByIds', { ids: [before.matches[0]!.id] });
  await index('insert', [{ id: 'same', values: asked.vector }]);
  const after = await index<Found>('query', asked);
  assert.deepEqual(idsOf(after), ['same', ...idsOf(before).slice(1)]);
});

test('calls may come at once before there is a file', async (t) => {
  const pool = new WorkerThreads(4);
  t.after(() => pool.close());
  const operations = new URL('../../runtime/vectors/operations.ts', import.meta.url);
  for (let round = 0; round < 30; round++) {
    const file = join(temporaryDirectory(t), 'index.sqlite');
    const call = { file, operation: 'info', contentType: 'application/json', body: new Uint8Array() };
    const info = () => pool.run<typeof operate>(operations, 'operate', [call], { deadlineMs: 60_000 });
    await Promise.all([info(), info(), info(), info()]);
  }
});

test('filters compare indexed values, of nested keys too', async (t) => {
  const { index } = indexIn(t);
  for (const [propertyName, indexType] of [
    ['n', 'number'],
    ['deep.text', 'string'],
    ['flag', 'boolean'],
  ])
    await index('addProperty', { propertyName, indexType });
  const long = 'ж'.repeat(40);
  await index('insert', [
    { id: 'a', values: [1, 0], metadata: { n: 1, deep: { text: 'x' }, flag: true } },
    { id: 'b', values: [1, 1], metadata: { n: 2, deep: { text: long }, flag: false, free: 1 } },
    { id: 'c', values: [1, 2], metadata: { n: 'three' } },
    { id: 'd', values: [1, 3] },
  ]);
  const found = async (filter: object) =>
    idsOf(await index<Found>('query', { vector: [1, 0], filter })).join('');
  assert.equal(await found({ n: 1 }), 'a');
  assert.equal(await found({ n: { $ne: 1 } }), 'bcd');
  assert.equal(await found({ n: { $in: [1, 2] } }), 'ab');
  assert.equal(await found({ n: { $nin: [2] } }), 'acd');
  assert.equal(await found({ n: { $gt: 1, $lte: 2 } }), 'b');
  assert.equal(await found({ n: { $gte: 1, $lt: 2 }, flag: true }), 'a');
  assert.equal(await found({ n: { $gte: 1, $ne: 2 } }), 'a');
  assert.equal(await found({ n: null }), 'cd');
  assert.equal(await found({ 'deep.text': 'x' }), 'a');
  // Only 64 bytes of a text are indexed.
  assert.equal(await found({ 'deep.text': `${long}y` }), 'b');
  assert.equal(await found({ flag: { $ne: true } }), 'bcd');
  const { matches } = await index<Found>('query', { vector: [1, 1], topK: 1, returnMetadata: 'indexed' });
  assert.deepEqual(matches[0]!.metadata, { deep: { text: long }, flag: false, n: 2 });
  const refused = (filter: unknown) => index('query', { vector: [1, 0], filter });
  await assert.rejects(refused({ free: 1 }), /free is not indexed: make an index with `wrangler vectorize/);
  await assert.rejects(
    refused({ n: 'text' }),
    /n\.\$eq must be a number, because the metadata index of n has that type/,
  );
  await assert.rejects(refused({ n: { $like: 1 } }), /\$like is unknown; there are \$eq/);
  await assert.rejects(refused({ n: { constructor: 1 } }), /constructor is unknown/);
  await assert.rejects(refused({ n: { $in: 1 } }), /n\.\$in must be a list/);
  await assert.rejects(refused({ n: { $in: Array(2_000).fill(1) } }), /filter: may have at most 2048 bytes/);
  await index('removeProperty', { propertyName: 'n' });
  await assert.rejects(refused({ n: 1 }), /n is not indexed/);
});

test('what exceeds a limit is refused, and the error names the vector and the field', async (t) => {
  const { index } = indexIn(t);
  const vector = { id: 'v', values: [1, 0] };
  for (const [given, message] of [
    [[], /no vectors are given/],
    [[{ ...vector, id: 'x'.repeat(65) }], /vector 1: id: must be a text of 1 to 64 bytes/],
    [
      [{ ...vector, values: Array(1_537).fill(0) }],
      /vector "v": values: must be a list of 1 to 1536 numbers/,
    ],
    [[{ ...vector, values: [1, 'x'] }], /vector "v": values: number 2 is not a 32-bit float/],
    [[{ ...vector, values: [1e39] }], /values: number 1 is not a 32-bit float/],
    [[{ ...vector, namespace: 'n'.repeat(65) }], /vector "v": namespace: must be a text of at most 64 bytes/],
    [
      [{ ...vector, metadata: { a: 'x'.repeat(10_240) } }],
      /vector "v": metadata: may have at most 10240 bytes as JSON/,
    ],
    [
      [vector, { id: 'w', values: [1] }],
      /vector "w": invalid vector for the index, expected 2 dimensions, and got 1/,
    ],
    [Array(5_001).fill(vector), /one call may have at most 5000 vectors/],
  ] as const)
    await assert.rejects(index('insert', given), message);
  assert.equal((await index<{ vectorCount: number }>('info')).vectorCount, 0);
  await index('insert', [vector]);
  for (const [given, message] of [
    [{ vector: [1, 0], topK: 101 }, /topK: must be 1 to 100, and is 101/],
    [{ vector: [1, 0], topK: 51, returnValues: true }, /topK: must be 1 to 50, with values or all metadata/],
    [{ vector: [1, 0], topK: 51, returnMetadata: 'all' }, /topK: must be 1 to 50/],
    [{ vector: [1, 0, 0] }, /expected 2 dimensions, and got 3/],
    [{ vectorId: 'none' }, /the index has no vector "none"/],
    [{ vector: [1, 0], returnMetadata: 'some' }, /returnMetadata: must be/],
  ] as const)
    await assert.rejects(index('query', given), message);
  await assert.rejects(index('getByIds', { ids: Array(21).fill('v') }), /ids: one call may name at most 20/);
  await assert.rejects(index('configure', { dimensions: 3, metric: 'cosine' }), /it stays at 2 dimensions/);
  for (let n = 0; n < 10; n++) await index('addProperty', { propertyName: `p${n}`, indexType: 'string' });
  await assert.rejects(
    index('addProperty', { propertyName: 'p10', indexType: 'string' }),
    /may have at most 10 metadata/,
  );
});

test('a search among many vectors finds nearly the same ones as the comparison of all', async (t) => {
  const { index } = indexIn(t);
  const dimensions = 32;
  const random = generator(7);
  // The vectors lie in groups far from zero, as embeddings do.
  const centers = Array.from({ length: 50 }, () => Array.from({ length: dimensions }, () => 1 + random()));
  const vectorAt = (n: number) => centers[n % 50]!.map((each) => each + 0.4 * random());
  await index('addProperty', { propertyName: 'part', indexType: 'number' });
  const all = Array.from({ length: EXACT_MOST + 2_000 }, (_, n) => ({
    id: `v${n}`,
    values: vectorAt(n),
    metadata: { part: n % 20 },
    ...(n % 10 === 0 && { namespace: 'tenth' }),
  }));
  for (let at = 0; at < all.length; at += 5_000) await index('insert', all.slice(at, at + 5_000));
  let [found, foundOfMany] = [0, 0];
  const many = all.filter(({ metadata }) => metadata.part !== 3);
  for (let n = 0; n < 20; n++) {
    const vector = vectorAt(n);
    const best = nearest(all, vector, 10);
    const ids = idsOf(await index<Found>('query', { vector, topK: 10 }));
    assert.equal(ids.length, 10);
    found += ids.filter((id) => best.includes(id)).length;
    const filter = { part: { $ne: 3 } };
    const ofMany = nearest(many, vector, 10);
    const idsOfMany = idsOf(await index<Found>('query', { vector, topK: 10, filter }));
    assert.ok(idsOfMany.every((id) => Number(id.slice(1)) % 20 !== 3));
    foundOfMany += idsOfMany.filter((id) => ofMany.includes(id)).length;
    const ofNamespace = idsOf(await index<Found>('query', { vector, topK: 3, namespace: 'tenth' }));
    assert.deepEqual(
      ofNamespace,
      nearest(
        all.filter((_, n) => n % 10 === 0),
        vector,
        3,
      ),
    );
  }
  assert.ok(found >= 190, `${found} of 200`);
  assert.ok(foundOfMany >= 190, `${foundOfMany} of 200 with a filter`);
  const [first] = all as [(typeof all)[number]];
  await index('upsert', [{ ...first, values: first.values.map((each) => -each) }]);
  assert.notEqual(idsOf(await index<Found>('query', { vector: first.values, topK: 1 }))[0], first.id);
  await index('deleteByIds', { ids: ['v1'] });
  assert.ok(!idsOf(await index<Found>('query', { vector: all[1]!.values, topK: 100 })).includes('v1'));
});

/** Returns a function of pseudo-random numbers from -0.5 to 0.5. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & (2 ** 31 - 1);
    return state / 2 ** 31 - 0.5;
  };
}

function nearest(all: { id: string; values: number[] }[], vector: number[], count: number): string[] {
  const cosine = (values: number[]) => {
    const dot = values.reduce((sum, each, at) => sum + each * vector[at]!, 0);
    return dot / Math.hypot(...values);
  };
  return all
    .map(({ id, values }) => ({ id, score: cosine(values) }))
    .sort((a, b) => b.score - a.score)
    .slice(0, count)
    .map(({ id }) => id);
}

/** Serves the vectors of an app. `call` sends a request as the app does. */
async function served(
  t: TestContext,
  owner: string,
  threads: WorkerThreads,
  limits: Partial<QuotaOptions> = {},
) {
  const { handle, socket } = listeningSocketOf(t);
  const directory = join(temporaryDirectory(t), 'vectors');
  const budget = new Budget(2 ** 30, noCapacity);
  const shared = { owner, budget, threads, limits: { maxMb: 0, floorMb: 0, ...limits } };
  const answerer = await AppServer.listen(handle, directory, shared);
  t.after(() => answerer.close());
  const call = (path: string, body: string, index = 'one') =>
    post(socket, path, { headers: { [INDEX_HEADER]: index, 'content-type': 'application/x-ndjson' }, body });
  return { directory, call };
}

const LINE = JSON.stringify({ id: 'a', values: [1, 0] });

test('calls name an index of the app, and an operation that exists', async (t) => {
  const threads = new WorkerThreads(2, 1);
  t.after(() => threads.close());
  const { directory, call } = await served(t, 'one', threads);
  assert.equal((await call('/insert', LINE)).status, 200);
  for (const index of ['', '../one', 'one/../two', 'a'.repeat(65)])
    assert.match((await call('/insert', LINE, index)).text, /the call names no index/);
  assert.match((await call('/drop', '{}')).text, /has no operation drop/);
  assert.match((await call('/constructor', '{}')).text, /has no operation constructor/);
  assert.deepEqual(readdirSync(directory), ['one.sqlite']);
  const deep = `{"vector":${'['.repeat(100_000)}`;
  assert.equal((await call('/query', deep)).status, 400);
});

test('a vector service that cannot be opened is a 503 of the API', async () => {
  const apps = { get: () => ({}), originOf: () => 'app', ownerOf: () => 'owner' };
  const places = async () => ({ vectorIndexes: [{ id: 'one', binding: 'INDEX', storageId: 'one' }] });
  const openVectors = async () => {
    throw new Error('the vector service does not start');
  };
  const routes = vectorRoutes({
    ...{ apps, storageQueries: { places }, buckets: { openVectors } },
  } as unknown as Parameters<typeof vectorRoutes>[0]);
  const refusal = { status: 503, code: 'host_unavailable', message: 'the vector service does not start' };
  const call = { words: ['app'], query: new URLSearchParams({ index: 'one', call: 'query' }), request: {} };
  await assert.rejects(async () => routes['GET /apps/:id/vectors'](call as unknown as Call), refusal);
  await assert.rejects(async () => routes['POST /apps/:id/vectors/read'](call as unknown as Call), refusal);
});

test('JSON that needs a multiple of its bytes once parsed is refused before', async (t) => {
  const threads = new WorkerThreads(2, 1);
  t.after(() => threads.close());
  const { call } = await served(t, 'one', threads);
  const nested = (bytes: number) => '[],'.repeat(bytes / 3);
  for (const [operation, body, message] of [
    ['query', `{"vector":[${nested(5 * 2 ** 20)}1]}`, /a call may have at most 4194304 bytes"/],
    [
      'insert',
      `${LINE}\n{"id":"b","values":[${nested(2 * 2 ** 20)}1]}`,
      /line 2: may have at most 1048576 bytes/,
    ],
    [
      'insert',
      `${LINE}\n\n{"id":"b","values":[${nested(2 * 2 ** 20)}1]}`,
      /line 3: may have at most 1048576 bytes/,
    ],
  ] as const) {
    const { status, text } = await call(`/${operation}`, body);
    assert.equal(status, 413);
    assert.match(text, message);
  }
  // Blank lines count.
  assert.match((await call('/insert', `${LINE}\n\nno JSON`)).text, /line 3 is not JSON/);
  assert.equal((JSON.parse((await call('/info', '')).text) as { vectorCount: number }).vectorCount, 0);
});

test('an app stores no more than its quota, and can still delete', async (t) => {
  const threads = new WorkerThreads(2, 1);
  t.after(() => threads.close());
  const { call } = await served(t, 'one', threads, { maxMb: 1 });
  const line = (n: number) => JSON.stringify({ id: `v${n}`, values: Array(1_000).fill(n) });
  const lines = (from: number) => Array.from({ length: 100 }, (_, n) => line(from + n)).join('\n');
  let refusal = '';
  for (let from = 0; from < 1_000 && refusal === ''; from += 100) {
    const { status, text } = await call('/insert', lines(from));
    if (status !== 200) refusal = text;
  }
  assert.match(
    refusal,
    /"code":40003,"error":"the vectors of this app may have at most 1 MiB in all \(RUNNER_APP_MAX_MB\)"/,
  );
  assert.equal((await call('/deleteByIds', JSON.stringify({ ids: ['v0'] }))).status, 200);
  const ids = Array.from({ length: 1_000 }, (_, n) => `v${n}`);
  for (const some of [ids.slice(0, 500), ids.slice(500)])
    assert.equal((await call('/deleteByIds', JSON.stringify({ ids: some }))).status, 200);
  const again = await call('/insert', lines(0));
  assert.equal(again.status, 200, again.text);
});

test('inserts at once exceed the quota no more than those one after another', async (t) => {
  const threads = new WorkerThreads(2);
  t.after(() => threads.close());
  const { call } = await served(t, 'one', threads, { maxMb: 1 });
  const body = JSON.stringify({ id: 'a', values: [1], metadata: null }) + ' '.repeat(600 * 1024);
  const answers = await Promise.all(['one', 'two', 'three'].map((index) => call('/insert', body, index)));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 403, 403]);
});

test('long calls of one account do not delay those of another', async (t) => {
  const threads = new WorkerThreads(2, 1);
  t.after(() => threads.close());
  const [greedy, modest] = [await served(t, 'greedy', threads), await served(t, 'modest', threads)];
  const many = Array.from({ length: 5_000 }, (_, n) =>
    JSON.stringify({ id: `v${n}`, values: Array(256).fill(n) }),
  );
  let isDone = false;
  const long = Promise.all(
    Array.from({ length: 6 }, (_, n) =>
      greedy.call('/insert', many.join('\n').replaceAll('"id":"v', `"id":"${n}v`)),
    ),
  ).then((answers) => {
    isDone = true;
    for (const { status } of answers) assert.equal(status, 200);
  });
  assert.equal((await modest.call('/insert', LINE)).status, 200);
  assert.equal((await modest.call('/query', JSON.stringify({ vector: [1, 0] }))).status, 200);
  assert.ok(!isDone, 'the long calls still run');
  await long;
});
