// Calls about repositories over HTTP: accounts have queues, and a disconnect frees the place.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { type SourceOptions, sourceRoutes } from '../../runtime/control/routes/source-routes.ts';
import { gitEnvironment } from '../../runtime/git/environment.ts';
import { createRepository } from '../../runtime/git/repository.ts';
import { ClosableGate } from '../../runtime/queues/closable-gate.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

/** Does not fit into the buffers of connections and pipes. */
const BYTES = 32 * 2 ** 20;

test('unread files of one account leave a place to another account, and wait for each other', async (t) => {
  const repository = join(temporaryDirectory(t), 'app.git');
  await createRepository(repository);
  const options = {
    cwd: repository,
    env: gitEnvironment(),
    input: Buffer.alloc(BYTES),
    encoding: 'utf8',
  } as const;
  const sha = spawnSync('git', ['hash-object', '-w', '--stdin'], options).stdout.trim();
  const routes = sourceRoutes({
    apps: {
      get: (id: string) => ({ wanted: { owner: id } }),
      withRepository: (_: string, read: (path: string) => Promise<unknown>) => read(repository),
    },
  } as unknown as SourceOptions);
  const server = createServer((request, response) => {
    const words = [request.url!.slice(1), sha];
    const query = new URLSearchParams({ length: String(BYTES) });
    const answer = routes['GET /apps/:id/source/blob/:sha']({ request, response, words, query });
    Promise.resolve(answer).catch((error) => response.writeHead(error.status ?? 500).end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  t.after(() => server.closeAllConnections());
  const read = (owner: string, leave?: AbortSignal) =>
    fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${owner}`, {
      signal: AbortSignal.any([AbortSignal.timeout(60_000), ...(leave ? [leave] : [])]),
    });

  const leaving = new AbortController();
  const unread: Response[] = [];
  for (let n = 0; n < 4; n++) unread.push(await read('greedy', leaving.signal));
  let hasBegun = false;
  const fifth = read('greedy').then((response) => {
    hasBegun = true;
    return response;
  });
  const other = await read('modest');
  assert.equal((await other.arrayBuffer()).byteLength, BYTES);
  assert.equal(hasBegun, false);
  // This reference keeps the responses alive: fetch cancels a body that is garbage-collected.
  assert.ok(unread.every(({ bodyUsed, ok }) => ok && !bodyUsed));
  leaving.abort();
  assert.equal((await (await fifth).arrayBuffer()).byteLength, BYTES);
});

test('a template whose client disconnects while it waits is not committed, and frees its place', async (t) => {
  const repositories = temporaryDirectory(t);
  const held = Promise.withResolvers<void>();
  const committed: string[] = [];
  const repository = (id: string) => join(repositories, id);
  const app = { wanted: { owner: 'greedy' }, code: null, changes: new ClosableGate('never') };
  const apps = { get: () => app };
  const requests = {
    commit: ({ appId, sha }: { appId: string; sha: string }) => {
      committed.push(appId);
      return { fact: { id: appId, sha } };
    },
  };
  // The first change keeps the account's turn until `held` resolves.
  const changes = { during: async <T>(_: string, change: Promise<T>) => held.promise.then(() => change) };
  const routes = sourceRoutes({
    apps,
    requests,
    changes,
    paths: { repository, builds: temporaryDirectory(t) },
    disk: { shortage: null },
    outbox: { flushed: async () => {} },
  } as unknown as SourceOptions);
  let asked = 0;
  const left: unknown[] = [];
  const server = createServer((request, response) => {
    asked++;
    const words = [request.url!.slice(1)];
    const call = { request, response, words, query: new URLSearchParams() };
    Promise.resolve(routes['POST /apps/:id/source/template'](call)).then(
      (answer) => response.end(JSON.stringify(answer)),
      (error) => {
        if (response.destroyed) left.push(error);
        else response.writeHead(error.status ?? 500).end(error.message);
      },
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  t.after(() => server.closeAllConnections());
  const start = (id: string, signal?: AbortSignal) => {
    const author = { name: 'One', email: 'one@example.com' };
    return fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${id}`, {
      method: 'POST',
      body: JSON.stringify({ template: 'hello', author }),
      signal: AbortSignal.any([AbortSignal.timeout(60_000), ...(signal ? [signal] : [])]),
    });
  };

  for (const id of ['first', 'last']) await createRepository(repository(id));
  const first = start('first');
  await eventually(() => committed.length === 1, 'the first one has begun');
  const client = new AbortController();
  // These fill the queue: unless a place is freed, the next one is refused.
  const leaving = Array.from({ length: 50 }, (_, n) => start(`left-${n}`, client.signal));
  await eventually(() => asked === 51, 'all the others wait');
  assert.equal((await start('refused')).status, 503);
  client.abort();
  await Promise.allSettled(leaving);
  await eventually(() => left.length === 50, 'all that wait have been given up');
  const last = start('last');
  await eventually(() => asked === 53, 'the last one waits');
  held.resolve();
  assert.deepEqual([(await first).status, (await last).status], [200, 200]);
  assert.deepEqual(committed, ['first', 'last']);
});
