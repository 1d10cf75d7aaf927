// Forged manifests: the checksum is right, but somebody with write access to the snapshots made them.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type FileEntry, idAt, readManifest, writeManifest } from '../../runtime/snapshots/store/manifest.ts';
import { PackWriter } from '../../runtime/snapshots/store/packs.ts';
import { openStore } from '../../runtime/snapshots/store/place.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('a manifest with a path that leads elsewhere, or with impossible rights, is refused', async (t) => {
  const { chunk, readWith } = await written(t);
  assert.equal(await readWith({ chunks: [chunk] }), 'data/a/x');
  for (const path of ['../x', 'data/../../x', '/etc/x', 'data//x', './x', '', '..', 'data/a\0b', 'data/..'])
    await assert.rejects(readWith({ path }), /damaged/, JSON.stringify(path));
  for (const mode of [0o4755, -1]) await assert.rejects(readWith({ mode }), /damaged/, String(mode));
});

test('a manifest with an invalid chunk hash, or a chunk outside its pack, is refused', async (t) => {
  const { chunk, readWith } = await written(t);
  const wrong: object[] = [
    { hash: '../x' },
    { hash: chunk.hash.toUpperCase() },
    { hash: 1 },
    { pack: '../x' },
  ];
  for (const name of ['offset', 'length', 'size'])
    for (const value of [-1, 0.5, 2 ** 53, '1', null]) wrong.push({ [name]: value });
  for (const change of wrong)
    await assert.rejects(readWith({ chunks: [{ ...chunk, ...change }] }), /damaged/, JSON.stringify(change));
});

/** Returns a chunk that a pack has, and a function that writes and reads back a manifest of one file. */
async function written(t: TestContext) {
  const store = openStore({ directory: temporaryDirectory(t) });
  const packs = new PackWriter(store, []);
  const chunk = await packs.add(Buffer.from('a'));
  await packs.finish();
  const created = new Date();
  const about = { id: idAt(created), of: 'one', created_at: created.toISOString(), why: 'a test' };
  const readWith = async (changes: Partial<FileEntry>) => {
    const file = { path: 'data/a/x', size: 1, mode: 0o600, stamp: '', chunks: [chunk], ...changes };
    const part = { kind: 'app' as const, id: 'a', slug: 'a', files: [file] };
    await writeManifest(store, { ...about, written: 0, bytes: 1, apps: 1, failures: [] }, [part]);
    const { parts } = await readManifest(store, about.id);
    return parts[0]!.files[0]!.path;
  };
  return { chunk, readWith };
}
