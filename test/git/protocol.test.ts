// The transfer modes of stock git: chunked and gzipped bodies, old and new protocol, shallow and partial clones.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { RefUpdate } from '../../runtime/git/smart-http.ts';
import { gitIn, remote } from '../support/git/remote.ts';

type Git = ReturnType<typeof gitIn>;

async function commitFile(git: Git, work: string, path: string, content: Buffer | string): Promise<void> {
  writeFileSync(join(work, path), content);
  await git('add', '.');
  await git('commit', '--quiet', `--message=add ${path}`);
}

test('hundreds of refs in one push are reported in one call, main among them', async (t) => {
  const pushes: RefUpdate[][] = [];
  const { git, url, repository } = await remote(t, (updates, output) => {
    pushes.push(updates);
    output.end('seen\n');
  });
  await git('commit', '--quiet', '--allow-empty', '--message=first');
  const names = Array.from({ length: 300 }, (_, n) => `HEAD:refs/heads/branch-${n}-${'ü'.repeat(20)}`);
  const { code, printed } = await git('push', url, ...names, 'HEAD:main');
  assert.equal(code, 0, printed);
  assert.equal(pushes.length, 1);
  assert.equal(pushes[0]!.length, 301);
  assert.ok(pushes[0]!.some(({ ref }) => ref === 'refs/heads/main'));
  assert.ok(pushes[0]!.every(({ ref }) => !ref.includes('\ufffd')));
  const kept = (await gitIn(repository)('for-each-ref', '--format=%(refname)')).printed.trim().split('\n');
  assert.equal(kept.length, 301);
});

test('a push without objects, and one that changes nothing, succeed', async (t) => {
  let pushes = 0;
  const { git, url } = await remote(t, (_, output) => {
    pushes++;
    output.end();
  });
  await git('commit', '--quiet', '--allow-empty', '--message=first');
  await git('push', url, 'HEAD:side');
  const known = await git('push', url, 'HEAD:main');
  assert.equal(known.code, 0, known.printed);
  assert.equal(pushes, 2);
  const nothing = await git('push', url, 'HEAD:main');
  assert.equal(nothing.code, 0);
  assert.match(nothing.printed, /Everything up-to-date/);
  assert.equal(pushes, 2);
});

test('a body larger than the post buffer is sent chunked, after a probe', async (t) => {
  const { git, url, work, seen } = await remote(t);
  await commitFile(git, work, 'random.bin', randomBytes(3 * 1024 * 1024));
  const { code, printed } = await git('-c', 'http.postBuffer=65536', 'push', url, 'HEAD:main');
  assert.equal(code, 0, printed);
  const posts = seen.filter(({ path }) => path === 'git-receive-pack');
  assert.ok(posts.some(({ headers }) => headers['transfer-encoding'] === 'chunked'));
  assert.ok(posts.some(({ headers }) => headers['content-length'] === '4'));
});

test('a fetch that wants much sends a gzipped request, in the old protocol and the new', async (t) => {
  const { git, url, work, seen, directory } = await remote(t);
  for (let n = 0; n < 40; n++) await commitFile(git, work, `${n}.txt`, `${n}`);
  const branches = Array.from({ length: 40 }, (_, n) => `HEAD~${n}:refs/heads/branch-${n}`);
  assert.equal((await git('push', url, ...branches)).code, 0);
  for (const version of ['0', '2']) {
    const copy = join(directory, `copy-${version}`);
    await git('init', '--quiet', copy);
    const from = seen.length;
    const words = ['-c', `protocol.version=${version}`, 'fetch', url, 'refs/heads/*:refs/remotes/all/*'];
    const fetched = await gitIn(copy)(...words);
    assert.equal(fetched.code, 0, fetched.printed);
    const asked = seen.slice(from);
    assert.equal(asked[0]!.headers['git-protocol'], version === '2' ? 'version=2' : undefined);
    assert.ok(
      asked.some(({ headers }) => headers['content-encoding'] === 'gzip'),
      `version ${version}`,
    );
    const listed = await gitIn(copy)('ls-tree', '--name-only', 'refs/remotes/all/branch-0');
    assert.match(listed.printed, /^39\.txt$/m);
  }
});

test('shallow and partial clones have what they asked for and fetch the rest on demand', async (t) => {
  const { git, url, work, directory } = await remote(t);
  for (let n = 0; n < 5; n++) await commitFile(git, work, 'file.txt', `content ${n}\n`);
  mkdirSync(join(work, 'deep'));
  await commitFile(git, work, 'deep/large.bin', randomBytes(200_000));
  await git('push', url, 'HEAD:main');

  const shallow = join(directory, 'shallow');
  assert.equal((await git('clone', '--quiet', '--depth=2', url, shallow)).code, 0);
  assert.equal((await gitIn(shallow)('rev-list', '--count', 'HEAD')).printed.trim(), '2');
  assert.equal((await gitIn(shallow)('fetch', '--quiet', '--unshallow')).code, 0);
  assert.equal((await gitIn(shallow)('rev-list', '--count', 'HEAD')).printed.trim(), '6');
  await gitIn(shallow)('commit', '--quiet', '--allow-empty', '--message=from shallow');
  assert.equal((await gitIn(shallow)('push', url, 'HEAD:main')).code, 0);

  const partial = join(directory, 'partial');
  const cloned = await git('clone', '--quiet', '--no-checkout', '--filter=blob:none', url, partial);
  assert.equal(cloned.code, 0, cloned.printed);
  assert.doesNotMatch(cloned.printed, /filtering not recognized/);
  const missing = await gitIn(partial)('rev-list', '--objects', '--missing=print', 'HEAD');
  assert.match(missing.printed, /^\?[0-9a-f]{40}$/m);
  assert.match((await gitIn(partial)('show', 'HEAD:file.txt')).printed, /content 4/);
});

test('of two concurrent pushes one succeeds, and git reports the rejection of the other', async (t) => {
  const { git, url, directory } = await remote(t);
  await git('commit', '--quiet', '--allow-empty', '--message=first');
  await git('push', url, 'HEAD:main');
  const clones = await Promise.all(
    ['one', 'two', 'three'].map(async (name) => {
      const path = join(directory, name);
      await git('clone', '--quiet', url, path);
      await gitIn(path)('commit', '--quiet', '--allow-empty', `--message=${name}`);
      return gitIn(path);
    }),
  );
  const results = await Promise.all(clones.map((clone) => clone('push', url, 'HEAD:main')));
  assert.equal(results.filter(({ code }) => code === 0).length, 1);
  for (const { code, printed } of results) {
    if (code !== 0) assert.match(printed, /rejected/, printed);
  }
  const tip = (await git('ls-remote', url, 'refs/heads/main')).printed.slice(0, 40);
  const heads = await Promise.all(clones.map((clone) => clone('rev-parse', 'HEAD')));
  assert.equal(
    heads.findIndex(({ printed }) => printed.trim() === tip),
    results.findIndex(({ code }) => code === 0),
  );
});
