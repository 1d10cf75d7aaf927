// Large KV values: workerd would write larger values to the bucket than it can read back.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { AppCluster } from '../../../runtime/bucket/app-cluster.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { CLUSTER_KEY, startProxy } from '../../support/bucket/proxy.ts';
import { harness } from '../../support/fleets/harness.ts';
import { makeRelease } from '../../support/fleets/release.ts';

/** The largest value that workerd can read from the bucket, in bytes. */
const MOST = 16 * 2 ** 20;

const APP = `
const put = (env, size) => env.KV.put(size, new Uint8Array(Number(size))).then(() => 'written');
const get = async (env, size) => String((await env.KV.get(size, 'arrayBuffer'))?.byteLength);
export default {
  async fetch(request, env) {
    const [, what, size] = new URL(request.url).pathname.split('/');
    return new Response(await (what === 'put' ? put : get)(env, size).catch(({ message }) => message));
  },
};`;

/** Starts the app with an empty disk. */
async function startApp(t: TestContext, store: MemoryStore, port: number) {
  const cluster = new AppCluster({
    ...{ place: store.place('of/cellar/'), clusterKey: CLUSTER_KEY, appId: 'app1' },
    endpoint: () => `http://127.0.0.1:${port}`,
    isAway: () => false,
    ready: async () => {},
    untilUsable: async () => {},
    importing: '/nowhere',
    warn: () => {},
  });
  const { fleet, root, ask } = harness(t, { cluster });
  const fields = { namespaces: [{ binding: 'KV', storageId: 'main' }] };
  await fleet.start(await makeRelease(`${root}/release-1`, APP, fields));
  return { fleet, root, ask: async (path: string) => (await ask(path)).text };
}

test('a value that workerd could never read again is not written; the largest one is read on an empty disk', async (t) => {
  await using store = await new MemoryStore().start();
  const { port, away } = await startProxy(t, store.place('of/cellar/'));
  const first = await startApp(t, store, port);
  const { pid } = first.fleet;
  for (const size of [MOST - 1, MOST]) assert.equal(await first.ask(`/put/${size}`), 'written');
  for (const size of [MOST + 1, 25 * 2 ** 20])
    assert.match(await first.ask(`/put/${size}`), /^KV PUT failed: 500 /);
  assert.equal(await first.ask(`/get/${MOST + 1}`), 'undefined');
  assert.equal(first.fleet.pid, pid, 'the app goes on');
  await first.fleet.stop();
  rmSync(first.root, { recursive: true });
  const values = [...store.objects].filter(([name]) => name.includes('/v1/services/kv/'));
  assert.deepEqual(values.map(([, { body }]) => body.length).sort(), [MOST - 1, MOST]);
  const next = await startApp(t, store, port);
  for (const size of [MOST - 1, MOST]) assert.equal(await next.ask(`/get/${size}`), String(size));
  assert.deepEqual(away, []);
});
