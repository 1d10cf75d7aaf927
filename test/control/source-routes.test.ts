// Files of repositories over HTTP: each account reads some at once, however slowly.
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
import { temporaryDirectory } from '../support/temporary.ts';

/** More than connections and pipes buffer. */
const BYTES = 32 * 2 ** 20;

test("one account's unread files leave a place to another's, and wait for each other", async (t) => {
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
    apps: { get: (id: string) => ({ wanted: { owner: id } }) },
    paths: { repository: () => repository },
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
  // They are kept until here: a body that nobody refers to is cancelled.
  assert.ok(unread.every(({ bodyUsed, ok }) => ok && !bodyUsed));
  leaving.abort();
  assert.equal((await (await fifth).arrayBuffer()).byteLength, BYTES);
});
