// The commit that a person names: by tag, branch, hash or its first digits.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { gitEnvironment } from '../../runtime/git/environment.ts';
import { runGit } from '../../runtime/git/git.ts';
import { highestTag, namedCommit } from '../../runtime/git/named-commit.ts';
import { createRepository, DEPLOY_REF } from '../../runtime/git/repository.ts';
import { temporaryDirectory } from '../support/temporary.ts';

/** So many that the hashes of two begin with the same four digits. Their content is fixed, so their hashes are, too. */
const COMMITS = 1_500;

/** Makes a repository with commits on main. @returns their hashes, oldest first */
async function repositoryOf(t: TestContext, count: number) {
  const repository = join(temporaryDirectory(t), 'app.git');
  await createRepository(repository);
  const commits = Array.from(
    { length: count },
    (_, n) => `commit ${DEPLOY_REF}\ncommitter Ada <ada@example.com> ${n} +0000\ndata 1\nx\n`,
  );
  const options = { cwd: repository, env: gitEnvironment(), input: commits.join('') };
  assert.equal(spawnSync('git', ['fast-import', '--quiet'], options).status, 0);
  const git = async (...words: string[]) => (await runGit(repository, words)).output.toString('utf8').trim();
  const shas = (await git('rev-list', '--reverse', DEPLOY_REF)).split('\n');
  return { repository, git, shas };
}

test('a commit is named by tag, then by branch, then by hash', async (t) => {
  const { repository, git, shas } = await repositoryOf(t, 3);
  const [first, second, third] = shas as [string, string, string];
  await git('branch', 'v1', third);
  await git('branch', 'topic/a', second);
  await git('tag', 'v1', first);
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  await git(...identity, 'tag', '-a', '-m', 'annotated', 'v2', second);
  await git('tag', 'a-tree', `${first}^{tree}`);
  const found = async (name: string) => Object.values(await namedCommit(repository, name));
  assert.deepEqual(await found('v1'), [first, 'refs/tags/v1'], 'a tag comes before a branch');
  assert.deepEqual(await found('v2'), [second, 'refs/tags/v2'], 'the commit of an annotated tag');
  assert.deepEqual(await found('topic/a'), [second, 'refs/heads/topic/a']);
  assert.deepEqual(await found(second), [second, DEPLOY_REF]);
  assert.deepEqual(await found(third.slice(0, 7).toUpperCase()), [third, DEPLOY_REF]);
  for (const name of ['v3', 'a-tree', '0'.repeat(40), 'beef', first.slice(0, 3), 'HEAD', '--all'])
    await assert.rejects(namedCommit(repository, name), {
      code: 'ref_not_found',
      message: `ref: the repository has no tag, branch or commit ${name}; push it first`,
    });
});

test('digits with which several commits begin are refused, and more digits help', async (t) => {
  const { repository, shas } = await repositoryOf(t, COMMITS);
  const starts = Map.groupBy(shas, (sha) => sha.slice(0, 4));
  const [digits, alike] = [...starts].find(([, found]) => found.length > 1)!;
  await assert.rejects(namedCommit(repository, digits), {
    code: 'invalid_input',
    message: `ref: the hashes of ${alike.length} commits begin with ${digits}; give more digits`,
  });
  assert.equal((await namedCommit(repository, alike[0]!.slice(0, 12))).sha, alike[0]);
});

test('the highest version is found among tags, and a version before its release is lower', async (t) => {
  const { repository, git, shas } = await repositoryOf(t, 2);
  assert.equal(await highestTag(repository), null);
  await git('tag', 'zebra', shas[0]!);
  assert.deepEqual(await highestTag(repository), { sha: shas[0], ref: 'refs/tags/zebra' });
  await git('tag', 'v1.9', shas[0]!);
  await git('tag', 'v1.10-rc1', shas[0]!);
  await git('tag', 'v1.10', shas[1]!);
  await git('tag', 'a-name', shas[0]!);
  assert.deepEqual(await highestTag(repository), { sha: shas[1], ref: 'refs/tags/v1.10' });
  await git('tag', 'v2', `${shas[0]}^{tree}`);
  assert.equal(await highestTag(repository), null);
});
