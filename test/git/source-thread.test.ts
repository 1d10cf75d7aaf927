// Hostile repositories, read and changed in a thread.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { moveMain } from '../../runtime/git/commit.ts';
import { DEPLOY_REF } from '../../runtime/git/repository.ts';
import {
  commitBody,
  diffCommits,
  findEntry,
  listTree,
  sourceThreads,
} from '../../runtime/git/source-thread.ts';
import { Refusal } from '../../runtime/refusal.ts';
import { eventually, processes } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

after(() => sourceThreads.close());

const IDENTITY = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
const ALL = { path: '', recursive: true, offset: 0, limit: 2 };

/** Makes a repository whose main has a few trees that name `width ** levels` files. */
function makeRepository(t: TestContext, width: number, levels: number) {
  const directory = temporaryDirectory(t);
  const repository = join(directory, 'repository');
  execFileSync('git', ['init', '--quiet', '--bare', repository]);
  const git = (words: string[], input = '') =>
    execFileSync('git', ['--git-dir', repository, ...words], { input, encoding: 'utf8' }).trim();
  let entry = `100644 blob ${git(['hash-object', '-w', '--stdin'])}`;
  let tree = '';
  for (let level = 0; level < levels; level++) {
    const entries = Array.from({ length: width }, (_, n) => `${entry}\tentry-${n}\n`);
    tree = git(['mktree'], entries.join(''));
    entry = `040000 tree ${tree}`;
  }
  const sha = git([...IDENTITY, 'commit-tree', '-m', 'A commit', tree]);
  git(['update-ref', DEPLOY_REF, sha]);
  const scratch = join(directory, 'scratch');
  mkdirSync(scratch);
  const head = {
    message: 'more',
    author: { name: 'Ada', email: 'ada@example.com' },
    parent: null,
    files: [{ path: 'new', bytes: 3, mode: null, delete: false, from: null }],
  };
  const commit = async () =>
    (await commitBody(undefined, repository, scratch, Buffer.from(`${JSON.stringify(head)}\nabc`))).sha;
  return { repository, sha, git, commit };
}

test('a tree is listed in parts, and a commit made, in a thread', async (t) => {
  const { repository, sha, git, commit } = makeRepository(t, 3, 2);
  const { items, more } = await listTree(undefined, repository, sha, { ...ALL, offset: 1 });
  assert.deepEqual([items.map(({ path }) => path), more], [['entry-0/entry-1', 'entry-0/entry-2'], true]);
  const made = await commit();
  await moveMain(repository, { sha: made, before: sha });
  assert.equal(git(['rev-parse', DEPLOY_REF]), made);
  await assert.rejects(moveMain(repository, { sha, before: sha }), { code: 'commit_conflict' });
  assert.equal(git(['show', `${made}:new`]), 'abc');
  await assert.rejects(findEntry(undefined, repository, made, 'none'), (error) => {
    assert.ok(error instanceof Refusal);
    assert.deepEqual([error.status, error.code], [404, 'path_not_found']);
    return true;
  });
});

for (const [width, levels] of [
  [320, 2],
  [38, 4],
] as const) {
  test(`${width ** levels} files in a few trees are refused, listed or committed to`, async (t) => {
    const { repository, sha, commit } = makeRepository(t, width, levels);
    const most = /the commit has more than 100000 files and folders/;
    await assert.rejects(listTree(undefined, repository, sha, ALL), most);
    await assert.rejects(commit(), most);
    // Without recursion the list is short.
    const { items } = await listTree(undefined, repository, sha, { ...ALL, recursive: false });
    assert.equal(items.length, 2);
  });
}

test('git is ended when its comparison is cancelled, and the next one is answered', async (t) => {
  const { repository, sha } = makeRepository(t, 40, 5);
  const left = new AbortController();
  const diff = diffCommits(left.signal, repository, null, sha);
  const git = () =>
    processes((command) => command[0] === 'git' && command.includes(repository)).map(({ pid }) => pid);
  await eventually(() => git().length > 0, 'git compares');
  // git is stopped, so that it cannot end by itself.
  for (const pid of git()) process.kill(pid, 'SIGSTOP');
  left.abort(new Error('nobody waits'));
  await assert.rejects(diff, /nobody waits/);
  await eventually(() => git().length === 0, 'git has ended');
  assert.equal((await diffCommits(undefined, repository, sha, sha)).files.length, 0);
});

test('files with tabs and line breaks in their names are compared, renamed ones too', async (t) => {
  const { repository, sha, git } = makeRepository(t, 1, 1);
  const blob = git(['hash-object', '-w', '--stdin'], 'line\n'.repeat(20));
  const commitOf = (...paths: string[]) => {
    const tree = git(['mktree', '-z'], paths.map((path) => `100644 blob ${blob}\t${path}\0`).join(''));
    return git([...IDENTITY, 'commit-tree', '-m', 'm', '-p', sha, tree]);
  };
  const [one, two] = [commitOf('a\tb', '\tc\t'), commitOf('\td', '\tc\t', 'e\n')];
  const added = { from_path: null, status: 'added', additions: 20, deletions: 0 };
  const { files } = await diffCommits(undefined, repository, null, one);
  assert.deepEqual(files, [
    { path: '\tc\t', ...added },
    { path: 'a\tb', ...added },
  ]);
  const moved = { path: '\td', from_path: 'a\tb', status: 'renamed', additions: 0, deletions: 0 };
  const copied = { path: 'e\n', ...added };
  assert.deepEqual((await diffCommits(undefined, repository, one, two)).files, [moved, copied]);
});
