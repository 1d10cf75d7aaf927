// Damaged and missing packs: they are detected, the next snapshot is complete, and a restore may leave apps out.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Verified } from '../../handlers/contract/admin.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { restoreWhole } from '../../runtime/snapshots/restore/whole.ts';
import { readManifest } from '../../runtime/snapshots/store/manifest.ts';
import { packName } from '../../runtime/snapshots/store/packs.ts';
import { NEVER_VERIFIED, packsOf } from '../../runtime/snapshots/verify.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { eventually } from '../support/processes.ts';
import { fileOf, startSnapshots } from '../support/snapshots/host.ts';

const SHOP = 'aaaaaaaaaaaaaaaa';
const BLOG = 'bbbbbbbbbbbbbbbb';
/** Larger than a pack of 16 MiB, so that the shop has a pack to itself. */
const LARGE = 17 * 2 ** 20;

const damages = [
  {
    name: 'a byte flipped',
    problem: 'damaged',
    damage: (path: string) => {
      const bytes = readFileSync(path);
      bytes[bytes.length >> 1]! ^= 1;
      writeFileSync(path, bytes);
    },
  },
  { name: 'cut', problem: 'damaged', damage: (path: string) => truncateSync(path, 1_000) },
  { name: 'gone', problem: 'missing', damage: (path: string) => rmSync(path) },
] as const;

for (const { name, problem, damage } of damages) {
  test(`a pack that is ${name} is detected, and the next snapshot is complete`, async (t) => {
    const told: Verified['damaged'][] = [];
    const onDamaged = (damaged: Verified['damaged']) => void told.push(damaged);
    const { root, store, snapshots, restored, shop, blog, first, pack } = await oneSnapshot(t, onDamaged);
    const clean = await snapshots.verify();
    assert.deepEqual([clean.snapshots, clean.damaged, clean.objects], [1, [], []]);
    damage(join(root, 'snapshots', pack));
    const found = await snapshots.verify();
    assert.deepEqual(found.objects, [{ name: pack, problem }]);
    assert.deepEqual(found.damaged, [{ key: first, parts: [{ app: SHOP, name: 'shop' }] }]);
    assert.deepEqual([snapshots.state.verified, snapshots.isNewestDamaged], [found, true]);
    assert.deepEqual(told, [found.damaged]);
    await assert.rejects(restored(first, SHOP), (error: Error) => {
      assert.match(error.message, new RegExp(`${first} cannot restore the app shop: ${pack} is ${problem}`));
      return true;
    });
    assert.ok((await restored(first, BLOG)).equals(blog));

    const second = (await snapshots.take('a test')).head.id;
    assert.ok((await restored(second, SHOP)).equals(shop));
    assert.equal(snapshots.isNewestDamaged, false);
    const after = await snapshots.verify();
    assert.ok(!after.damaged.some(({ key }) => key === second));
    // The pack is not rewritten by each snapshot.
    const { written } = (await snapshots.take('a test')).head;
    assert.ok(written < 2 ** 20, String(written));
    await store.remove(`snapshots/${first}`);
    assert.deepEqual((await snapshots.verify()).damaged, []);
  });
}

test('a pack that is too short or missing is detected by a snapshot without a verification', async (t) => {
  const { root, snapshots, restored, shop, first, pack } = await oneSnapshot(t);
  rmSync(join(root, 'snapshots', pack));
  const { head } = await snapshots.take('a test');
  // The same chunks make the same pack: the earlier snapshot is complete again.
  assert.deepEqual(snapshots.state.verified.damaged, []);
  for (const key of [first, head.id]) assert.ok((await restored(key, SHOP)).equals(shop), key);
});

test('a damaged snapshot whose app was deleted stays damaged, and says so after a restart', async (t) => {
  const { root, paths, snapshots, first, pack, reopen } = await oneSnapshot(t);
  rmSync(join(root, 'snapshots', pack));
  rmSync(fileOf(paths.root, SHOP));
  await snapshots.verify();
  const { head } = await snapshots.take('a test');
  const damaged = [{ key: first, parts: [{ app: SHOP, name: 'shop' }] }];
  assert.deepEqual(snapshots.state.verified.damaged, damaged);
  const next = reopen();
  await next.start();
  assert.deepEqual(next.state.verified.damaged, damaged);
  assert.deepEqual([next.state.newest_damaged, next.state.last_at], [false, head.created_at]);
});

test('a snapshot whose own object is damaged is detected, and no later one builds on it', async (t) => {
  const { root, snapshots, restored, shop, first } = await oneSnapshot(t);
  truncateSync(join(root, 'snapshots', 'snapshots', first), 500);
  const found = await snapshots.verify();
  assert.deepEqual(found.damaged, [{ key: first, parts: [{ app: null, name: 'everything' }] }]);
  const { head } = await snapshots.take('a test');
  assert.ok((await restored(head.id, SHOP)).equals(shop));
});

test('a verification before the first snapshot leaves the store empty', async (t) => {
  const { root, snapshots } = startSnapshots(t);
  const { at, ...found } = await snapshots.verify();
  assert.deepEqual({ at: null, ...found }, NEVER_VERIFIED);
  assert.notEqual(at, null);
  assert.equal(existsSync(join(root, 'snapshots')), false);
});

test('a failed verification is not reported as a failed snapshot', async (t) => {
  const taken: unknown[] = [];
  const { root, snapshots } = startSnapshots(t, { onTaken: (failed) => void taken.push(failed) });
  await snapshots.take('a test');
  writeFileSync(join(root, 'snapshots', 'cellar.json'), '{"cellar": "another"}');
  const lines: string[] = [];
  const output = t.mock.method(process.stdout, 'write', (text: string) => lines.push(text) > 0);
  await assert.rejects(snapshots.verify(), /snapshots of another Cellar/);
  output.mock.restore();
  assert.match(lines.join(''), /error snapshots could not be verified error="the place of snapshots has/);
  assert.doesNotMatch(lines.join(''), /a snapshot failed/);
  assert.match(snapshots.state.problem!, /^the verification failed: the place of snapshots has/);
  assert.deepEqual(taken, [[]]);
});

test('a place without its `cellar.json` may be a disk that is not mounted, and gets no snapshot', async (t) => {
  const { root, paths, snapshots, reopen } = startSnapshots(t);
  const directory = join(root, 'snapshots');
  await snapshots.take('a test');
  rmSync(directory, { recursive: true });
  const wanted = /\/snapshots has no cellar\.json: is its disk mounted\? .* RUNNER_SNAPSHOT_URL/;
  await assert.rejects(reopen().take('a test'), wanted);
  await assert.rejects(snapshots.verify(), wanted);
  assert.equal(existsSync(directory), false);
  await reopen({ place: { directory: join(directory, 'new') } }).take('a test');
  // The default place is on the disk of the data directory, so it is always mounted.
  const byDefault = reopen({ place: { directory: paths.snapshots } });
  await byDefault.take('a test');
  rmSync(paths.snapshots, { recursive: true });
  await byDefault.take('a test');
});

test('a store that cannot be read at the start is not reported as a failed snapshot', async (t) => {
  const taken: unknown[] = [];
  const { root, snapshots, reopen } = startSnapshots(t, { onTaken: (failed) => void taken.push(failed) });
  const { head } = await snapshots.take('a test');
  truncateSync(join(root, 'snapshots', 'snapshots', head.id), 20);
  const output = t.mock.method(process.stdout, 'write');
  const next = reopen();
  await next.start();
  const written = output.mock.calls.map(({ arguments: [text] }) => String(text)).join('');
  assert.match(
    written,
    /error the snapshots could not be read at the start error="snapshots\/\S+ is damaged/,
  );
  assert.doesNotMatch(written, /a snapshot failed/);
  assert.match(next.state.problem!, /is damaged/);
  assert.deepEqual(taken, [[]]);
});

test('snapshots are verified on a schedule, and a damaged newest one is replaced at once', async (t) => {
  const { root, snapshots, restored, shop, pack, reopen } = await oneSnapshot(t);
  const bytes = readFileSync(join(root, 'snapshots', pack));
  bytes[5]! ^= 1;
  writeFileSync(join(root, 'snapshots', pack), bytes);
  await snapshots.stop();
  const next = reopen({ everyMs: 3_600_000, verifyMs: 200 });
  await next.start();
  await eventually(() => next.state.verified.at !== null && !next.isNewestDamaged, 'it is whole again');
  const [newest] = await next.list();
  assert.ok((await restored(newest!.id, SHOP, next)).equals(shop));
});

test('a restore of everything names the damaged app, and can leave it out', async (t) => {
  const { root, store, first, pack, blog } = await oneSnapshot(t);
  rmSync(join(root, 'snapshots', pack));
  const target = layout(join(root, 'target'));
  await assert.rejects(restoreWhole(store, first, target, [], null), (error: Error) => {
    assert.match(error.message, new RegExp(`cannot restore shop \\(${pack} is missing\\)`));
    assert.match(error.message, new RegExp(`npm run restore -- ${first} --without shop`));
    return true;
  });
  assert.equal(existsSync(fileOf(target.root, BLOG)), false);
  await assert.rejects(restoreWhole(store, first, target, ['nobody'], null), /has no app nobody/);
  const { leftOut } = await restoreWhole(store, first, target, ['shop'], null);
  assert.deepEqual(leftOut, ['shop']);
  assert.ok(readFileSync(fileOf(target.root, BLOG)).equals(blog));
  assert.equal(existsSync(fileOf(target.root, SHOP)), false);
  assert.ok(existsSync(join(target.repository(SHOP), 'HEAD')));
  const restored = openHostStore(target.database);
  t.after(() => restored.close());
  const live = restored.apps.all().map(({ wanted, liveDeployId }) => [wanted.slug, liveDeployId]);
  assert.deepEqual(live, [
    ['shop', null],
    ['blog', 'deploy-of-blog'],
  ]);
});

/** Starts a host of two apps with one snapshot. `pack` has data of the shop alone. */
async function oneSnapshot(t: TestContext, onDamaged: (damaged: Verified['damaged']) => void = () => {}) {
  const started = startSnapshots(t, { onDamaged });
  const { hostStore, snapshots, addApp, store } = started;
  const shop = addApp(SHOP, 'shop', LARGE);
  const blog = addApp(BLOG, 'blog', 1_000);
  for (const [id, slug] of [
    [SHOP, 'shop'],
    [BLOG, 'blog'],
  ] as const)
    hostStore.apps.setLive(id, `deploy-of-${slug}`, new Date().toISOString(), {});
  const first = (await snapshots.take('a test')).head.id;
  const { parts } = await readManifest(store, first);
  const others = new Set(parts.filter(({ id }) => id !== SHOP).flatMap((part) => [...packsOf(part)]));
  const [alone] = [...packsOf(parts.find(({ id }) => id === SHOP)!)].filter((pack) => !others.has(pack));
  return { ...started, shop, blog, first, pack: packName(alone!) };
}
