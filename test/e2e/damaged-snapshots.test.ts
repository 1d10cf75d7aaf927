// A damaged snapshot through the real host: how it is reported, and how its undamaged part is restored.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Verified } from '../../handlers/contract/admin.ts';
import { readManifest } from '../../runtime/snapshots/store/manifest.ts';
import { packName } from '../../runtime/snapshots/store/packs.ts';
import { openStore } from '../../runtime/snapshots/store/place.ts';
import { packsOf } from '../../runtime/snapshots/verify.ts';
import { Receiver } from '../support/alerts/receiver.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { restore, rpc, snapshot, snapshotDirectory } from '../support/e2e/snapshots.ts';
import { expectedData, readData, STORAGE_APP, storeData } from '../support/e2e/storage-app.ts';

/** A little more than two packs, so that one pack has only these bytes. */
const LARGE = 33 * 2 ** 20;

test('damage is reported, the next snapshot is whole, and the damaged app can be left out of a restore', async () => {
  await using receiver = await Receiver.start();
  using snapshots = snapshotDirectory();
  const settings = { RUNNER_SNAPSHOT_URL: snapshots.path, RUNNER_SNAPSHOT_EVERY_H: '0' };
  await using before = await new Cellar({ ...settings, RUNNER_EGRESS_ALLOW: '127.0.0.1' }).start();
  await before.deploy('well', 'hello', STORAGE_APP);
  const id = await before.deploy('shop', 'hello', STORAGE_APP);
  for (const slug of ['well', 'shop']) await storeData(before, slug, 1);
  const early = await snapshot(before);
  const put = await fetch(`${before.api}/v1/apps/${id}/storage/r2/files/raw?key=large`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${before.token}` },
    body: randomBytes(LARGE),
  });
  assert.equal(put.status, 200, await put.text());
  const { key } = await snapshot(before);
  await rpc(before, 'alerts.set', { id, url: receiver.url, on: ['snapshot'] } as object);
  const verify = async () => (await rpc(before, 'snapshots.verify', {})) as unknown as Verified;
  const ready = async () => (await before.call('GET', '/ready')).body;
  assert.deepEqual((await verify()).damaged, []);
  assert.deepEqual(await ready(), { status: 'ready' });

  const pack = await packOfAlone(snapshots.path, key, id);
  const path = join(snapshots.path, pack);
  const bytes = readFileSync(path);
  bytes[1_000]! ^= 1;
  writeFileSync(path, bytes);
  const found = await verify();
  assert.deepEqual(found.objects, [{ name: pack, problem: 'damaged' }]);
  assert.deepEqual(found.damaged, [{ key, parts: [{ app: id, name: 'shop' }] }]);
  assert.deepEqual(await ready(), { status: 'ready', warnings: ['snapshots'] });
  const { verified, newest_damaged } = (await before.call('GET', '/v1/admin/stats')).body.host.snapshots;
  assert.deepEqual([verified, newest_damaged], [found, true]);
  const alert = await receiver.first(({ body }) => body.type === 'snapshot.damaged');
  assert.deepEqual(alert.body.data.snapshots, [key]);
  const refused = await rpc(before, 'admin.restore', { snapshot: key, app: id });
  assert.equal(refused.code, 'snapshot_unusable');
  assert.match(refused.detail!, new RegExp(`cannot restore the app shop: ${pack} is damaged`));

  // The next snapshot repairs the pack: the damaged bytes are saved for the restore below.
  const damaged = Buffer.from(bytes);
  const next = await snapshot(before);
  assert.deepEqual(await ready(), { status: 'ready' });
  await rpc(before, 'admin.restore', { snapshot: next.key, app: id });
  writeFileSync(path, damaged);
  await before.stop();

  await using after = new Cellar(settings);
  const whole = restore(key, after.data, settings);
  assert.equal(whole.status, 1);
  assert.match(whole.stderr, new RegExp(`cannot restore shop \\(.*npm run restore -- ${key} --without shop`));
  assert.equal(restore('--what', after.data, settings).status, 2);
  const rest = restore(`${key}`, after.data, settings, ['--without', 'shop']);
  assert.equal(rest.status, 3, rest.stderr);
  assert.match(rest.stdout, /shop was left out/);
  await after.start();
  assert.deepEqual(await readData(after, 'well'), expectedData(1));
  assert.equal((await after.app(id)).status, 'created');
  await after.deployAgain('shop', 'hello', STORAGE_APP);
  await rpc(after, 'admin.restore', { snapshot: early.key, app: id });
  assert.deepEqual(await readData(after, 'shop'), expectedData(1));
});

/** Returns a pack that only one app uses. */
async function packOfAlone(directory: string, key: string, app: string): Promise<string> {
  const { parts } = await readManifest(openStore({ directory: directory }), key);
  const others = new Set(parts.filter(({ id }) => id !== app).flatMap((part) => [...packsOf(part)]));
  const needed = packsOf(parts.find(({ id }) => id === app)!);
  return packName([...needed].find((pack) => !others.has(pack))!);
}
