// Snapshots that are encrypted with the operator's keys.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Decrypter, Encrypter, generateHybridIdentity, generateX25519Identity } from 'age-encryption';
import { UNFINISHED } from '../../runtime/bucket/store.ts';
import { readConfig } from '../../runtime/config.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { Damaged, Locked } from '../../runtime/snapshots/errors.ts';
import { restoreWhole } from '../../runtime/snapshots/restore/whole.ts';
import { PackReader, PackWriter } from '../../runtime/snapshots/store/packs.ts';
import { openStore, storePlace } from '../../runtime/snapshots/store/place.ts';
import { startSnapshots } from '../support/snapshots/host.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const SHOP = 'aaaaaaaaaaaaaaaa';
const SLUG = 'a-very-secret-shop';

const [first, second] = [await generateX25519Identity(), await generateHybridIdentity()];

for (const [name, key] of [
  ['X25519', first],
  ['the hybrid', second],
] as const)
  test(`a place has nothing readable with a key of ${name}, and the key restores everything`, async (t) => {
    const directory = temporaryDirectory(t);
    const { snapshots, addApp, restored, reopen } = startSnapshots(t, { place: { directory, keys: [key] } });
    // `addApp` writes random bytes, which zstd leaves as they are. Only encryption can hide them.
    const content = addApp(SHOP, SLUG, 200_000);
    const { head } = await snapshots.take(`before a restore of ${SLUG}`);
    await snapshots.verify();
    assertUnreadable(directory, [SLUG, content.subarray(1_000, 1_032)]);
    assert.ok((await restored(head.id, SHOP)).equals(content));
    assert.deepEqual(
      (await snapshots.list()).map(({ id, why }) => [id, why]),
      [[head.id, head.why]],
    );
    const again = await snapshots.take('a test');
    assert.ok(again.head.written < 50_000, `unchanged files are not written again: ${again.head.written}`);
    const next = reopen();
    await next.start();
    assert.equal(next.state.last_at, again.head.created_at);
    assert.ok(next.state.verified.at !== null);
  });

test('without the key, or with another one, nothing is restored and the error says what to do', async (t) => {
  const directory = temporaryDirectory(t);
  const { root, snapshots, addApp, reopen, restored } = startSnapshots(t, {
    place: { directory, keys: [first] },
  });
  addApp(SHOP, SLUG, 1_000);
  const { id } = (await snapshots.take('a test')).head;
  for (const [keys, message] of [
    [[], new RegExp(`^snapshots/${id} is encrypted: set RUNNER_SNAPSHOT_KEY to its key$`)],
    [[second], new RegExp(`^snapshots/${id} is encrypted with another key: add it to RUNNER_SNAPSHOT_KEY$`)],
  ] as const) {
    const place = { directory, keys };
    const other = reopen({ place });
    const into = join(root, 'into');
    const job = { snapshot: { key: id }, app: SHOP, only: null, into: { directory: into, floorMb: 0 } };
    await assert.rejects(other.extract(job), { message });
    assert.equal(existsSync(into), false);
    await assert.rejects(other.verify(), { message });
    assert.deepEqual(await other.list(), []);
    await other.start();
    assert.match(other.state.problem ?? '', message);
    const target = layout(join(root, `target-${keys.length}`));
    await assert.rejects(restoreWhole(openStore(place), 'latest', target, [], null), { message });
    assert.equal(existsSync(target.database), false);
    const taking = other.take('a test');
    if (keys.length > 0) await taking;
    // Without a key, this snapshot would add readable data to an encrypted place.
    else {
      await assert.rejects(taking, /is encrypted: set RUNNER_SNAPSHOT_KEY to its key, or another place/);
      assert.deepEqual(await openStore(place).list(UNFINISHED), []);
    }
  }
  const after = reopen();
  assert.ok(await restored(id, SHOP, after));
});

test('a new key encrypts everything again, and the old one opens what it had encrypted', async (t) => {
  const directory = temporaryDirectory(t);
  const packs = () => readdirSync(join(directory, 'packs'));
  const { snapshots, addApp, restored, reopen } = startSnapshots(t, { place: { directory } });
  const content = addApp(SHOP, SLUG, 300_000);
  const ids = [(await snapshots.take('a test')).head.id];
  for (const keys of [[first], [second, first]]) {
    const place = { directory, keys };
    const next = reopen({ place, keep: { count: ids.length + 1, hourly: 0, days: 0, youngMs: 0 } });
    const { head } = await next.take('a test');
    assert.ok(head.written > 300_000, String(head.written));
    ids.push(head.id);
    for (const id of ids) assert.ok((await restored(id, SHOP, next)).equals(content), id);
    assert.deepEqual((await next.verify()).damaged, []);
  }
  const place = { directory, keys: [second] };
  // Only this snapshot stays, so packs without encryption or with the first key are removed.
  const last = reopen({ place, keep: { count: 1, hourly: 0, days: 0, youngMs: 0 } });
  await last.take('a test');
  const { mark } = openStore(place);
  assert.deepEqual([...new Set(packs().map((name) => name.slice(64)))].sort(), [mark]);
});

test('the start of a large object is read without its end, and damage is noticed', async (t) => {
  const directory = temporaryDirectory(t);
  const store = openStore({ directory, keys: [first] });
  const content = Buffer.alloc(2 ** 20, 'content ');
  const sealed = await store.seal(content);
  await store.write('large', sealed);
  const start = await store.openStart('large', 2 ** 17);
  assert.ok(
    start.length >= 2 ** 17 && start.length < 2 ** 19 && content.subarray(0, start.length).equals(start),
  );
  for (const size of [0, 100, 2 ** 16, 2 ** 17]) {
    await store.write('small', await store.seal(content.subarray(0, size)));
    assert.ok((await store.openStart('small', 2 ** 17)).equals(content.subarray(0, size)), String(size));
  }
  const decrypter = new Decrypter();
  decrypter.addIdentity(first);
  assert.ok(Buffer.from(await decrypter.decrypt(sealed)).equals(content), 'age itself can read it');
  await assert.rejects(store.open('large', sealed.subarray(0, -1)), Damaged);
  sealed[5_000]! ^= 1;
  await assert.rejects(store.open('large', sealed), Damaged);
  await assert.rejects(openStore({ directory, keys: [second] }).openStart('large', 2 ** 17), Locked);
});

test('an app may store what age has encrypted, with a key of snapshots and without', async (t) => {
  const directory = temporaryDirectory(t);
  const age = new Encrypter();
  age.setPassphrase('of the app');
  age.setScryptWorkFactor(1);
  const content = Buffer.from(await age.encrypt(randomBytes(100_000)));
  // The chunk is the first of its pack, so the pack begins with the header of age, like an encrypted one.
  const packs = new PackWriter(openStore({ directory }), []);
  const chunk = await packs.add(content);
  await packs.finish();
  for (const keys of [[], [first]]) {
    const reader = new PackReader(openStore({ directory, keys }));
    assert.ok((await reader.read(chunk)).equals(content), `${keys.length} keys`);
  }
});

test('keys come from the settings, and a wrong one is refused or reported at the start', async (t) => {
  const paths = layout(temporaryDirectory(t));
  const { keys } = storePlace(readConfig({ RUNNER_SNAPSHOT_KEY: `${first}, ${second}` }), paths);
  assert.deepEqual(keys, [first, second]);
  assert.throws(() => readConfig({ RUNNER_SNAPSHOT_KEY: 'password' }), /RUNNER_SNAPSHOT_KEY.*age-keygen/);
  const mistyped = first.replace(/.$/, (last) => (last === 'Q' ? 'P' : 'Q'));
  const { snapshots } = startSnapshots(t, { place: { directory: paths.root, keys: [mistyped] } });
  await snapshots.start();
  assert.match(
    snapshots.state.problem ?? '',
    /^RUNNER_SNAPSHOT_KEY has a key that is not an age identity; `age-keygen` makes one$/,
  );
  await assert.rejects(snapshots.take('a test'), /^Error: RUNNER_SNAPSHOT_KEY has a key/);
});

/** Asserts that no object of a place contains one of `secrets`. */
function assertUnreadable(directory: string, secrets: (string | Buffer)[]): void {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((each) =>
    each.isFile(),
  );
  assert.ok(files.length >= 4);
  for (const { name, parentPath } of files) {
    const bytes = readFileSync(join(parentPath, name));
    for (const secret of secrets) assert.ok(!bytes.includes(secret), `${name} has ${secret}`);
  }
}
