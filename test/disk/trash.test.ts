// Runs as root too.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import {
  emptyTrash,
  emptyTrashUntil,
  moveToTrash,
  removeWhole,
  takeFromTrash,
} from '../../runtime/disk/trash.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('a deleted app’s data is kept for seven days', async (t) => {
  const root = temporaryDirectory(t);
  const trash = join(root, 'trash');
  mkdirSync(join(root, 'data'));
  writeFileSync(join(root, 'data', 'kept'), '');
  moveToTrash(trash, 'app', { data: join(root, 'data'), releases: join(root, 'none') });
  assert.deepEqual(readdirSync(root), ['trash']);
  const [place] = readdirSync(trash);
  assert.deepEqual(readdirSync(join(trash, place!)), ['data']);
  const day = 24 * 60 * 60_000;
  await emptyTrash(trash, Date.now() + 6.9 * day);
  assert.equal(readdirSync(trash).length, 1);
  await emptyTrash(trash, Date.now() + 7.1 * day);
  assert.deepEqual(readdirSync(trash), []);
});

test('data is taken back from the trash as a whole, or not at all', async (t) => {
  const root = temporaryDirectory(t);
  const [trash, data] = [join(root, 'trash'), join(root, 'data')];
  mkdirSync(data);
  writeFileSync(join(data, 'kept'), '');
  for (const at of [5, 6]) {
    moveToTrash(trash, 'app', { data }, at);
    assert.ok(takeFromTrash(trash, 'app', { data }, at));
    assert.deepEqual(readdirSync(data), ['kept']);
  }
  moveToTrash(trash, 'app', { data }, 7);
  const emptied = emptyTrashUntil(async () => false, trash);
  while (readdirSync(trash).includes('app-7')) await setImmediate();
  assert.deepEqual(readdirSync(trash), ['app-7-0'], 'its removal has begun');
  assert.equal(takeFromTrash(trash, 'app', { data }, 7), false);
  assert.ok(!existsSync(data));
  await emptied;
  assert.deepEqual(readdirSync(trash), []);
});

test('a directory is removed as a whole, and at once', async (t) => {
  const root = temporaryDirectory(t);
  const [trash, path] = [join(root, 'trash'), join(root, 'app.git')];
  mkdirSync(join(path, 'objects'), { recursive: true });
  const removed = removeWhole(trash, path);
  assert.ok(!existsSync(path));
  await removed;
  assert.deepEqual(readdirSync(trash), []);
});

test('what a killed removal leaves is in the trash, and does not stay for a week', async (t) => {
  const root = temporaryDirectory(t);
  const [trash, path] = [join(root, 'trash'), join(root, 'app.git')];
  mkdirSync(join(path, 'objects'), { recursive: true });
  const module = JSON.stringify(new URL('../../runtime/disk/trash.ts', import.meta.url).href);
  const script = `import { removeWhole } from ${module};
    void removeWhole(${JSON.stringify(trash)}, ${JSON.stringify(path)});
    process.kill(process.pid, 'SIGKILL');`;
  const { signal } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    timeout: 60_000,
  });
  assert.equal(signal, 'SIGKILL');
  assert.ok(!existsSync(path));
  assert.deepEqual(readdirSync(join(trash, readdirSync(trash)[0]!)), ['objects']);
  await emptyTrash(trash);
  assert.deepEqual(readdirSync(trash), []);
});
