// Which old snapshots are removed, and which stay.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { generateX25519Identity } from 'age-encryption';
import {
  idAt,
  listSnapshots,
  manifestName,
  type Part,
  writeManifest,
} from '../../runtime/snapshots/store/manifest.ts';
import { type Chunk, PackReader, PackWriter, packName } from '../../runtime/snapshots/store/packs.ts';
import { openStore } from '../../runtime/snapshots/store/place.ts';
import { repack } from '../../runtime/snapshots/take/repack.ts';
import {
  BEFORE_DELETED_CLASSES,
  HOURLY,
  removeOld,
  removeUnneeded,
} from '../../runtime/snapshots/take/retention.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('snapshots requested by deploys do not push out the others', async (t) => {
  const store = openStore({ directory: temporaryDirectory(t) });
  const now = Date.now();
  const write = async (minute: number, why: string) => {
    const created = new Date(now + minute * 60_000);
    const about = { id: idAt(created), of: 'one', created_at: created.toISOString(), why };
    await writeManifest(store, { ...about, written: 0, bytes: 0, apps: 0, failures: [] }, []);
    return about.id;
  };
  const ids: string[] = [];
  for (const minute of [0, 1, 2]) ids.push(await write(minute, 'schedule'));
  for (const minute of [3, 4, 5, 6]) ids.push(await write(minute, `${BEFORE_DELETED_CLASSES} of many`));
  const keep = { count: 2, hourly: 3, days: 0, youngMs: 0 };
  await removeOld(store, keep, { hourlyBytes: 1_000, warn: assert.fail });
  assert.deepEqual(await listSnapshots(store), [ids[1], ids[2], ids[5], ids[6]]);
});

test('hourly snapshots are counted by themselves, and have a limit in bytes', async (t) => {
  const store = openStore({ directory: temporaryDirectory(t) });
  // Midnight in UTC, so that all snapshots but the last one below are of the same day.
  const now = Date.UTC(2026, 10, 22);
  const write = async (minute: number, why: string, written: number) => {
    const created = new Date(now + minute * 60_000);
    const about = { id: idAt(created), of: 'one', created_at: created.toISOString(), why };
    await writeManifest(store, { ...about, written, bytes: 0, apps: 0, failures: [] }, []);
    return about.id;
  };
  const keep = { count: 2, hourly: 3, days: 0, youngMs: -1_000 };
  const remove = () => removeOld(store, keep, { hourlyBytes: 1_000, warn: assert.fail });
  await store.write(packName('0'.repeat(64)), Buffer.from('needed by nobody'));
  const packs = async () => (await store.list(packName(''))).length;
  const ids: string[] = [];
  for (const minute of [0, 1, 2]) ids.push(await write(minute, 'schedule', 5_000));
  for (const minute of [3, 4, 5, 6]) ids.push(await write(minute, HOURLY, 100));
  await remove();
  assert.deepEqual(await listSnapshots(store), [ids[1], ids[2], ids[4], ids[5], ids[6]]);
  assert.equal(await packs(), 1, 'an hourly one leaves packs alone');
  ids.push(await write(7, HOURLY, 850));
  await remove();
  assert.deepEqual(await listSnapshots(store), [ids[1], ids[2], ids[6], ids[7]]);
  assert.equal(await packs(), 0, 'except when it needs the space');
  await store.write(packName('0'.repeat(64)), Buffer.from('needed by nobody'));
  ids.push(await write(8, 'schedule', 5_000));
  await remove();
  assert.deepEqual(await listSnapshots(store), [ids[2], ids[6], ids[7], ids[8]]);
  assert.equal(await packs(), 0);
  await store.write(packName('0'.repeat(64)), Buffer.from('needed by nobody'));
  ids.push(await write(24 * 60, HOURLY, 0));
  await remove();
  assert.equal(await packs(), 0, 'and except for the first of a day');
});

test('snapshots that cannot be read stay until enough newer ones replace them', async (t) => {
  const directory = temporaryDirectory(t);
  const store = openStore({ directory });
  const [key, other] = [await generateX25519Identity(), await generateX25519Identity()];
  const [before, after] = [openStore({ directory, keys: [key] }), openStore({ directory, keys: [other] })];
  const write = async (to: typeof store, minute: number, why: string) => {
    const created = new Date(Date.UTC(2026, 10, 22) + minute * 60_000);
    const about = { id: idAt(created), of: 'one', created_at: created.toISOString(), why };
    await writeManifest(to, { ...about, written: 0, bytes: 0, apps: 0, failures: [] }, []);
    return about.id;
  };
  const keep = { count: 2, hourly: 3, days: 0, youngMs: 0 };
  const warnings: string[] = [];
  const warn = (each: string) => void warnings.push(each);
  const remove = () => removeOld(after, keep, { hourlyBytes: 1_000, warn });
  const locked: string[] = [];
  for (const minute of [0, 1]) locked.push(await write(before, minute, 'schedule'));
  for (const minute of [2, 3, 4]) locked.push(await write(before, minute, HOURLY));
  const first = await write(after, 5, 'schedule');
  assert.deepEqual(await remove(), [], 'ordinary ones may be among them');
  await removeUnneeded(after, keep.youngMs, warn);
  assert.match(warnings.join(), /^unused packs were not removed: .* is encrypted with another key/);
  const second = await write(after, 6, 'schedule');
  assert.deepEqual(await remove(), locked);
  assert.deepEqual(await listSnapshots(store), [first, second]);
});

test('the newest snapshot that can be read stays, however old, and so do all after it', async (t) => {
  const directory = temporaryDirectory(t);
  const [store, locked] = [
    openStore({ directory }),
    openStore({ directory, keys: [await generateX25519Identity()] }),
  ];
  const ids: string[] = [];
  for (const to of [store, store, locked]) {
    const created = new Date(Date.now() - (10 - ids.length) * 24 * 3_600_000);
    const about = { id: idAt(created), of: 'one', created_at: created.toISOString(), why: 'schedule' };
    await writeManifest(to, { ...about, written: 0, bytes: 0, apps: 0, failures: [] }, []);
    ids.push(about.id);
  }
  const keep = { count: 3, hourly: 3, days: 1, youngMs: 0 };
  await removeOld(store, keep, { hourlyBytes: 1_000, warn: () => {} });
  assert.deepEqual(await listSnapshots(store), ids.slice(1));
});

test('files of other programs beside the snapshots stay, and do not count as snapshots', async (t) => {
  const store = openStore({ directory: temporaryDirectory(t) });
  const ids = [0, 1, 2].map((minute) => idAt(new Date(Date.UTC(2026, 10, 22) + minute * 60_000)));
  for (const id of ids) {
    const about = { id, of: 'one', created_at: '2026-11-22T00:00:00.000Z', why: 'schedule' };
    await writeManifest(store, { ...about, written: 0, bytes: 0, apps: 0, failures: [] }, []);
  }
  const others = ['.DS_Store', `${ids[2]}.bak`, 'Thumbs.db'].map(manifestName);
  for (const name of others) await store.write(name, Buffer.from('of another program'));
  await store.write(packName('0'.repeat(64)), Buffer.from('needed by nobody'));
  const keep = { count: 1, hourly: 0, days: 0, youngMs: -1_000 };
  const removed = await removeOld(store, keep, { hourlyBytes: 1_000, warn: assert.fail });
  assert.deepEqual(removed, ids.slice(0, 2));
  assert.deepEqual(await listSnapshots(store), ids.slice(2));
  const left = (await store.list(manifestName(''))).map(({ name }) => name);
  assert.deepEqual(left, [...others, manifestName(ids[2]!)].sort());
  assert.deepEqual(await store.list(packName('')), []);
});

test('nothing is removed while the store does not answer', async (t) => {
  const directory = temporaryDirectory(t);
  const store = openStore({ directory });
  const ids = [0, 1, 2].map((minute) => idAt(new Date(Date.UTC(2026, 10, 22) + minute * 60_000)));
  for (const id of ids) {
    const about = { id, of: 'one', created_at: '2026-11-22T00:00:00.000Z', why: 'schedule' };
    await writeManifest(store, { ...about, written: 0, bytes: 0, apps: 0, failures: [] }, []);
  }
  t.mock.method(store, 'openStart', async () => {
    throw new Error('the bucket does not answer');
  });
  const warnings: string[] = [];
  const keep = { count: 1, hourly: 0, days: 0, youngMs: 0 };
  await removeOld(store, keep, {
    hourlyBytes: 1_000,
    warn: (each) => void warnings.push(each),
  });
  assert.deepEqual(await listSnapshots(store), ids);
  assert.deepEqual(warnings, ['old snapshots were not removed: the bucket does not answer']);
});

test('the live chunks of a nearly dead pack are rewritten, and the pack goes with its last full snapshot', async (t) => {
  const store = openStore({ directory: temporaryDirectory(t) });
  const contents = Array.from({ length: 10 }, () => randomBytes(1_000));
  const first = new PackWriter(store, []);
  const chunks: Chunk[] = [];
  for (const content of contents) chunks.push(await first.add(content));
  await first.finish();
  const [old] = await store.list(packName(''));
  const sizes = new Map([[old!.name, old!.bytes]]);
  const partOf = (numbers: number[]): Part => ({
    ...{ kind: 'app', id: 'a', slug: 'a' },
    files: numbers.map((n) => ({
      ...{ path: `f${n}`, size: 2_000, mode: 0o600, stamp: '' },
      chunks: [chunks[n]!, chunks[n]!],
    })),
  });
  const now = Date.now();
  const snapshot = async (minute: number, numbers: number[]) => {
    const packs = new PackWriter(store, chunks);
    const part = partOf(numbers);
    await repack(store, packs, [part], { sizes, warn: assert.fail });
    await packs.finish();
    const created = new Date(now + minute * 60_000);
    const about = { id: idAt(created), of: 'one', created_at: created.toISOString(), why: 'schedule' };
    await writeManifest(store, { ...about, written: 0, bytes: 0, apps: 1, failures: [] }, [part]);
    return { part, written: packs.written };
  };
  await snapshot(0, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  const half = await snapshot(1, [0, 1, 2, 3, 4]);
  assert.equal(half.written, 0);
  const { part, written } = await snapshot(2, [3, 7]);
  assert.equal(written, 2_000);
  const reader = new PackReader(store);
  for (const [index, n] of [3, 7].entries())
    for (const chunk of part.files[index]!.chunks) assert.ok((await reader.read(chunk)).equals(contents[n]!));
  const names = async () => (await store.list(packName(''))).map(({ name }) => name);
  const clean = (count: number) =>
    removeOld(
      store,
      { count, hourly: 0, days: 0, youngMs: -1_000 },
      { hourlyBytes: 1_000, warn: assert.fail },
    );
  await clean(2);
  assert.ok((await names()).includes(old!.name), 'a snapshot needs it still');
  await clean(1);
  assert.deepEqual(await names(), [packName(part.files[0]!.chunks[0]!.pack)]);
});
