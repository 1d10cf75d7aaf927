import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createRepository, describeCommit, writeHooks } from '../../runtime/git/repository.ts';
import { type GitRequest, serveGit } from '../../runtime/git/smart-http.ts';
import { temporaryDirectory } from '../temporary.ts';

/** A working copy, a bare repository behind smart HTTP, and stock git between them. */
async function remote(t: TestContext, onPush: GitRequest['onPush']) {
  const directory = temporaryDirectory(t);
  const repository = join(directory, 'app.git');
  const hooks = join(directory, 'hooks');
  const work = join(directory, 'work');
  await createRepository(repository);
  writeHooks(hooks);
  const server = createServer((request, response) => {
    const [path = '', query = ''] = request.url!.split('?');
    serveGit({ repository, hooks, service: path.replace('/app/', ''), query, onPush }, request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/app`;
  execFileSync('git', ['init', '--quiet', '--initial-branch=main', work]);
  const git = async (...words: string[]) => {
    const identity = { GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.com' };
    const committer = { GIT_COMMITTER_NAME: 'Ada', GIT_COMMITTER_EMAIL: 'ada@example.com' };
    const child = spawn('git', words, { cwd: work, env: { ...process.env, ...identity, ...committer } });
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (printed += chunk));
    const [code] = await once(child, 'close');
    return { code: code as number, printed };
  };
  return { url, git, work, repository };
}

test('a push hands its updates to the host and shows what the host writes', async (t) => {
  const pushes: unknown[] = [];
  const { url, git, work, repository } = await remote(t, (updates, output) => {
    pushes.push(updates);
    output.write('▸ checkout: in progress\n');
    output.end('done\n');
  });
  writeFileSync(join(work, 'a.txt'), 'a');
  await git('add', '.');
  await git('commit', '--quiet', '--message=first line\n\nmore');
  const { code, printed } = await git('push', url, 'HEAD:main', 'HEAD:side');
  assert.equal(code, 0, printed);
  assert.match(printed, /remote: ▸ checkout: in progress\s*\nremote: done/);
  const sha = (await git('rev-parse', 'HEAD')).printed.trim();
  const none = '0'.repeat(40);
  assert.deepEqual(pushes, [
    [
      { before: none, after: sha, ref: 'refs/heads/main' },
      { before: none, after: sha, ref: 'refs/heads/side' },
    ],
  ]);
  assert.deepEqual(await describeCommit(repository, sha), {
    message: 'first line',
    author: 'Ada <ada@example.com>',
  });

  const clone = await git('clone', '--quiet', url, 'copy');
  assert.equal(clone.code, 0, clone.printed);
  assert.equal((await git('-C', 'copy', 'rev-parse', 'HEAD')).printed.trim(), sha);
});

test('a pack of 100 MB passes through without being held', async (t) => {
  const { url, git, work } = await remote(t, (_, output) => output.end());
  for (let i = 0; i < 10; i++) writeFileSync(join(work, `${i}.bin`), randomBytes(10 * 1024 * 1024));
  await git('add', '.');
  await git('commit', '--quiet', '--message=large');
  const before = process.memoryUsage.rss();
  let peak = before;
  const watch = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 20);
  const { code, printed } = await git('push', url, 'HEAD:main');
  clearInterval(watch);
  assert.equal(code, 0, printed);
  assert.ok(peak - before < 50 * 1024 * 1024, `RSS rose by ${Math.round((peak - before) / 1024 / 1024)} MB`);
});

test('a repository is made once, and making it again keeps what is in it', async (t) => {
  const { url, git, repository } = await remote(t, (_, output) => output.end());
  await git('commit', '--quiet', '--allow-empty', '--message=kept');
  await git('push', url, 'HEAD:main');
  await createRepository(repository);
  assert.match((await git('ls-remote', url)).printed, /refs\/heads\/main/);
});
