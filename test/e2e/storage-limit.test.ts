// Apps that exceed their storage limit or fill the disk are stopped with a reason; others are not.
// Runs as root too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/processes.ts';
import { DISK_KINDS, SmallDisk } from '../support/small-disk.ts';

/** A Worker: `/keep?N` stores N MiB, `/drop` deletes all, `/fill` writes until it is killed. */
const HOARDER = `
import { DurableObject } from 'cloudflare:workers';
const MB = new Uint8Array(1_000_000).fill(7);
export class Hoard extends DurableObject {
  async keep(count) {
    for (let i = 0; i < count; i++) {
      await this.ctx.storage.put(crypto.randomUUID(), MB);
      await this.ctx.storage.sync();
    }
  }
  drop() {
    return this.ctx.storage.deleteAll();
  }
}
export default {
  async fetch(request, env) {
    const { pathname, search } = new URL(request.url);
    const hoard = env.HOARD.getByName('one');
    if (pathname === '/keep') await hoard.keep(Number(search.slice(1)));
    if (pathname === '/drop') await hoard.drop();
    if (pathname === '/fill') await hoard.keep(1e9);
    return new Response('hoard');
  },
};`;
const CONFIG = `name = "hoard"
main = "index.js"
compatibility_date = "2026-10-01"
[[durable_objects.bindings]]
name = "HOARD"
class_name = "Hoard"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Hoard"]
`;
const hoarder = { 'index.js': HOARDER, 'wrangler.toml': CONFIG };
const FLOOR_MB = 64;
const SETTINGS = { RUNNER_BUILD_MAX_MB: '16', RUNNER_DISK_FLOOR_MB: String(FLOOR_MB) };

test('an app over its storage limit is stopped with the reason, and can delete data after a start', async (t) => {
  const cellar = new Cellar({ ...SETTINGS, RUNNER_APP_MAX_MB: '30' });
  await using _ = cellar;
  using disk = SmallDisk.mount(cellar.data, 400, 'ext4');
  if (disk === null) return t.skip(SmallDisk.why);
  await cellar.start();
  const [good, id] = [await cellar.deploy('good', 'hello'), await cellar.deploy('hoard', 'hello', hoarder)];
  assert.equal((await cellar.get('hoard', '/keep?10')).status, 200);
  await cellar.get('hoard', '/keep?40').catch(() => {});
  const stopped = async () => (await cellar.app(id)).status === 'crashed';
  await eventually(stopped, 'the app is stopped');
  const { last_error } = await cellar.app(id);
  assert.match(
    last_error,
    /^the app was stopped: its data takes \d+ MiB on the disk, more than the 30 MiB that are allowed \(RUNNER_APP_MAX_MB\)/,
  );
  assert.match(last_error, /To let it delete data, start it, or deploy another release/);
  await eventually(() => cells(id).length === 0, 'its process is gone');
  const refused = await cellar.get('hoard');
  assert.equal(refused.status, 503);
  assert.match(refused.text, /Its owner can read why/);
  assert.equal((await cellar.get('good')).status, 200);
  assert.equal((await cellar.call('GET', '/ready')).status, 200);

  // The stop survives a restart of the host.
  await cellar.stop('SIGKILL');
  await cellar.start();
  assert.equal((await cellar.get('hoard')).status, 503);
  assert.equal((await cellar.app(id)).last_error, last_error);

  const started = await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'running' });
  assert.equal(started.body.status, 'running');
  assert.equal((await cellar.get('hoard', '/drop')).status, 200);
  assert.equal((await cellar.get('hoard', '/keep?5')).status, 200);
  assert.equal((await cellar.app(id)).status, 'running');
  assert.equal(cells(good).length, 1);
});

for (const kind of DISK_KINDS) {
  test(`an app that fills the disk (${kind}) is stopped, others go on, and it starts again when there is room`, async (t) => {
    const cellar = new Cellar(SETTINGS);
    await using _ = cellar;
    using disk = SmallDisk.mount(cellar.data, 400, kind);
    if (disk === null) return t.skip(SmallDisk.why);
    await cellar.start();
    const [good, id] = [
      await cellar.deploy('good', 'hello', hoarder),
      await cellar.deploy('hoard', 'hello', hoarder),
    ];
    const { pid } = cells(good)[0]!;
    disk.fill(FLOOR_MB + 60);
    let least = Number.POSITIVE_INFINITY;
    const filling = cellar.get('hoard', '/fill', { signal: AbortSignal.timeout(120_000) }).catch(() => null);
    await eventually(
      async () => {
        least = Math.min(least, disk.freeMb);
        assert.equal((await cellar.get('good')).status, 200);
        return (await cellar.app(id)).status === 'crashed';
      },
      'the app is stopped',
      60_000,
    );
    await filling;
    assert.match(
      (await cellar.app(id)).last_error,
      /the disk of this machine is almost full.*this one wrote the most/,
    );
    t.diagnostic(`least room seen: ${Math.floor(least)} MiB of ${FLOOR_MB}`);
    await eventually(() => cells(id).length === 0, 'its process is gone');
    assert.equal(cells(good)[0]!.pid, pid, 'the neighbour has the same process');
    // On a full disk the neighbour can write once the host has released its disk reserve.
    const writes = async () => (await cellar.get('good', '/keep?1')).status === 200;
    await eventually(writes, 'the neighbour can write');
    await eventually(
      async () => (await cellar.call('GET', '/ready')).body.failing?.join() === 'disk',
      '/ready names the disk',
    );

    // On a full disk the list of stopped apps can be stored only after the host has freed space.
    if (cellar.output.includes('the list of stopped apps could not be stored'))
      await cellar.waitFor(/the list of stopped apps is stored again/);

    // A host that is killed on a full disk restores the same state.
    disk.fill();
    await cellar.stop('SIGKILL');
    disk.fill();
    const from = cellar.output.length;
    const started = cellar.start();
    started.catch(() => {});
    await cellar.waitFor(/ info {2}starting /, from);
    await eventually(
      async () => (await cellar.get('good').catch(() => null))?.status === 200,
      'the neighbour answers on a full disk',
    );
    assert.equal((await cellar.get('hoard')).status, 503);

    disk.clear();
    await started;
    await eventually(async () => (await cellar.get('hoard')).status === 200, 'the app is let go');
    await eventually(async () => (await cellar.call('GET', '/ready')).status === 200, 'the host is ready');
    await eventually(async () => (await cellar.app(id)).status === 'running', 'the app reads as running');
    assert.equal((await cellar.app(id)).last_error, null);
    assert.equal((await cellar.get('hoard', '/keep?1')).status, 200);
  });
}
