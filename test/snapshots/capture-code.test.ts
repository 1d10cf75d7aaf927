// Snapshots of code, on the disk and in the bucket: taken while the code changes, and put back.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { codePlace } from '../../runtime/bucket/code/code-names.ts';
import { S3Store } from '../../runtime/bucket/s3-store.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { restoreCode } from '../../runtime/snapshots/restore/code.ts';
import { extract } from '../../runtime/snapshots/restore/extract.ts';
import type { FileEntry } from '../../runtime/snapshots/store/manifest.ts';
import { PackWriter } from '../../runtime/snapshots/store/packs.ts';
import { openStore } from '../../runtime/snapshots/store/place.ts';
import { Capture } from '../../runtime/snapshots/take/capture.ts';
import { captureRelease, captureRepository } from '../../runtime/snapshots/take/capture-code.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { commit } from '../support/builds/projects.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const FOLDER = 'of/cellar/apps/app1/';

function write(store: MemoryStore, name: string, content: string): void {
  const body = Buffer.from(content);
  store.objects.set(FOLDER + name, { body, etag: `"${content}"`, at: new Date().toISOString() });
}

/** Names of packs, as git makes them. */
const [ONE, TWO, THREE, ALL, NEWER, LEFT] = [...'123456'].map((digit) => `pack-${digit.repeat(40)}`) as [
  string,
  string,
  string,
  string,
  string,
  string,
];

function writeRefs(store: MemoryStore, ...packs: string[]): void {
  const refs = { 'refs/heads/main': 'a'.repeat(40) };
  write(store, 'repository/refs.json', JSON.stringify({ format: 1, refs, packs }));
}

/** Returns the store of a part, and a capture that remembers what it read. */
function capturing(store: MemoryStore, part: 'repository' | 'releases', before: FileEntry[] = []) {
  const read: Record<string, string> = {};
  let onAdd = (_name: string) => {};
  const capture = {
    before: (name: string) => before.find(({ path }) => path === name),
    add: async (path: string, stamp: string, size: number, content: AsyncIterable<Buffer>) => {
      read[path] = await text(content);
      onAdd(path);
      return { path, stamp, size, mode: 0o600, chunks: [] };
    },
  };
  return {
    from: new S3Store(codePlace(store.place('of/cellar/'), 'app1', part)),
    capture,
    read,
    whenAdded: (then: (name: string) => void) => {
      onAdd = then;
    },
  };
}

const names = (files: FileEntry[] | null) => files?.map(({ path }) => path).sort();

test('refs have all their packs, also when these are made one meanwhile, and known packs are not read', async () => {
  await using store = await new MemoryStore().start();
  for (const pack of [ONE, TWO, LEFT]) write(store, `repository/packs/${pack}.pack`, pack);
  writeRefs(store, ONE, TWO);
  const first = capturing(store, 'repository');
  const files = await captureRepository(first.from, first.capture);
  assert.deepEqual(names(files), [`packs/${ONE}.pack`, `packs/${TWO}.pack`, 'refs.json']);
  write(store, `repository/packs/${THREE}.pack`, 'three');
  writeRefs(store, ONE, TWO, THREE);
  const second = capturing(store, 'repository', files!);
  await captureRepository(second.from, second.capture);
  assert.deepEqual(Object.keys(second.read), [`packs/${THREE}.pack`, 'refs.json']);
  const third = capturing(store, 'repository');
  third.whenAdded(() => {
    third.whenAdded(() => {});
    write(store, `repository/packs/${ALL}.pack`, 'all');
    writeRefs(store, ALL);
    for (const pack of [ONE, TWO, THREE]) store.objects.delete(`${FOLDER}repository/packs/${pack}.pack`);
  });
  assert.deepEqual(names(await captureRepository(third.from, third.capture)), [
    `packs/${ALL}.pack`,
    'refs.json',
  ]);
  store.objects.delete(`${FOLDER}repository/packs/${ALL}.pack`);
  await assert.rejects(captureRepository(third.from, third.capture), /pack-4+\.pack is missing/);
});

test('code that the bucket does not have is said to be missing', async () => {
  await using store = await new MemoryStore().start();
  const repository = capturing(store, 'repository');
  assert.equal(await captureRepository(repository.from, repository.capture), null);
  const releases = capturing(store, 'releases');
  write(store, 'releases/d10.tar.gz', 'another');
  assert.equal(await captureRelease(releases.from, 'd1', releases.capture), null);
  write(store, 'releases/d1.tar.gz', 'a release');
  assert.equal((await captureRelease(releases.from, 'd1', releases.capture))?.path, 'd1.tar.gz');
  assert.deepEqual(releases.read, { 'd1.tar.gz': 'a release' });
});

test('restored code is in the bucket, unless that has newer code', async (t) => {
  await using store = await new MemoryStore().start();
  const directory = temporaryDirectory(t);
  const put = (name: string, content: string) => {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), content);
  };
  const refs = JSON.stringify({ format: 1, refs: {}, packs: [ONE] });
  put('app1/repository/refs.json', refs);
  put(`app1/repository/packs/${ONE}.pack`, 'one');
  put('app1/releases/d1.tar.gz', 'a release');
  const place = store.place('of/cellar/');
  store.faults = { losesReplies: true };
  const restoring = restoreCode(place, directory);
  store.faults = {};
  await restoring;
  const body = (name: string) => store.objects.get(FOLDER + name)?.body.toString();
  assert.equal(body('repository/refs.json'), refs);
  assert.deepEqual([body(`repository/packs/${ONE}.pack`), body('releases/d1.tar.gz')], ['one', 'a release']);
  writeRefs(store, NEWER);
  store.objects.delete(`${FOLDER}repository/packs/${ONE}.pack`);
  await restoreCode(place, directory);
  assert.match(body('repository/refs.json')!, /pack-5/);
  assert.equal(body(`repository/packs/${ONE}.pack`), undefined);
  await restoreCode(place, join(directory, 'none'));
});

test('branches and tags on the disk are restored whatever their names are, and unfinished files are left out', async (t) => {
  const directory = temporaryDirectory(t);
  const paths = layout(join(directory, 'data'));
  const { repository, sha } = commit(directory, { 'index.html': 'x' });
  const path = paths.repository('app1');
  cpSync(repository, path, { recursive: true });
  const git = (to: string, ...words: string[]) =>
    execFileSync('git', ['--git-dir', to, ...words], { encoding: 'utf8' });
  const refs = [
    'heads/incoming-orders',
    'heads/main',
    'heads/packed-refs.new',
    'heads/tmp_/a',
    'tags/tmp_v1',
    'tags/v1/incoming-a',
  ];
  for (const ref of refs) git(path, 'update-ref', `refs/${ref}`, sha);
  const unfinished = [
    'refs/heads/main.lock',
    'packed-refs.new',
    'tmp_bucket/a',
    'objects/pack/tmp_pack_a',
    'objects/incoming-a/b',
  ];
  for (const name of unfinished) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), '');
  }
  const store = openStore({ directory: join(directory, 'store') });
  const packs = new PackWriter(store, []);
  const capture = new Capture({ paths, packs, bucket: null, holdBuckets: async () => {}, before: [] });
  const app = { id: 'app1', slug: 'a', liveDeployId: null, user: null, isInBucket: false };
  const { files } = await capture.app(app);
  await packs.finish();
  const restored = layout(join(directory, 'restored'));
  await extract(store, files, restored.root);
  const listed = git(restored.repository('app1'), 'for-each-ref', '--format=%(refname) %(objectname)');
  assert.deepEqual(
    listed.split('\n').filter(Boolean),
    refs.map((ref) => `refs/${ref} ${sha}`),
  );
  const left = unfinished.filter((name) => existsSync(join(restored.repository('app1'), name)));
  assert.deepEqual(left, []);
});
