import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { BuildFailure } from '../../../bundler/failure.ts';
import { type Checkout, checkout } from '../../../runtime/builds/source/checkout.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

/** Makes an empty repository, and a function that checks out one of its commits. */
function makeRepository(t: TestContext) {
  const directory = temporaryDirectory(t);
  const repository = join(directory, 'repository');
  const project = join(directory, 'project');
  execFileSync('git', ['init', '--quiet', '--bare', repository]);
  mkdirSync(project);
  const lines: string[] = [];
  const git = (words: string[], input = '') =>
    execFileSync('git', ['--git-dir', repository, ...words], { input, encoding: 'utf8' }).trim();
  return {
    project,
    lines,
    git,
    blob: () => git(['hash-object', '-w', '--stdin']),
    /** Writes a tree with `count` identical entries. @returns its id */
    tree: (kind: '100644 blob' | '040000 tree' | '160000 commit', sha: string, count: number) => {
      const entries = Array.from({ length: count }, (_, i) => `${kind} ${sha}\tentry-${i}\n`);
      return git(['mktree', '--missing'], entries.join(''));
    },
    commit: (tree: string) =>
      git(['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', 'commit-tree', '-m', 'A commit', tree]),
    checkout: (sha: string, more: Partial<Checkout> = {}) =>
      checkout({
        repository,
        sha,
        project,
        index: join(directory, 'index'),
        worktreeMb: 100,
        timeoutMs: 200_000,
        signal: new AbortController().signal,
        onLine: (line) => lines.push(line),
        ...more,
      }),
  };
}

for (const [what, levels] of [
  ['files', 4],
  ['empty folders', 12],
] as const) {
  test(`a commit whose few trees name millions of ${what} is refused before one is written`, async (t) => {
    const repository = makeRepository(t);
    let tree =
      what === 'files'
        ? repository.tree('100644 blob', repository.blob(), 38)
        : repository.tree('040000 tree', '', 0);
    for (let level = 1; level < levels; level++) tree = repository.tree('040000 tree', tree, 38);
    const before = process.memoryUsage.rss();
    await assert.rejects(
      repository.checkout(repository.commit(tree)),
      new BuildFailure('the commit has more than the 100000 files and folders a build may use'),
    );
    assert.deepEqual(readdirSync(repository.project), []);
    const grown = (process.memoryUsage.rss() - before) / 2 ** 20;
    assert.ok(grown < 100, `${grown} MiB more`);
  });
}

test('a listing is killed when it times out or is aborted', async (t) => {
  const repository = makeRepository(t);
  let tree = repository.tree('100644 blob', repository.blob(), 38);
  for (let level = 1; level < 4; level++) tree = repository.tree('040000 tree', tree, 38);
  const sha = repository.commit(tree);
  await assert.rejects(
    repository.checkout(sha, { timeoutMs: 1 }),
    new BuildFailure('`git ls-tree` took longer than 0.001 s and was ended'),
  );
  const abort = new AbortController();
  const ended = repository.checkout(sha, { signal: abort.signal });
  abort.abort(new Error('the host stops'));
  await assert.rejects(ended, /^Error: the host stops$/);
});

test('the log names a few of very many submodules and counts the others', async (t) => {
  const repository = makeRepository(t);
  const tree = repository.tree('160000 commit', 'a'.repeat(40), 500);
  await repository.checkout(repository.commit(tree));
  assert.equal(repository.lines.length, 21);
  assert.match(repository.lines[0]!, /^entry-0 is a submodule and stays empty/);
  assert.equal(repository.lines.at(-1), 'the same is true of 480 more');
});

test('a checkout ignores pushed replace refs', async (t) => {
  const repository = makeRepository(t);
  const file = repository.blob();
  const [sha, other] = [1, 2].map((count) =>
    repository.commit(repository.tree('100644 blob', file, count)),
  ) as [string, string];
  repository.git(['update-ref', `refs/replace/${sha}`, other]);
  await repository.checkout(sha);
  assert.deepEqual(readdirSync(repository.project), ['entry-0']);
});

test('a schema of Prisma is an input of the install, which generates its client, and a source is none', async (t) => {
  const { git, commit, checkout } = makeRepository(t);
  const digestOf = async (name: string, text: string) => {
    const file = git(['hash-object', '-w', '--stdin'], text);
    return (await checkout(commit(git(['mktree'], `100644 blob ${file}\t${name}\n`)))).digest;
  };
  assert.notEqual(await digestOf('schema.prisma', 'model A'), await digestOf('schema.prisma', 'model B'));
  assert.equal(await digestOf('index.js', 'a'), await digestOf('index.js', 'b'));
});

test('a missing commit fails with the error of git', async (t) => {
  await assert.rejects(
    makeRepository(t).checkout('a'.repeat(40)),
    /^Error: git ls-tree failed: .*not a tree object/,
  );
});
