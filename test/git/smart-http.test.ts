import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { isOutOfMemory } from '../../runtime/git/program.ts';
import { createRepository, describeCommit } from '../../runtime/git/repository.ts';
import { serveGit } from '../../runtime/git/smart-http.ts';
import { FLOOR_MB, remote } from '../support/git/remote.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test("a push reports its updates to the host and shows the host's output", async (t) => {
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

test('of two concurrent pushes the rejected one shows how to continue', async (t) => {
  const { url, as, git, work, repository } = await remote(t);
  await git('commit', '--quiet', '--allow-empty', '--message=one');
  assert.equal((await git('push', url, 'HEAD:main')).code, 0);
  // The hook runs after git has read main's position, and before it sends anything.
  const hook = join(work, '.git', 'hooks', 'pre-push');
  const tree = (await git('rev-parse', 'HEAD^{tree}')).printed.trim();
  for (const role of ['admin', 'push'] as const) {
    await git('fetch', '--quiet', url, 'main');
    await git('reset', '--quiet', '--hard', 'FETCH_HEAD');
    const other = (await git('commit-tree', tree, '-p', 'HEAD', '-m', `of ${role}`)).printed.trim();
    await git('commit', '--quiet', '--allow-empty', '--message=two');
    const script = `#!/bin/sh\nexec git push --quiet --no-verify ${url} ${other}:refs/heads/main\n`;
    writeFileSync(hook, script, { mode: 0o755 });
    const { code, printed } = await git('push', as(role), 'HEAD:main', `HEAD:refs/heads/of-${role}`);
    assert.equal(code, 1, printed);
    assert.match(printed, /remote: another push to main came first; fetch and push again\s*$/m);
    assert.match(printed, /HEAD -> main \(another push came first; fetch and push again\)/);
    assert.doesNotMatch(printed, /lock ref|failed to update/);
    // The other refs of the push arrive.
    assert.match(printed, new RegExp(`HEAD -> of-${role}$`, 'm'));
    const at = await git('-C', repository, 'rev-parse', 'refs/heads/main');
    assert.equal(at.printed.trim(), other);
  }
});

test('a push to a branch that a killed git left locked gets this reason, and not that another push came first', async (t) => {
  const { url, git, repository } = await remote(t);
  await git('commit', '--quiet', '--allow-empty', '--message=one');
  assert.equal((await git('push', url, 'HEAD:main')).code, 0);
  writeFileSync(join(repository, 'refs', 'heads', 'main.lock'), '');
  await git('commit', '--quiet', '--allow-empty', '--message=two');
  const { code, printed } = await git('push', url, 'HEAD:main', 'HEAD:side');
  assert.equal(code, 1, printed);
  assert.match(
    printed,
    /remote: main is locked by another push, or by one that was interrupted; push again\s*$/m,
  );
  assert.match(
    printed,
    /HEAD -> main \(locked by another push, or by one that was interrupted; push again\)/,
  );
  assert.doesNotMatch(printed, /came first/);
  assert.match(printed, /HEAD -> side$/m);
});

test("a build's log may mention memory: only errors of git itself are explained", async (t) => {
  const heap = 'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory';
  const own = 'fatal: Out of memory, malloc failed (tried to allocate 99 bytes)';
  const { url, git } = await remote(t, (_, output) => output.end(`${heap}\n${own}\n`));
  await git('commit', '--quiet', '--allow-empty', '--message=one');
  const { code, printed } = await git('push', url, 'HEAD:main');
  assert.equal(code, 0, printed);
  for (const line of [heap, own]) assert.ok(printed.includes(`remote: ${line}`), printed);
  assert.doesNotMatch(printed, /too large/);
  assert.deepEqual([heap, own].map(isOutOfMemory), [false, true]);
});

test('a pack of 100 MB is streamed without being buffered', async (t) => {
  const { url, git, work } = await remote(t, (_, output) => output.end());
  for (let i = 0; i < 10; i++) writeFileSync(join(work, `${i}.bin`), randomBytes(10 * 1024 * 1024));
  // The bytes are random: compression would only cost time.
  await git('config', 'core.compression', '0');
  await git('config', 'core.bigFileThreshold', '1m');
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

test('creating a repository again keeps its content', async (t) => {
  const { url, git, repository } = await remote(t, (_, output) => output.end());
  await git('commit', '--quiet', '--allow-empty', '--message=kept');
  await git('push', url, 'HEAD:main');
  await createRepository(repository);
  assert.match((await git('ls-remote', url)).printed, /refs\/heads\/main/);
});

test('a client that is refused in the middle of its body can send the rest', {
  timeout: 20_000,
}, async (t) => {
  const repository = join(temporaryDirectory(t), 'app.git');
  await createRepository(repository);
  const git = { repository, hooks: '/nowhere', floorMb: FLOOR_MB, query: '', onPush: () => {} };
  const served = Promise.withResolvers<void>();
  // git itself refuses a push with this role, and reads nothing of the body.
  const server = createServer((request, response) => {
    const asked = { ...git, service: 'git-receive-pack', role: 'view' as const };
    serveGit(asked, request, response).then(served.resolve, served.reject);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  const push = request({ port: (server.address() as AddressInfo).port, method: 'POST' });
  push.setHeader('content-type', 'application/x-git-receive-pack-request');
  push.write('0000');
  const [answer] = (await once(push, 'response')) as [IncomingMessage];
  assert.equal(answer.statusCode, 403);
  await text(answer);
  await served.promise;
  // More than the connection's buffers hold.
  push.end(Buffer.alloc(32 * 2 ** 20));
  await once(push, 'finish');
});
