// Copies of apps' storage over HTTP: each account has one at a time, however slowly the client reads it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { type CopyRouteOptions, copyRoutes } from '../../runtime/control/routes/copy-routes.ts';
import { startSnapshots } from '../support/snapshots/host.ts';

/** More than the buffers of a connection hold. */
const BYTES = 32 * 2 ** 20;

test('unread copies of one account leave a place to another account, and wait for each other', async (t) => {
  const { paths, snapshots, addApp } = startSnapshots(t);
  const apps = new Map(
    ['greedy', 'greedy', 'modest'].map((owner, at) => [String(at).repeat(16), { owner, slug: `app-${at}` }]),
  );
  for (const [id, { owner, slug }] of apps) addApp(id, slug, owner === 'greedy' ? BYTES : 1_000);
  const routes = copyRoutes({
    paths,
    snapshots,
    apps: {
      get: (id: string) => ({ wanted: apps.get(id) }),
      ownerOf: (id: string) => apps.get(id)!.owner,
      clusterOf: () => null,
    },
    disk: { shortage: null },
    storageLimits: { sizeOf: () => 0 },
    storageNames: () => ({}),
    users: () => ({ build: null, cell: null }),
  } as unknown as CopyRouteOptions);
  const server = createServer((request, response) => {
    const call = { request, response, words: [request.url!.slice(1)], query: new URLSearchParams() };
    routes['GET /apps/:id/copy'](call)?.catch((error) => response.writeHead(error.status ?? 500).end());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  t.after(() => server.closeAllConnections());
  const copy = (at: number, leave?: AbortSignal) =>
    fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${String(at).repeat(16)}`, {
      signal: AbortSignal.any([AbortSignal.timeout(60_000), ...(leave ? [leave] : [])]),
    });

  const leaving = new AbortController();
  const unread = await copy(0, leaving.signal);
  assert.equal(unread.status, 200);
  let hasBegun = false;
  const second = copy(1).then((response) => {
    hasBegun = true;
    return response;
  });
  const others = await copy(2);
  assert.equal(others.status, 200);
  assert.match(await others.text(), /\{"end":true\}\n$/);
  assert.equal(hasBegun, false);
  leaving.abort();
  assert.equal((await second).status, 200);
});
