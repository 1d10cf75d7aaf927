// Durable Objects in the bucket are opened without the app's code. Each one with stored data then has a local file.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readFolder } from '../../runtime/move/from-bucket.ts';
import { withOpening } from '../../runtime/move/opening.ts';
import { clusterIn } from '../support/bucket/clusters.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { harness } from '../support/fleets/harness.ts';
import { workerd } from '../support/fleets/release.ts';

const CODE = `
import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  keep() { this.ctx.storage.kv.put('n', 1); }
  async forget() {
    this.keep();
    await this.ctx.storage.sync();
    await this.ctx.storage.deleteAll();
  }
  idle() {}
}
export default {
  async fetch(request, env) {
    for (const call of ['keep', 'forget', 'idle']) await env.COUNTER.getByName(call)[call]();
    return new Response('done');
  },
};`;

test('every object that has stored anything has a file after it is opened', {
  timeout: 120_000,
}, async (t) => {
  await using store = await new MemoryStore().start();
  const app = harness(t, { cluster: clusterIn(store) });
  await app.fleet.start(await app.release(1, { code: CODE }));
  assert.equal((await app.ask('/')).text, 'done');
  await app.fleet.stop();
  const folder = { place: store.place('of/cellar/'), appId: 'app1' };
  const { objects, stored } = await readFolder(folder, ['counter', 'D1Database']);
  const place = { workerd, user: null, memoryMb: 512, runDirectory: `${app.root}/run` };
  const signal = AbortSignal.timeout(60_000);
  const ids = (objects.counter ?? []).filter((id) => stored.includes(id));
  assert.equal(ids.length, 2);
  await withOpening(place, clusterIn(store), ['counter'], signal, async ({ directory, open }) => {
    await open({ counter: ids.map((id) => ({ id })) });
    const found = ids.filter((id) => existsSync(join(directory, 'counter', `${id}.sqlite`)));
    assert.deepEqual(found, ids);
  });
  // The bucket does not answer for the data of one object.
  store.faults = { hangs: ({ key }) => key.includes(`/${ids[0]}/log/`) };
  await withOpening(place, clusterIn(store), ['counter'], signal, ({ open }) =>
    assert.rejects(open({ counter: [{ id: ids[0]! }] }), /the move failed/),
  );
});
