// What a killed host or a power cut leaves in repositories.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { BranchChanges } from '../../runtime/git/branch-changes.ts';
import { commitFiles } from '../../runtime/git/commit.ts';
import { gitEnvironment } from '../../runtime/git/environment.ts';
import { createRepository, removeCutPushes, removeLocks } from '../../runtime/git/repository.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('the objects of interrupted pushes are removed, and nothing else', async (t) => {
  const repositories = join(temporaryDirectory(t), 'repos');
  const objects = join(repositories, 'app.git', 'objects');
  await createRepository(join(repositories, 'app.git'));
  const before = readdirSync(objects);
  for (const name of ['tmp_objdir-incoming-aaaaaa', 'incoming-bbbbbb']) {
    mkdirSync(join(objects, name, 'pack'), { recursive: true });
    writeFileSync(join(objects, name, 'pack', 'tmp_pack_cccccc'), 'PACK');
  }
  mkdirSync(join(repositories, 'app.git', 'refs', 'heads', 'incoming-dddddd'), { recursive: true });
  await removeCutPushes(join(repositories, 'app.git'), () => true);
  assert.equal(readdirSync(objects).length, before.length + 2, 'a push under way is left alone');
  await removeCutPushes(join(repositories, 'app.git'), () => false);
  assert.deepEqual(readdirSync(objects), before);
  assert.deepEqual(readdirSync(join(repositories, 'app.git', 'refs', 'heads')), ['incoming-dddddd']);
});

test('locks that a killed git left are removed after the last change, and no lock is removed during a change', async (t) => {
  const repository = join(temporaryDirectory(t), 'app.git');
  await createRepository(repository);
  mkdirSync(join(repository, 'refs', 'heads', 'a'));
  const inRefs = ['refs/heads/main.lock', 'refs/heads/a/b.lock'];
  const locks = ['HEAD.lock', 'packed-refs.lock', 'packed-refs.new', ...inRefs];
  const others = ['refs/heads/a/lock', 'config.lock'];
  const left = () => [...locks, ...others].filter((name) => existsSync(join(repository, name)));
  let removing: Promise<void> | null = null;
  const changes: BranchChanges = new BranchChanges((id) => {
    removing = removeLocks(repository, () => changes.has(id));
  });
  for (const name of [...locks, ...others]) writeFileSync(join(repository, name), '');
  const [one, other] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const during = [one, other].map(({ promise }) => changes.during('app', promise));
  one.resolve();
  await during[0];
  assert.equal(removing, null, 'another change may hold a lock');
  other.resolve();
  await during[1];
  // Another change begins before the locks are removed.
  const later = Promise.withResolvers<void>();
  const last = changes.during('app', later.promise);
  await removing;
  assert.deepEqual(left(), [...locks, ...others]);
  later.resolve();
  await last;
  await removing;
  assert.deepEqual(left(), others);
});

test('a missing repository has nothing to remove, and that is no error', async (t) => {
  await removeCutPushes(join(temporaryDirectory(t), 'none'), () => false);
  await removeLocks(join(temporaryDirectory(t), 'none'), () => false);
});

test('an object is synced when git has written it', async (t) => {
  const directory = temporaryDirectory(t);
  const repository = join(directory, 'app.git');
  await createRepository(repository);
  const events = join(directory, 'events');
  const env = { ...gitEnvironment(), GIT_TRACE2_EVENT: events };
  const { status } = spawnSync('git', ['hash-object', '-w', '--stdin'], { cwd: repository, env, input: 'a' });
  assert.equal(status, 0);
  assert.match(readFileSync(events, 'utf8'), /"category":"fsync","key":"fsync\/hardware-flush"/);
});

test('the files of a commit are synced together', async (t) => {
  const directory = temporaryDirectory(t);
  const repository = join(directory, 'app.git');
  await createRepository(repository);
  const events = join(directory, 'events');
  const path = process.env.PATH!;
  t.after(() => {
    process.env.PATH = path;
  });
  // Git's environment is set by Cellar: a `git` wrapper before the real one adds the trace.
  const traced = `#!/bin/sh\nPATH='${path}' GIT_TRACE2_EVENT='${events}' exec git "$@"\n`;
  mkdirSync(join(directory, 'bin'));
  writeFileSync(join(directory, 'bin', 'git'), traced, { mode: 0o755 });
  process.env.PATH = `${join(directory, 'bin')}:${path}`;
  const change = { mode: null, delete: false, from: null };
  const files = Array.from({ length: 50 }, (_, n) => ({
    path: `${n}`,
    content: Buffer.from(`${n}`),
    ...change,
  }));
  const author = { name: 'One', email: 'one@example.com' };
  await commitFiles(repository, directory, { message: 'm', author, parent: null, files });
  const flushes = [...readFileSync(events, 'utf8').matchAll(/"fsync\/hardware-flush","value":"(\d+)"/g)];
  const count = flushes.reduce((sum, [, value]) => sum + Number(value), 0);
  assert.ok(count > 0 && count < 20, `${count} flushes`);
});
