// A pushed app with a vector index.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { rpcOf } from '../support/e2e/rpc.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { eventually } from '../support/processes.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = sharedCellar('storage');
const rpc = rpcOf(cellar);

interface Answer {
  mutationId: string;
  matches: { id: string; score: number; values?: number[]; metadata?: object }[];
}

/** Calls a method of the app's index. */
async function call(app: string, method: string, ...values: unknown[]): Promise<Answer> {
  const response = await cellar.open(app, `/${method}`, { method: 'POST', body: JSON.stringify(values) });
  return JSON.parse(await response.text());
}

test('an app inserts, queries, reads and deletes vectors', async () => {
  await cellar.deploy('finder', 'vectors');
  assert.deepEqual(await call('finder', 'describe'), { vectorCount: 0, dimensions: 0 });
  const { mutationId } = await call('finder', 'insert', [
    { id: 'east', values: [1, 0], metadata: { name: 'East', deep: { n: 1 } } },
    { id: 'north', values: [0, 1], namespace: 'poles' },
    { id: 'north-east', values: [1, 1] },
  ]);
  assert.match(mutationId, /^[0-9a-f-]{36}$/);
  assert.partialDeepStrictEqual(await call('finder', 'describe'), {
    vectorCount: 3,
    dimensions: 2,
    processedUpToMutation: mutationId,
  });
  const found = await call('finder', 'query', [2, 0.1], {
    topK: 2,
    returnMetadata: 'all',
    returnValues: true,
  });
  assert.deepEqual(
    found.matches.map(({ id }) => id),
    ['east', 'north-east'],
  );
  assert.ok(Math.abs(found.matches[0]!.score - 0.99875) < 1e-4, String(found.matches[0]!.score));
  assert.partialDeepStrictEqual(found, {
    count: 2,
    matches: [{ values: [1, 0], metadata: { name: 'East', deep: { n: 1 } } }],
  });
  assert.deepEqual(
    (await call('finder', 'query', [1, 0], { namespace: 'poles' })).matches.map(({ id }) => id),
    ['north'],
  );
  assert.equal((await call('finder', 'queryById', 'north', { topK: 1 })).matches[0]!.id, 'north');
  // An insert keeps a vector that exists. An upsert replaces it.
  await call('finder', 'insert', [{ id: 'east', values: [5, 5] }]);
  assert.partialDeepStrictEqual(await call('finder', 'getByIds', ['east', 'none']), [{ values: [1, 0] }]);
  await call('finder', 'upsert', [{ id: 'east', values: [5, 5] }]);
  assert.deepEqual(await call('finder', 'getByIds', ['east']), [{ id: 'east', values: [5, 5] }]);
  await call('finder', 'deleteByIds', ['east']);
  assert.deepEqual(await call('finder', 'getByIds', ['east']), []);
  assert.deepEqual(await call('finder', 'insert', [{ id: 'x', values: [1, 2, 3] }]), {
    error:
      'VECTOR_INSERT_ERROR (code = 40012): vector "x": invalid vector for the index, expected 2 dimensions, and got 3 dimensions',
  });
});

const idsOf = ({ matches }: Answer) => matches.map(({ id }) => id);
const EAST = { id: 'east', values: [1, 0], metadata: { kind: 'side' } };

test('vectors stay across deploys, sleep and a killed host, and go into the trash with their app', async () => {
  const id = await cellar.deploy('lasting', 'vectors');
  await call('lasting', 'insert', [EAST]);
  await cellar.deployAgain('lasting', 'vectors', { 'extra.txt': 'another release' });
  assert.deepEqual(await call('lasting', 'getByIds', ['east']), [EAST]);
  assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`)).body.status, 'sleeping');
  assert.deepEqual(await call('lasting', 'getByIds', ['east']), [EAST]);
  await call('lasting', 'insert', [{ id: 'late', values: [0, 1] }]);
  await cellar.stop('SIGKILL');
  await cellar.start();
  assert.deepEqual(idsOf(await call('lasting', 'query', [0, 1])), ['late', 'east']);
  const { vector_indexes } = (await cellar.call('GET', `/v1/apps/${id}/storage`)).body;
  assert.partialDeepStrictEqual(vector_indexes, [
    { index: 'pages', binding: 'VECTORS', dimensions: 2, metric: 'cosine', vectors: 2 },
  ]);
  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
  await eventually(() => !existsSync(join(cellar.data, 'buckets', id)), 'the vectors have gone');
  const trash = readdirSync(join(cellar.data, 'trash')).find((name) => name.startsWith(id))!;
  assert.equal(readdirSync(join(cellar.data, 'trash', trash, 'buckets', 'vectors')).length, 1);
});

test('a snapshot has the vectors, a restore brings them back, and a preview gets its own copy', async () => {
  const id = await cellar.create('copied-vectors');
  const work = await cellar.checkout('vectors');
  await cellar.push(work, 'copied-vectors');
  await call('copied-vectors', 'insert', [EAST]);
  assert.equal((await cellar.call('POST', '/v1/admin/snapshot')).status, 201);
  await call('copied-vectors', 'deleteByIds', ['east']);
  const now = new Date().toISOString();
  const restored = await rpc('admin.restore', { at: now, app: id });
  assert.equal(restored.app, id, JSON.stringify(restored));
  assert.deepEqual(await call('copied-vectors', 'getByIds', ['east']), [EAST]);
  await rpc('previews.set', { id, branches: true, storage: 'copy' });
  const pushed = await cellar.git(work, 'push', cellar.remote('copied-vectors'), 'HEAD:refs/heads/same');
  assert.match(pushed.stderr, /copying the app's storage/);
  const preview = 'same--copied-vectors';
  assert.deepEqual(await call(preview, 'getByIds', ['east']), [EAST]);
  await call(preview, 'deleteByIds', ['east']);
  assert.deepEqual(await call('copied-vectors', 'getByIds', ['east']), [EAST]);
});

test('Wrangler makes, fills, searches and describes an index', async () => {
  const files = ['wrangler.jsonc', 'index.js'].map((name) => [
    name,
    readFileSync(`test/apps/vectors/${name}`, 'utf8')
      .replace('"vectors"', '"made"')
      .replace('"pages"', '"lines"'),
  ]);
  const lines = [1, 2, 3].map((n) =>
    JSON.stringify({ id: `n${n}`, values: [n, 0], metadata: { n, deep: { even: n % 2 === 0 } } }),
  );
  const project = new Project(cellar, { ...Object.fromEntries(files), 'lines.ndjson': lines.join('\n') });
  const vectorize = async (...words: string[]) => {
    const { code, stdout, stderr } = await project.wrangler('vectorize', ...words);
    assert.equal(code, 0, stdout + stderr);
    return stdout;
  };
  const early = await project.wrangler(
    'vectorize',
    'create',
    'lines',
    '--dimensions=2',
    '--metric=euclidean',
  );
  assert.match(early.stdout + early.stderr, /deploy the app that binds it, and then set the metric/);
  assert.match(
    await vectorize('create', 'lines', '--dimensions=2', '--metric=cosine'),
    /created a new Vectorize index/i,
  );
  const { code, stdout, stderr } = await project.wrangler('deploy');
  assert.equal(code, 0, stdout + stderr);
  await vectorize('create', 'lines', '--dimensions=2', '--metric=euclidean');
  assert.match(await vectorize('get', 'lines'), /euclidean/);
  assert.match(await vectorize('list'), /lines.*2.*euclidean/);
  await vectorize('create-metadata-index', 'lines', '--propertyName=n', '--type=number');
  await vectorize('create-metadata-index', 'lines', '--property-name=deep.even', '--type=boolean');
  assert.match(await vectorize('list-metadata-index', 'lines'), /deep\.even[\s\S]*boolean/i);
  await vectorize('insert', 'lines', '--file=lines.ndjson');
  assert.match(await vectorize('info', 'lines'), /\b3\b/);
  assert.match(await vectorize('list-vectors', 'lines'), /n1[\s\S]*n3/);
  assert.match(await vectorize('get-vectors', 'lines', '--ids', 'n2'), /"even": true/);
  assert.match(
    await vectorize('query', 'lines', '--vector', '3', '0', '--filter', '{"n":{"$lt":3}}'),
    /"n2"[\s\S]*"score": 1/,
  );
  assert.deepEqual(idsOf(await call('made', 'query', [0, 0], { filter: { 'deep.even': false } })), [
    'n1',
    'n3',
  ]);
  await vectorize('delete-metadata-index', 'lines', '--propertyName=n');
  await vectorize('delete-vectors', 'lines', '--ids', 'n2');
  assert.deepEqual(idsOf(await call('made', 'query', [0, 0])), ['n1', 'n3']);
  const kept = await project.wrangler('vectorize', 'delete', 'lines', '--force');
  assert.match(kept.stdout + kept.stderr, /the first deploy that binds it makes it/);
});
