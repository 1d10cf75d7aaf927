// Repositories on a Git host that try to reach more than an app may, fetched by `source.sync`.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { commit } from '../support/builds/projects.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { CERTIFICATE, GitHost, gitIn } from '../support/git/git-host.ts';
import { eventually } from '../support/processes.ts';

/** Timeout in ms. The first deploy of a Cellar resolves the registries' addresses, which may be slow. */
const DEPLOY_MS = 240_000;
const MAX_MB = 8;

const cellar = new Cellar({
  RUNNER_EGRESS_ALLOW: '127.0.0.1',
  SSL_CERT_FILE: CERTIFICATE,
  RUNNER_BUILD_MAX_MB: String(MAX_MB),
});
const host = new GitHost();
const rpc = rpcOf(cellar);
before(async () => {
  await Promise.all([host.start(), cellar.start()]);
});
after(async () => {
  host.close();
  await cellar[Symbol.asyncDispose]();
});

/** Serves the repository that `change` makes of a harmless one, and connects an app to it. */
async function connected(name: string, change: (work: string) => void): Promise<string> {
  const { repository } = commit(cellar.directory, { 'index.html': 'harmless' });
  change(dirname(repository));
  host.repositories.set(name, { path: repository, token: null });
  const id = await cellar.create(name);
  await rpc('source.connect', { id, url: host.url(name), deploy_on: 'manual' });
  return id;
}

/** Writes an object of git. @returns its name */
function object(work: string, type: 'blob' | 'tree', content: string | Buffer): string {
  const words = ['-C', work, 'hash-object', '-w', '--literally', '-t', type, '--stdin'];
  return execFileSync('git', words, { input: content, encoding: 'utf8' }).trim();
}

/** Commits a tree with this entry beside the harmless file. */
function commitEntry(work: string, mode: string, path: string, sha: string): void {
  gitIn(work, 'update-index', '--add', '--cacheinfo', `${mode},${sha},${path}`);
  gitIn(work, 'commit', '--quiet', '--message', 'hostile');
}

test('submodules are not fetched', async () => {
  const requests = () => host.requests.filter((path) => path.startsWith('/inner/')).length;
  const id = await connected('submodule', (work) => {
    writeFileSync(join(work, '.gitmodules'), `[submodule "x"]\n\tpath = x\n\turl = ${host.url('inner')}\n`);
    gitIn(work, 'add', '.gitmodules');
    commitEntry(work, '160000', 'x', '1'.repeat(40));
  });
  assert.ok((await rpc('source.sync', { id })).sha);
  await eventually(async () => (await cellar.get('submodule')).text === 'harmless', 'it serves', DEPLOY_MS);
  assert.equal(requests(), 0);
});

test('a symbolic link does not show a file of the machine', async () => {
  const id = await connected('link', (work) =>
    commitEntry(work, '120000', 'passwd.txt', object(work, 'blob', '/etc/passwd')),
  );
  assert.ok((await rpc('source.sync', { id })).sha);
  await eventually(
    async () => (await rpc('deploys.list', { id })).items[0]?.finished_at != null,
    'the deploy has ended',
    DEPLOY_MS,
  );
  assert.doesNotMatch((await cellar.get('link', '/passwd.txt')).text, /root:/);
});

test('hooks and settings of a repository do not run, and none gets into that of the app', async () => {
  const made = join(cellar.directory, 'hook-ran');
  const hook = `#!/bin/sh\ntouch ${made}\n`;
  const inTree = await connected('hooks', (work) => {
    const blob = object(work, 'blob', hook);
    const tree = (mode: string, name: string, sha: string) =>
      object(work, 'tree', Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(sha, 'hex')]));
    const hooks = tree('100755', 'post-checkout', blob);
    const root = tree('40000', '.git', tree('40000', 'hooks', hooks));
    gitIn(work, 'update-ref', 'refs/heads/main', gitIn(work, 'commit-tree', root, '-m', 'hostile'));
  });
  const refused = await rpc('source.sync', { id: inTree });
  assert.equal(refused.code, 'import_failed');
  assert.match(refused.detail, /hasDotgit|\.git/);

  const outside = await connected('served-hooks', (work) => {
    // Git makes the folder only if its templates are installed.
    mkdirSync(join(work, '.git', 'hooks'), { recursive: true });
    for (const name of ['post-checkout', 'upload-pack', 'reference-transaction'])
      writeFileSync(join(work, '.git', 'hooks', name), hook, { mode: 0o755 });
  });
  assert.ok((await rpc('source.sync', { id: outside })).sha);
  assert.equal(existsSync(made), false);
});

test('a huge repository is refused, and leaves the app as it was', async () => {
  let sha = '';
  const id = await connected('huge', (work) => {
    sha = gitIn(work, 'rev-parse', 'HEAD');
    writeFileSync(join(work, 'large'), randomBytes(2 * MAX_MB * 2 ** 20));
    gitIn(work, 'add', 'large');
    gitIn(work, 'commit', '--quiet', '--message', 'large');
  });
  assert.equal((await rpc('source.sync', { id })).code, 'import_failed');
  assert.equal((await rpc('deploys.list', { id })).items.length, 0);
  assert.equal((await rpc('source.sync', { id, ref: sha })).sha, sha);
});
